"""Unknown tokens that become the source words they attend to: WordPiece, whose vocabulary lacks most characters."""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.translation.conftest import ByDefinition
from tf_transformer import Transformer
from tf_transformer.decoding import DecodingOptions
from tf_transformer.tokenizers import TokenizerPair, WordPieceTokenizer
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID, UNKNOWN_ID
from tf_transformer.translation import Translator

# tests/translation/test_bad_input.py replaces unknown tokens in a graph.
pytestmark = pytest.mark.usefixtures("eager")

SPECIAL = ["[PAD]", "[UNK]", "[START]", "[END]"]
ENGLISH = [*SPECIAL, "a", "dog", "##s", "see", "##ing", "the", "cat", "."]
# Whole words alone: a translation's text tells its tokens.
GERMAN = [*SPECIAL, "Hund", "sieht", "die", "Katze", "."]

# The words of several pieces set tokens and words apart; "Zürich" is unknown on both sides.
TEXTS = ["dogs seeing cats", "the dog.", "Zürich cats seeing Zürich dogs", "a", "cats . seeing", "", "dogs dogs seeing"]
PREFIX = "漢字"  # two words, neither of them known


@pytest.fixture(scope="module")
def translator(eager):
    tokenizers = TokenizerPair(WordPieceTokenizer(ENGLISH), WordPieceTokenizer(GERMAN), "wordpiece")
    model = Transformer(2, 16, 4, 24, len(ENGLISH), len(GERMAN), max_length=30)
    model.build(((None, None), (None, None)))
    reference.randomise(model)
    for layer in model.decoder.layers:  # sharper attention: to different words in different texts
        layer.cross_attention.query.kernel.assign(layer.cross_attention.query.kernel * 5)
    # Greedy search never says the opening token, which leaves no text: its logit is the mean of the others.
    kernel = model.projection.kernel.numpy()
    kernel[:, START_ID] = np.delete(kernel, [PAD_ID, START_ID], axis=1).mean(axis=1)
    model.projection.kernel.assign(kernel)
    translator = Translator(model, tokenizers, DecodingOptions(extra_length=4, beam_size=2))
    # A word that it says changes places with the unknown token, so that it says that too.
    said = translator.translate(TEXTS[:1])["translation"].numpy()[0].split()[0].decode()
    order = np.arange(len(GERMAN))
    order[[UNKNOWN_ID, GERMAN.index(said)]] = GERMAN.index(said), UNKNOWN_ID
    model.projection.kernel.assign(model.projection.kernel.numpy()[:, order])
    model.decoder.embedding.embeddings.assign(model.decoder.embedding.embeddings.numpy()[order])
    return translator


def words_attended_to(translator, text, target):
    """For each token of `target`: the source word of the piece with the highest mean weight."""
    definition = ByDefinition(translator)
    source = definition.source(text)
    _, weights = definition.run(source, target)
    places = weights["cross"].mean(axis=(0, 1))[:, :-1].argmax(axis=-1)
    pieces = definition.tokenizers.source.pieces(source[:-1])
    word_of_piece = np.cumsum([not piece.startswith("##") for piece in pieces]) - 1
    words = text.replace(".", " .").split()
    return [words[word_of_piece[place]] for place in places]


def translate(translator, **changes):
    output = translator.translate(TEXTS, prefix=[PREFIX] * len(TEXTS), **changes)["translation"].numpy()
    return [text.decode() for text in output]


def test_an_unknown_token_becomes_the_word_it_attends_to(translator):
    plain, replaced = (translate(translator, beam_size=1, replace_unknown=replace) for replace in (False, True))
    chosen = set()
    for text, before, after in zip(TEXTS, plain, replaced, strict=True):
        if not text:
            assert before == after == ""
            continue
        assert before.startswith("[UNK] [UNK]")
        target = translator.tokenizers.target.tokenize([before.replace("[UNK]", "漢")]).to_list()[0]
        assert target[:2] == [UNKNOWN_ID] * 2
        words = words_attended_to(translator, text, [*target, END_ID])
        unknown = [word for word, token in zip(words, target, strict=False) if token == UNKNOWN_ID]
        for word in unknown:
            before = before.replace("[UNK]", word, 1)
        assert after == before
        chosen |= set(unknown)
    # Words of one piece and of several, behind others that have several.
    assert {"Zürich", "seeing"} <= chosen or len(chosen) > 3


@pytest.mark.thorough
def test_each_hypothesis_and_each_sample_has_its_own(translator):
    for changes in ({"num_hypotheses": 2}, {"num_hypotheses": 3, "temperature": 1.0}):
        outputs = [
            translator.translate(TEXTS, [PREFIX] * len(TEXTS), replace_unknown=replace, **changes)
            for replace in (False, True)
        ]
        plain, replaced = (output["translation"].numpy() for output in outputs)
        assert plain.shape == replaced.shape
        assert outputs[0]["score"].numpy().tolist() == outputs[1]["score"].numpy().tolist()
        assert not any(b"[UNK]" in text for text in replaced.flat)
        for before, after in zip(plain.flat, replaced.flat, strict=True):
            assert [word for word in before.split() if word != b"[UNK]"] == [
                word for word, other in zip(after.split(), before.split(), strict=True) if other != b"[UNK]"
            ]


def test_as_an_option_of_the_translator(translator):
    options = DecodingOptions(extra_length=4, beam_size=2, replace_unknown=True)
    other = Translator(translator.model, translator.tokenizers, options)
    names = "translate", "translate_with_attention", "translate_nbest"
    first, second, third = (other.functions[name](tf.constant(TEXTS))["translation"].numpy() for name in names)
    plain = other.translate(TEXTS, replace_unknown=False)["translation"].numpy().tolist()
    assert first.tolist() == second.tolist() == third[:, 0].tolist()
    assert any(b"[UNK]" in text for text in plain)
    assert not any(b"[UNK]" in text for text in third.flat)
    # Without an unknown token nothing changes.
    assert [text for text in plain if b"[UNK]" not in text] == [
        after for before, after in zip(plain, first.tolist(), strict=True) if b"[UNK]" not in before
    ]
