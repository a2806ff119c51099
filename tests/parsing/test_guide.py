"""The guide that tells a parser's attention which word comes next, against the definition, one position at a time."""

import math

import keras
import numpy as np
import pytest

from tests.recipe.recipes import DEMO, refusal
from tf_transformer import SmoothedCrossEntropy, Transformer
from tf_transformer.parsing.guide import LEAST, WordGuide
from tf_transformer.tokenizers import train_parsing_tokenizers

PAIRS = [
    ("The dogs bark .", "(S (NP XX XX )NP (VP XX )VP XX )S"),
    ("Naïve dogs in Zürich sleep .", "(S (NP (NP XX XX )NP (PP XX (NP XX )NP )PP )NP (VP XX )VP XX )S"),
]
RECIPE = DEMO.parent / "parsing_demo.yaml"


@pytest.fixture(scope="module")
def tokenizers():
    return train_parsing_tokenizers(PAIRS, vocab_size=300)


def batch(tokenizers):
    """Inputs and labels of both pairs, padded."""
    sides = []
    for tokenizer, texts in zip((tokenizers.source, tokenizers.target), zip(*PAIRS, strict=True), strict=True):
        rows = [[*ids, 3] for ids in tokenizer.tokenize(list(texts)).to_list()]
        width = max(map(len, rows))
        sides.append(np.array([row + [0] * (width - len(row)) for row in rows], "int32"))
    source, labels = sides
    return (source, np.pad(labels, [(0, 0), (1, 0)], constant_values=2)[:, :-1] * (labels != 0)), labels


def test_it_is_its_definition(tokenizers):
    """An `XX`, and each bracket before it, goes with the pieces of the word that comes next; the end with the end."""
    (source, target), labels = batch(tokenizers)
    random = np.random.default_rng(0)
    cross = [random.dirichlet(np.ones(source.shape[1]), (2, 3, target.shape[1])).astype("float32") for _ in range(3)]
    expected = 0.0
    for row, (sentence, tree) in enumerate(PAIRS):
        # Which pieces each word was cut into, found by cutting each word alone.
        places, start = [], 0
        for word in sentence.split():
            number = len(tokenizers.source.tokenize([word]).to_list()[0])
            places.append(range(start, start + number))
            start += number
        places.append(range(start, start + 1))
        assert source[row, start] == 3
        written = tree.split()
        for position in range(len(written) + 1):
            coming = written[:position].count("XX")
            found = sum(cross[1][row, 0, position, place] for place in places[coming])
            expected -= math.log(found + LEAST)
    got = WordGuide(tokenizers.source, weight=0.7)((source, target), cross)
    assert float(got) == pytest.approx(0.7 * expected, rel=1e-5)


def of_the_coming_word(tokenizers, guided, parallel_parts=1, r_drop=0.0):
    """How much of its attention the guided head gives to the word that comes next, after a training."""
    inputs, labels = batch(tokenizers)
    guide = WordGuide(tokenizers.source, weight=1.0)
    keras.utils.set_random_seed(1)
    sizes = {"input_vocab_size": 300, "target_vocab_size": tokenizers.target.vocab_size}
    model = Transformer(2, 32, 2, 64, **sizes, dropout_rate=0.0, norm_first=True, share_embeddings="target")
    model.guide, model.parallel_parts = guide if guided else None, parallel_parts
    model.compile(keras.optimizers.Adam(0.005), SmoothedCrossEntropy(0.0, r_drop))
    model.fit(inputs, labels, batch_size=2, epochs=40, verbose=0)
    _, scores = model(inputs, return_attention_scores=True)
    return math.exp(-float(guide(inputs, scores["cross"])) / (labels != 0).sum())


@pytest.mark.parametrize("options", [{}, {"parallel_parts": 2}, {"r_drop": 1.0}], ids=str)
def test_training_with_it_makes_the_head_follow_the_words(tokenizers, options):
    """With each way of working on a batch."""
    assert of_the_coming_word(tokenizers, guided=True, **options) > 0.8


def test_without_it_that_head_does_nothing_of_the_kind(tokenizers):
    assert of_the_coming_word(tokenizers, guided=False) < 0.5


def test_a_validation_tells_the_loss_without_it(tokenizers):
    inputs, labels = batch(tokenizers)
    sizes = {"input_vocab_size": 300, "target_vocab_size": tokenizers.target.vocab_size}
    model = Transformer(1, 16, 2, 32, **sizes, share_embeddings="target")
    model.compile("sgd", SmoothedCrossEntropy(0.1), run_eagerly=True)
    before = model.evaluate(inputs, labels, verbose=0)
    model.guide = WordGuide(tokenizers.source, weight=1.0)
    assert model.evaluate(inputs, labels, verbose=0) == pytest.approx(before, rel=1e-6)
    assert model(inputs).shape == (*labels.shape, tokenizers.target.vocab_size)


def test_recipes_that_can_t_have_it():
    assert "only of trees" in refusal(DEMO, "training.guided_attention=1.0")
    told = refusal(RECIPE, "training.guided_attention=1.0", "tokenizer.kind=wordpiece")
    assert "training.guided_attention is 1.0" in told and "parts words at punctuation" in told
