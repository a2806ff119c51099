"""What a model attends to, sentence by sentence, against the independent forward pass, under the right tokens."""

import numpy as np
import pytest

from tests import reference
from tests.eager import eagerly
from tf_transformer import DecodingOptions, Transformer, Translator, train_tokenizers
from tf_transformer.errors import UserError
from tf_transformer.inspection.sentence import inspect
from tf_transformer.tokenizers.base import END_ID, START_ID

PAIRS = [("the dog sees the cat", "der Hund sieht die Katze"), ("the cat sleeps", "die Katze schläft")]
SOURCES = ["the dog sleeps", "the cat sees the dog, and the dog sees the cat", "dog"]


@pytest.fixture(autouse=True, scope="module")
def eager():
    """The graph, an export's, has its turn in `tests/cli/test_inspect.py`."""
    with eagerly():
        yield


@pytest.fixture(
    scope="module",
    params=[pytest.param(True, marks=pytest.mark.thorough, id="joint"), pytest.param(False, id="separate")],
)
def tokenizers(request):
    return train_tokenizers(PAIRS, vocab_size=285, joint=request.param)


@pytest.fixture(scope="module")
def model(tokenizers):
    model = Transformer(2, 16, 4, 24, tokenizers.source.vocab_size, tokenizers.target.vocab_size, max_length=64)
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


@pytest.fixture(scope="module")
def inspections(eager, model, tokenizers):
    options = DecodingOptions(beam_size=1, max_length=7)
    return inspect(Translator(model, tokenizers, options).functions["translate_with_attention"], SOURCES)


@pytest.mark.parametrize("number", range(len(SOURCES)))
def test_weights_are_the_reference_s_and_tokens_those_they_are_between(model, tokenizers, inspections, number):
    found = inspections[number]
    assert found.source == SOURCES[number]
    assert not found.truncated
    source_ids = [*tokenizers.source.tokenize([found.source])[0].numpy().tolist(), END_ID]
    assert found.source_tokens == tokenizers.source.pieces(source_ids)
    # The tokens that were chosen, which tokenizing the translation again need not give.
    names = tokenizers.target.pieces(list(range(tokenizers.target.vocab_size)))
    target_ids = [names.index(token) for token in found.target_tokens]
    assert tokenizers.target.detokenize(np.array([target_ids])).numpy()[0].decode() == found.translation
    _, expected = reference.transformer(
        reference.weights_of(model),
        np.array([source_ids]),
        np.array([[START_ID, *target_ids[:-1]]]),
        num_layers=2,
        num_heads=4,
        norm_first=False,
        position="sinusoidal",
        share_embeddings="none",
    )
    for kind, weights in found.attention.items():
        np.testing.assert_allclose(weights, np.stack(expected[kind])[:, 0], rtol=0, atol=1e-5)
    assert list(found.attention) == ["encoder", "decoder", "cross"]
    assert len(found.alignment) == len(target_ids)


def test_a_blank_text_has_no_target_tokens(model, tokenizers):
    (found,) = inspect(Translator(model, tokenizers).functions["translate_with_attention"], [" "])
    assert found.target_tokens == found.alignment == []
    assert found.attention["cross"].shape[2] == 0


def test_one_string_is_not_taken_letter_by_letter():
    with pytest.raises(UserError, match=r"^texts is one string; give a list of strings, .*: \['a dog', \.\.\.\]$"):
        inspect(None, "a dog")
