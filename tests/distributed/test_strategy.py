"""Two devices take the same steps as one, whatever share of the padding each of them gets.

With dropout they can't, for each draws its own; `tests/experiment/test_experiment.py` trains that way.
"""

import itertools
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.eager import eagerly
from tf_transformer import (
    DecodingOptions,
    DemoSource,
    Perplexity,
    SmoothedCrossEntropy,
    TokenAccuracy,
    Transformer,
    TransformerSchedule,
    Translator,
    UserError,
    make_batches,
    make_strategy,
    train_tokenizers,
)
from tf_transformer.data.batching import with_known_length
from tf_transformer.training import TokenCount
from tf_transformer.training.loss import smoothed_cross_entropy
from tf_transformer.training.step_count import steps_taken

STEPS = 20
VOCABULARY = 340
LONGEST = 96


def naive_loss(labels, logits):
    """The plain way: each device divides by its own tokens, and the devices' means are averaged."""
    labels = ops.cast(labels, "int32")
    real = ops.cast(labels != 0, "float32")
    mean = ops.sum(smoothed_cross_entropy(labels, logits, 0.1) * real) / ops.maximum(ops.sum(real), 1)
    return mean / tf.distribute.get_strategy().num_replicas_in_sync


def sgd():
    return keras.optimizers.SGD(0.1)


def adam():
    return keras.optimizers.Adam(TransformerSchedule(16, 400), beta_2=0.98, epsilon=1e-9)


def made_up_batches() -> tf.data.Dataset:
    """A batch for each step, whose lower half is far more padded than the upper one."""

    def generate():
        random = np.random.default_rng(0)
        for step in range(STEPS):
            rows = 4 if step % 3 == 0 else 6
            source_ids, labels = (random.integers(4, VOCABULARY, (rows, length)) for length in (7, 9))
            for row in range(rows):
                source_ids[row, 7 - row :] = 0
                labels[row, max(1, 9 - 2 * row) :] = 0
            target_ids = np.pad(labels, [(0, 0), (1, 0)], constant_values=2)[:, :-1] * (labels != 0)
            yield (source_ids, target_ids), labels

    ids = tf.TensorSpec((None, None), tf.int32)
    batches = tf.data.Dataset.from_generator(generate, output_signature=((ids, ids), ids))
    # Where a dataset's end comes as a surprise, TensorFlow may count a step that it does not take.
    return batches.apply(tf.data.experimental.assert_cardinality(STEPS))


def real_batches() -> tf.data.Dataset:
    """Sentences in batches for two devices; 37 of them, so that not all batches are even."""
    pairs = list(itertools.islice(DemoSource("train"), 37))
    tokenizers = train_tokenizers(pairs, vocab_size=VOCABULARY)
    return with_known_length(make_batches(pairs, tokenizers, batch_tokens=256, max_length=LONGEST, row_multiple=2))


def transformer():
    return Transformer(1, 16, 2, 32, VOCABULARY, VOCABULARY, dropout_rate=0, max_length=LONGEST, share_embeddings="all")


def small():
    """A model that is traced in a moment, with none of the Transformer's gradients that are 0 but for rounding."""
    ids = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    states = keras.layers.Embedding(VOCABULARY, 16)(ids[1])
    return keras.Model(ids, keras.layers.Dense(VOCABULARY)(keras.layers.Dense(16, "tanh")(states)))


def train(strategy, make_model, optimizer, loss=None, parts=1):
    """Makes and trains a model, from the same start each time; returns it and the figures that `fit` told.

    Each device works its share of a batch in so many `parts`.
    """
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make_model()
        model.compile(
            optimizer=optimizer(),
            loss=loss or SmoothedCrossEntropy(),
            metrics=[Perplexity(), TokenAccuracy(), TokenCount()],
            jit_compile=False,
        )
    model.gradient_accumulation = parts
    figures = train_on(model, made_up_batches())
    assert steps_taken(model) == STEPS
    return model, figures


def train_on(model, batches):
    """Trains for an epoch; returns the figures that `fit` told."""
    history = model.fit(batches, shuffle=False, verbose=0).history
    assert history.keys() == {"loss", "perplexity", "accuracy", "tokens"}
    return {name: values[-1] for name, values in history.items()}


def distance(one, other):
    """The largest difference between two models' weights."""
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def one():
    return make_strategy("single")


@pytest.fixture(scope="module")
def two():
    return make_strategy("mirrored")


class Trained(NamedTuple):
    """A model after `train`; its weights and figures, which stay those when the model is trained on."""

    model: keras.Model
    weights: list[np.ndarray]
    figures: dict[str, float]


@pytest.fixture(scope="module")
def alone(one):
    """The training on one device that those on two must equal."""
    model, figures = train(one, transformer, sgd)
    return Trained(model, model.get_weights(), figures)


def test_there_are_two_devices(one, two):
    assert one.num_replicas_in_sync == 1
    assert two.num_replicas_in_sync == 2


def test_an_unknown_distribution_is_refused():
    with pytest.raises(UserError, match="must be mirrored or single, got 'both'"):
        make_strategy("both")


def test_two_devices_train_as_one_under_sgd(alone, two):
    """First on the batches made up here, then on sentences."""
    together, figures = train(two, transformer, sgd)
    assert distance(alone.weights, together.get_weights()) < 1e-5
    assert figures == pytest.approx(alone.figures, rel=1e-5)
    tokens = sum(np.count_nonzero(labels) for _, labels in made_up_batches().as_numpy_iterator())
    assert figures["tokens"] == alone.figures["tokens"] == tokens

    keras.utils.set_random_seed(1)
    untrained = transformer()
    untrained.build(((None, None), (None, None)))
    assert distance(alone.weights, untrained.get_weights()) > 0.1

    batches = real_batches()
    pairs = [np.count_nonzero(labels[:, 0]) for _, labels in batches.as_numpy_iterator()]
    assert sum(pairs) == 37
    assert 1 in pairs  # of which the second device gets nothing but padding
    assert any(number % 2 and number > 1 for number in pairs)
    assert train_on(together, batches) == pytest.approx(train_on(alone.model, batches), rel=1e-5)
    assert distance(alone.model.get_weights(), together.get_weights()) < 1e-5


@pytest.mark.thorough
def test_two_devices_that_work_in_parts_train_as_one(alone, two):
    """Whose parts are unequal in number of tokens, and some of them padding alone."""
    together, figures = train(two, transformer, sgd, parts=3)
    assert distance(alone.weights, together.get_weights()) < 1e-5
    assert figures == pytest.approx(alone.figures, rel=1e-5)


@pytest.mark.thorough
def test_two_devices_train_as_one_under_adam(one, two):
    """Its averages of the gradients and its steps are counted once, not once a device."""
    (alone, figures_alone), (together, figures_together) = (train(each, small, adam) for each in (one, two))
    assert distance(alone.get_weights(), together.get_weights()) < 1e-5
    assert figures_together == pytest.approx(figures_alone, rel=1e-5)
    keras.utils.set_random_seed(1)
    assert distance(alone.get_weights(), small().get_weights()) > 1e-3


@pytest.mark.thorough
def test_averaging_the_devices_means_is_another_training(one, two):
    """On the same batches, whose padding is unequal indeed: the tests above could fail."""

    def unigrams():
        """The least model of tokens: their frequencies."""
        ids = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
        return keras.Model(ids, keras.layers.Embedding(VOCABULARY, VOCABULARY)(ids[1] * 0))

    models = (train(one, unigrams, sgd), train(one, unigrams, sgd, naive_loss), train(two, unigrams, sgd, naive_loss))
    alone, naive_alone, naive = (model.get_weights() for model, _ in models)
    assert distance(alone, naive_alone) < 1e-6
    assert distance(alone, naive) > 1e-3


def test_a_model_that_a_translator_built_trains_on_all_devices():
    """As where a callback's translator is made before the first `fit`, outside of the scope."""
    pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
    tokenizers = train_tokenizers(pairs, vocab_size=290)
    strategy = make_strategy("mirrored")
    with strategy.scope():
        model = Transformer(1, 8, 2, 16, *[tokenizers.source.vocab_size] * 2, dropout_rate=0.0, max_length=16)
        model.compile(sgd(), SmoothedCrossEntropy(), jit_compile=False)
    batches = make_batches(pairs, tokenizers, batch_tokens=64, max_length=16, row_multiple=2, repeat=True)
    with eagerly():
        translator = Translator(model, tokenizers, DecodingOptions(beam_size=1, extra_length=2))
        before = translator.functions["score"](tf.constant(["a dog"]), tf.constant(["ein Hund"]))["score"]
        model.fit(batches, steps_per_epoch=1, shuffle=False, verbose=0)
        after = translator.functions["score"](tf.constant(["a dog"]), tf.constant(["ein Hund"]))["score"]
    assert strategy.num_replicas_in_sync == 2 and after > before


@pytest.mark.slow  # a translator builds it there in the test above
@pytest.mark.parametrize("tree_state", [None, [[3, 7], [4], [5], [6]]], ids=["translates", "parses"])
def test_a_model_may_be_built_outside_of_its_scope(tree_state):
    """What comes to mind before a look at its summary, say."""
    strategy = make_strategy("mirrored")
    with strategy.scope():
        model = Transformer(1, 8, 2, 16, 20, 20, dropout_rate=0.0, max_length=16, tree_state=tree_state)
        model.compile(sgd(), SmoothedCrossEntropy(), jit_compile=False)
    model.build(((None, None), (None, None)))
    ids = np.full((2, 4), 7, "int32")
    batch = tf.data.Dataset.from_tensors(((ids, ids), ids))
    with eagerly():
        first, later = (model.fit(batch, shuffle=False, verbose=0).history["loss"][0] for _ in range(2))
    assert strategy.num_replicas_in_sync == 2 and later < first
