"""On JAX, Keras's `DataParallel` shares a batch among devices, and the steps are those of one."""

import numpy as np
import pytest

from tests.backends.program import LABELS
from tests.backends.test_backends import FIGURES


def part(found, prefix):
    chosen = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    assert chosen
    return chosen


@pytest.mark.thorough
def test_two_devices_train_as_one(found):
    """20 steps of SGD, on rows of unequal length of which one is padding alone."""
    one, two = (part(found, f"{number}/weights/") for number in (1, 2))
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=0, atol=1e-5, err_msg=name)
    figures = part(found, "2/figures/")
    assert figures.keys() == FIGURES
    assert figures == pytest.approx(part(found, "1/figures/"), rel=1e-5)
    assert figures["tokens"] == np.count_nonzero(LABELS)


def test_both_devices_have_the_weights(found):
    assert set(part(found, "2/devices/").values()) == {2}
    assert set(part(found, "1/devices/").values()) == {1}
