"""The share of time spent waiting for data is told where data are slow, and is nothing where they are ready.

By a clock of the tests' own, which stands still but where they say that something takes its time.
"""

import itertools
import threading
import time
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.bounded import SECONDS
from tf_transformer import make_strategy
from tf_transformer.training import DataWait, data_wait

STEPS, EPOCHS = 6, 2


class Clock(keras.callbacks.Callback):
    """The time; and as a callback behind `DataWait`, which steps have begun."""

    def __init__(self, steps_per_execution=1):
        super().__init__()
        self.now, self.begun, self.steps_per_execution = 0.0, 0, steps_per_execution
        self.changed = threading.Condition()
        self.training = False

    def pass_by(self, seconds):
        with self.changed:
            self.now += seconds

    def on_train_begin(self, logs=None):
        self._change(training=True)

    def on_train_batch_begin(self, batch, logs=None):
        self._change(begun=self.begun + self.steps_per_execution)

    def on_train_end(self, logs=None):
        self._change(training=False)

    def _change(self, **values):
        with self.changed:
            vars(self).update(values)
            self.changed.notify_all()

    def wait_for(self, step):
        """Until the step has begun, in a training; before, Keras looks at some batches, which it throws away."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.begun > step or not self.training, SECONDS)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(data_wait, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    yield clock
    clock.on_train_end()


class Takes(keras.layers.Layer):
    """Takes its time in each step."""

    def __init__(self, clock, seconds):
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def call(self, x):
        def takes(x):
            self.clock.pass_by(self.seconds)
            return x

        return tf.ensure_shape(tf.numpy_function(takes, [x], tf.float32, stateful=True), x.shape)


def make_batches(clock=None, seconds=0.0):
    """Ready ones; with a clock, each is begun when its step has asked for it."""

    def batches():
        for number in itertools.count():
            if clock:
                clock.wait_for(number)
                clock.pass_by(seconds)
            # Labels differ in how many are real, as real ones do.
            yield np.ones((2, 8), "float32"), (np.arange(16) <= number % 7).astype("float32").reshape(2, 8)

    spec = tf.TensorSpec((2, 8), tf.float32)
    return tf.data.Dataset.from_generator(batches, output_signature=(spec, spec))


class Tokens(keras.metrics.Sum):
    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(keras.ops.not_equal(y_true, 0))


def shares(clock, batches, step_seconds=0.0, distribution="single"):
    with make_strategy(distribution).scope():
        model = keras.Sequential([keras.Input((8,)), Takes(clock, step_seconds), keras.layers.Dense(8)])
        options = {"jit_compile": False, "steps_per_execution": clock.steps_per_execution}
        model.compile("sgd", "mse", metrics=[Tokens(name="tokens")], **options)
    wait = DataWait()
    history = model.fit(
        wait.watch(batches), steps_per_epoch=STEPS, epochs=EPOCHS, callbacks=[wait, clock], verbose=0, shuffle=False
    )
    return history.history["data_wait"]


@pytest.mark.parametrize("distribution", ["single", "mirrored"])
def test_slow_data_are_waited_for(clock, distribution):
    """In the first epoch too."""
    found = shares(clock, make_batches(clock, seconds=0.3), step_seconds=0.1, distribution=distribution)
    replicas = 1 if distribution == "single" else 2  # each of which takes the step's time
    assert found == pytest.approx([0.3 / (0.3 + replicas * 0.1)] * EPOCHS)


@pytest.mark.parametrize("distribution", ["single", "mirrored"])
def test_ready_data_are_not_waited_for(clock, distribution):
    batches = make_batches().prefetch(2)
    assert shares(clock, batches, step_seconds=0.2, distribution=distribution) == [0.0] * EPOCHS


class SlowToTrace(keras.layers.Layer):
    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def call(self, x):
        if not isinstance(x, keras.KerasTensor):  # and so once for the model's shapes, and once in the step
            self.clock.pass_by(1.0)
        return x


@pytest.mark.parametrize("distribution", ["single", "mirrored"])
def test_tracing_the_first_step_is_no_waiting(clock, distribution):
    with make_strategy(distribution).scope():
        model = keras.Sequential([keras.Input((8,)), SlowToTrace(clock), Takes(clock, 0.05), keras.layers.Dense(8)])
        model.compile("sgd", "mse", jit_compile=False)
    wait = DataWait()
    batches = wait.watch(make_batches().prefetch(2))
    options = {"callbacks": [wait], "verbose": 0, "shuffle": False}
    history = model.fit(batches, steps_per_epoch=STEPS, epochs=EPOCHS, **options).history
    assert history["data_wait"] == [0.0, 0.0]
    assert clock.now >= 1.0
    # An epoch of one step, the first, has nothing to tell.
    alone = DataWait()
    history = model.fit(alone.watch(make_batches()), steps_per_epoch=1, **{**options, "callbacks": [alone]}).history
    assert history["data_wait"] == [0.0]


def test_steps_of_one_execution_are_counted_each(clock):
    """The first execution is left out, in which the step is traced."""
    clock.steps_per_execution = 3
    found = shares(clock, make_batches(clock, seconds=0.3), step_seconds=0.1)
    assert found[-1] > 0.5


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
        wait, began = DataWait(), time.perf_counter()
        history = model.fit(
            wait.watch(data), steps_per_epoch=STEPS, epochs=EPOCHS, callbacks=[wait], verbose=0, shuffle=False
        ).history
        assert ("new_shapes" in history) == jit_compile
        if jit_compile:
            assert history["new_shapes"] == [1, 1]
            first, second = history["new_shapes_seconds"]
            assert first > 0 and second > 0 and first + second < time.perf_counter() - began


def test_it_hands_on_the_same_batches():
    batches = tf.data.Dataset.range(5).map(lambda i: ((i, i + 1), [i + 2]))
    watched = DataWait().watch(batches)
    assert watched.element_spec == batches.element_spec
    for ours, theirs in zip(watched, batches, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)
