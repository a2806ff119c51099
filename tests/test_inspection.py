"""The attention weights of a sentence, against the independent forward pass, under the right tokens."""

import numpy as np
import pytest

from tests import reference
from tf_transformer import Transformer, train_tokenizers
from tf_transformer.inspection import attention_of
from tf_transformer.tokenizers.base import END_ID, START_ID

PAIRS = [("the dog sees the cat", "der Hund sieht die Katze"), ("the cat sleeps", "die Katze schläft")]
SOURCE, TARGET = "the dog sleeps", "der Hund schläft"


@pytest.fixture(scope="module", params=[True, False], ids=["joint", "separate"])
def tokenizers(request):
    return train_tokenizers(PAIRS, vocab_size=285, joint=request.param)


@pytest.fixture(scope="module")
def model(tokenizers):
    model = Transformer(2, 16, 4, 24, tokenizers.source.vocab_size, tokenizers.target.vocab_size, max_length=64)
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


@pytest.fixture(scope="module")
def ids(tokenizers):
    """The tokens of the two sentences."""
    sides = (tokenizers.source, SOURCE), (tokenizers.target, TARGET)
    return [tokenizer.tokenize([text])[0].numpy().tolist() for tokenizer, text in sides]


def test_weights_are_the_reference_s(model, tokenizers, ids):
    source_ids, target_ids = ids
    attention = attention_of(model, tokenizers, SOURCE, TARGET)
    _, expected = reference.transformer(
        reference.weights_of(model),
        np.array([[*source_ids, END_ID]]),
        np.array([[START_ID, *target_ids]]),
        num_layers=2,
        num_heads=4,
        norm_first=False,
        position="sinusoidal",
        share_embeddings="none",
    )
    for kind in ("encoder", "decoder", "cross"):
        weights = getattr(attention, kind)
        assert isinstance(weights, np.ndarray)
        np.testing.assert_allclose(weights, np.stack(expected[kind])[:, 0], rtol=0, atol=1e-5)


def test_tokens_are_those_the_weights_are_between(model, tokenizers, ids):
    source_ids, target_ids = ids
    attention = attention_of(model, tokenizers, SOURCE, TARGET)
    assert attention.source_tokens == [*tokenizers.source.pieces(source_ids), "</s>"]
    assert attention.target_tokens == [*tokenizers.target.pieces(target_ids), "</s>"]
    assert "".join(attention.source_tokens[:-1]).replace("▁", " ").strip() == SOURCE
    rows, columns = len(attention.target_tokens), len(attention.source_tokens)
    assert attention.encoder.shape == (2, 4, columns, columns)
    assert attention.decoder.shape == (2, 4, rows, rows)
    assert attention.cross.shape == (2, 4, rows, columns)


def test_without_a_translation_the_closing_token_is_left(model, tokenizers):
    attention = attention_of(model, tokenizers, SOURCE, "")
    assert attention.target_tokens == ["</s>"]
    assert attention.cross.shape[2] == 1
