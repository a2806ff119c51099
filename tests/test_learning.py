"""A tiny Transformer learns a task, which takes everything at once: model, loss, schedule, fit, cache and search."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.decoding.by_hand import padded
from tf_transformer import Perplexity, SmoothedCrossEntropy, TokenAccuracy, Transformer, TransformerSchedule
from tf_transformer.decoding import Stepper, greedy_search

START, END, FIRST, VOCABULARY = 2, 3, 4, 12
LONGEST = 6


def sequences(number, seed):
    """Distinct random sequences of 2 to LONGEST tokens, in random order."""
    random = np.random.default_rng(seed)
    found = {}
    while len(found) < number:
        found[tuple(random.integers(FIRST, VOCABULARY, random.integers(2, LONGEST + 1)).tolist())] = None
    return list(found)


@pytest.mark.slow
def test_a_tiny_transformer_learns_to_reverse():
    keras.utils.set_random_seed(1)
    everything = sequences(8200, seed=0)
    train, unseen = everything[:8000], everything[8000:]

    model = Transformer(1, 32, 2, 64, VOCABULARY, VOCABULARY, dropout_rate=0, max_length=16, share_embeddings="all")
    model.compile(
        keras.optimizers.Adam(TransformerSchedule(32, 100, 0.5), beta_2=0.98, epsilon=1e-9),
        SmoothedCrossEntropy(0.1),
        metrics=[Perplexity(), TokenAccuracy()],
        jit_compile=False,
    )
    source_ids = padded([(*tokens, END) for tokens in train], LONGEST + 1)
    target_ids = padded([(START, *reversed(tokens)) for tokens in train], LONGEST + 1)
    labels = padded([(*reversed(tokens), END) for tokens in train], LONGEST + 1)
    model.fit((source_ids, target_ids), labels, batch_size=64, epochs=5, verbose=0)

    @tf.function(autograph=False)
    def translate(source_ids):
        stepper = Stepper(model)
        limits = tf.fill(tf.shape(source_ids)[:1], LONGEST + 1)
        return greedy_search(stepper, stepper.start_cache(source_ids), limits, START, END)

    ids, scores = translate(tf.constant(padded([(*tokens, END) for tokens in unseen], LONGEST + 1)))
    right = (ids.numpy() == padded([(*reversed(tokens), END) for tokens in unseen], LONGEST + 1)).all(axis=1)
    assert right.mean() > 0.95
    # It is sure where it is right.
    assert scores.numpy()[right].mean() > -2
