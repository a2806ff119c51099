"""What tests of steps have in common."""

import pytest

from tests.models.steps import SHARING, OverLogits, train


@pytest.fixture(scope="module")
def over_logits():
    """Keras's own steps, for each way of sharing embeddings."""
    return {share: train(share, OverLogits(0.1)) for share in SHARING}
