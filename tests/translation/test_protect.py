"""The option `protect` of a translator and of its SavedModel."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.tiny_run import PAIRS
from tests.translation.conftest import with_options
from tf_transformer.decoding import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.protection.glossary import Glossary
from tf_transformer.translation import Translator

pytestmark = pytest.mark.usefixtures("eager")

SOURCES, TARGETS = (list(side) for side in zip(*PAIRS, strict=True))

SPANS = [["{name}"], [], [], ["www.example.com", "5 km"], ["😀"], ["<b>", "</b>"]]
TEXTS = [
    f"{SOURCES[0]} {{name}}",
    SOURCES[1],
    "",
    f"www.example.com {SOURCES[2][:-1]} 5 km.",
    "😀",
    f"<b>{SOURCES[3]}</b>",
]
# The model knows its sentences by heart. What it attends to is another matter: where spans go is tested by hand.
RESTS = [TARGETS[0], TARGETS[1], "", TARGETS[2], "", TARGETS[3]]


def decoded(translations) -> list[str]:
    return [text.decode() for text in np.asarray(translations)]


def check(translations) -> None:
    """Each span is there once, and the rest is the translation of the text without them."""
    for text, spans, rest in zip(decoded(translations), SPANS, RESTS, strict=True):
        for span in spans:
            assert text.count(span) == 1
            text = text.replace(span, " ")
        assert re.sub(r" (?=\.)", "", " ".join(text.split())) == rest


@pytest.mark.parametrize(
    "changes", [{}, {"beam_size": 1}, {"replace_unknown": True}], ids=["beam", "greedy", "unknown"]
)
def test_spans_come_out_as_they_are(translator, changes):
    check(translator.translate(TEXTS, protect=True, **changes)["translation"])


@pytest.mark.thorough
def test_the_saved_model_does_the_same(translator, loaded):
    by_export = with_options(loaded, TEXTS, protect=True)["translation"][:, 0]
    assert by_export.tolist() == translator.translate(TEXTS, protect=True)["translation"].numpy().tolist()
    check(by_export)


def test_every_hypothesis_has_them(translator):
    output = translator.translate(TEXTS, protect=True, num_hypotheses=3)
    translations, scores = (output[name].numpy() for name in ("translation", "score"))
    check(translations[:, 0])
    for row, row_scores, spans in zip(translations, scores, SPANS, strict=True):
        for translation, score in zip(decoded(row), row_scores, strict=True):
            assert translation == "" if score == -np.inf else all(translation.count(span) == 1 for span in spans)
    assert (scores == -np.inf).any()


def test_as_an_option_of_the_translator(translator):
    other = Translator(translator.model, translator.tokenizers, DecodingOptions(extra_length=10, protect=True))
    for name in ("translate", "translate_with_attention"):
        check(other.functions[name](tf.constant(TEXTS))["translation"])
    plain = decoded(other.translate(TEXTS, protect=False)["translation"])
    assert plain == decoded(translator.translate(TEXTS)["translation"])
    assert plain[1] == RESTS[1] and "{name}" not in plain[0]


def test_terms(translator):
    """A term comes out as the glossary has it; the model reads the term itself."""
    texts = Glossary({"house": "Schloss", "apple": "Pfirsich"}).mark(SOURCES)
    for text, translation in zip(
        SOURCES, decoded(translator.translate(texts, protect=True)["translation"]), strict=True
    ):
        assert translation.count("Schloss" if "house" in text else "Pfirsich") == 1


def test_a_prefix_is_refused(translator):
    with pytest.raises(UserError, match="prefix can't be given where text is protected"):
        translator.translate(TEXTS[:1], prefix=["Ein"], protect=True)
