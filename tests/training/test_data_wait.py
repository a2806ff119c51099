"""The share of time spent waiting for data is told where data are slow, and is nothing where they are ready."""

import itertools
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import make_strategy
from tf_transformer.training import DataWait

STEPS, EPOCHS = 6, 2


class Sleeps(keras.layers.Layer):
    """Takes its time in each step."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def call(self, x):
        def sleep(x):
            time.sleep(self.seconds)
            return x

        return tf.ensure_shape(tf.numpy_function(sleep, [x], tf.float32, stateful=True), x.shape)


def slow_batches(seconds):
    def batches():
        for number in itertools.count():
            time.sleep(seconds)
            # Labels differ in how many are real, as real ones do.
            yield np.ones((2, 8), "float32"), (np.arange(16) <= number % 7).astype("float32").reshape(2, 8)

    spec = tf.TensorSpec((2, 8), tf.float32)
    return tf.data.Dataset.from_generator(batches, output_signature=(spec, spec))


class Tokens(keras.metrics.Sum):
    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(keras.ops.not_equal(y_true, 0))


def shares(batches, step_seconds=0.0, distribution="single", steps_per_execution=1):
    with make_strategy(distribution).scope():
        model = keras.Sequential([keras.Input((8,)), Sleeps(step_seconds), keras.layers.Dense(8)])
        options = {"jit_compile": False, "steps_per_execution": steps_per_execution}
        model.compile("sgd", "mse", metrics=[Tokens(name="tokens")], **options)
    wait = DataWait()
    history = model.fit(
        wait.watch(batches), steps_per_epoch=STEPS, epochs=EPOCHS, callbacks=[wait], verbose=0, shuffle=False
    )
    return history.history["data_wait"]


@pytest.mark.parametrize("distribution", ["single", "mirrored"])
def test_slow_data_are_waited_for(distribution):
    """In the first epoch too."""
    assert all(share > 0.5 for share in shares(slow_batches(0.1), distribution=distribution))


@pytest.mark.parametrize("distribution", ["single", "mirrored"])
def test_ready_data_are_not_waited_for(distribution):
    # They take as long as before, but are made ahead, while a longer step runs.
    batches = slow_batches(0.05).prefetch(2)
    assert shares(batches, step_seconds=0.2, distribution=distribution)[-1] < 0.1


class SlowToTrace(keras.layers.Layer):
    def call(self, x):
        if not isinstance(x, keras.KerasTensor):  # and so once for the model's shapes, and once in the step
            time.sleep(1.0)
        return x


@pytest.mark.parametrize("distribution", ["single", "mirrored"])
def test_tracing_the_first_step_is_no_waiting(distribution):
    with make_strategy(distribution).scope():
        model = keras.Sequential([keras.Input((8,)), SlowToTrace(), Sleeps(0.05), keras.layers.Dense(8)])
        model.compile("sgd", "mse", jit_compile=False)
    wait = DataWait()
    batches = wait.watch(slow_batches(0.0).prefetch(2))
    options = {"callbacks": [wait], "verbose": 0, "shuffle": False}
    first, second = model.fit(batches, steps_per_epoch=STEPS, epochs=EPOCHS, **options).history["data_wait"]
    assert first < 0.1 and second < 0.1
    # An epoch of one step, the first, has nothing to tell.
    alone = DataWait()
    history = model.fit(alone.watch(slow_batches(0.0)), steps_per_epoch=1, **{**options, "callbacks": [alone]}).history
    assert history["data_wait"] == [0.0]


def test_steps_of_one_execution_are_counted_each():
    assert shares(slow_batches(0.05), steps_per_execution=3)[-1] > 0.2


class Scale(keras.layers.Layer):
    def build(self, shape):
        self.factor = self.add_weight()

    def call(self, x):
        return self.factor * x


def test_the_steps_that_xla_compiles_are_counted_by_their_shapes():
    """The first step is told on its own; of the others two have a new shape, in the first epoch or in the second."""
    columns = [8, 8, 8, 4, 4, 8, 4, 8, 2, 2, 4, 8]
    batches = [np.ones((2, width), "float32") for width in columns]
    data = tf.data.Dataset.from_generator(
        lambda: ((batch, batch) for batch in batches), output_signature=(tf.TensorSpec((2, None)),) * 2
    )
    for jit_compile in (True, False):
        model = keras.Sequential([keras.Input((None,)), Scale()])
        model.compile(keras.optimizers.SGD(), "mse", jit_compile=jit_compile)
        wait = DataWait()
        history = model.fit(
            wait.watch(data), steps_per_epoch=STEPS, epochs=EPOCHS, callbacks=[wait], verbose=0, shuffle=False
        ).history
        assert ("new_shapes" in history) == jit_compile
        if jit_compile:
            assert history["new_shapes"] == [1, 1]
            assert all(0 < seconds < 60 for seconds in history["new_shapes_seconds"])


def test_it_hands_on_the_same_batches():
    batches = tf.data.Dataset.range(5).map(lambda i: ((i, i + 1), [i + 2]))
    watched = DataWait().watch(batches)
    assert watched.element_spec == batches.element_spec
    for ours, theirs in zip(watched, batches, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)
