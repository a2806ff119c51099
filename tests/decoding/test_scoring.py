"""Scores of given translations, against the equations in NumPy."""

import numpy as np
import pytest

from tests import reference
from tests.decoding.by_hand import log_softmax, padded
from tf_transformer import Transformer
from tf_transformer.decoding import score_tokens, shift_right

START, END, VOCABULARY = 2, 3, 23

PAIRS = [([5, 6, 7, END], [8, 9, END]), ([END], [END]), ([4, 4, END], [10, 11, 12, 13, END]), ([20, END], [21, 22])]


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def model(request):
    model = Transformer(1, 16, 4, 24, VOCABULARY, VOCABULARY, norm_first=request.param)
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


def by_definition(model, source, target):
    """Of one pair without padding: the log-probability of each token."""
    logits, _ = reference.transformer(
        reference.weights_of(model),
        np.array([source]),
        np.array([[START, *target[:-1]]]),
        num_layers=1,
        num_heads=4,
        norm_first=model.norm_first,
        position="sinusoidal",
        share_embeddings="none",
    )
    return log_softmax(logits[0])[np.arange(len(target)), target]


def test_each_token_has_the_log_probability_of_the_definition(model):
    sources, targets = zip(*PAIRS, strict=True)
    scores = np.asarray(score_tokens(model, padded(sources, 6), padded(targets, 7), START))
    assert scores.dtype == np.float32
    assert scores.shape == (4, 7)
    for row, (source, target) in enumerate(PAIRS):
        np.testing.assert_allclose(scores[row, : len(target)], by_definition(model, source, target), atol=1e-4)
        assert not scores[row, len(target) :].any()


def test_a_pair_s_scores_are_its_own(model):
    sources, targets = zip(*PAIRS, strict=True)
    together = np.asarray(score_tokens(model, padded(sources, 6), padded(targets, 7), START))
    for row, (source, target) in enumerate(PAIRS):
        alone = np.asarray(score_tokens(model, np.array([source]), np.array([target]), START))[0]
        np.testing.assert_allclose(together[row, : len(target)], alone, atol=1e-5)


def test_a_likelier_translation_scores_higher(model):
    """Of all last tokens, the one with the highest logit; and all their probabilities make 1."""
    targets = [[8, 9, token] for token in range(1, VOCABULARY)]
    source = np.array([[5, 6, END]] * len(targets))
    last = np.asarray(score_tokens(model, source, np.array(targets), START))[:, -1]
    logits = np.asarray(model((source[:1], np.array([[START, 8, 9]]))))[0, -1]
    assert last.argmax() == logits[1:].argmax()
    assert np.exp(last).sum() == pytest.approx(1 - np.exp(log_softmax(logits)[0]), abs=1e-5)


def test_shift_right():
    shifted = shift_right(np.array([[7, 8, END], [9, END, 0]]), START)
    assert np.asarray(shifted).tolist() == [[START, 7, 8], [START, 9, END]]
    assert np.asarray(shift_right(np.zeros((2, 0), "int32"), START)).shape == (2, 0)
