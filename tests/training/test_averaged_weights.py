"""The moving average is what is seen of a model in training, and training never notices."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import TransformerAdam, make_strategy
from tf_transformer.runs import Checkpoints
from tf_transformer.training import AveragedWeights, EpochEnds

MOMENTUM = 0.8
EPOCHS, STEPS_PER_EPOCH, STEPS = 3, 4, 10  # it stops in the middle of the last epoch


class Spy(keras.callbacks.Callback):
    """Writes down the weights wherever a callback may look at them."""

    def __init__(self):
        super().__init__()
        self.trained, self.begun, self.validated, self.ended = [], [], [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.begun.append(self.model.get_weights())

    def on_train_batch_end(self, batch, logs=None):
        self.trained.append(self.model.get_weights())

    def on_test_begin(self, logs=None):
        self.validated.append(self.model.get_weights())

    def on_epoch_end(self, epoch, logs=None):
        self.ended.append(self.model.get_weights())


def data():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(8, 3)).astype("float32"), random.normal(size=(8, 2)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)


def fit(distribution, callbacks, validate=True, **arguments):
    """Trains a model of one layer, from the same start each time; on two devices in a graph, which takes longer."""
    with make_strategy(distribution).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, kernel_initializer="ones")])
        model.compile(TransformerAdam(0.1, **arguments), "mse", jit_compile=False, run_eagerly=distribution == "single")
    spy = Spy()
    model.fit(
        data().repeat(),
        epochs=EPOCHS,
        steps_per_epoch=STEPS_PER_EPOCH,
        validation_data=data() if validate else None,
        shuffle=False,
        verbose=0,
        callbacks=[EpochEnds(STEPS, STEPS_PER_EPOCH), *callbacks, spy],
    )
    return model, spy


def averages(trained):
    """What the moving average is after each step."""
    found = [trained[0]]
    for weights in trained[1:]:
        found.append([MOMENTUM * a + (1 - MOMENTUM) * w for a, w in zip(found[-1], weights, strict=True)])
    return found


def assert_same(got, expected, tolerance=0.0):
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def plain():
    """What a training without an average sees."""
    return fit("single", [])[1]


@pytest.mark.parametrize(("distribution", "validate"), [("single", True), ("single", False), ("mirrored", True)])
def test_the_average_is_seen_and_training_goes_on_without_it(distribution, validate, plain, tmp_path):
    average = AveragedWeights()
    ema = {"use_ema": True, "ema_momentum": MOMENTUM}
    model, seen = fit(distribution, [average, Checkpoints(tmp_path)], validate, **ema)
    assert len(seen.trained) == STEPS
    for got, expected in zip(seen.trained, plain.trained, strict=True):
        assert_same(got, expected, 1e-6)

    expected = averages(seen.trained)
    for epoch, step in enumerate((4, 8, STEPS)):
        if epoch > 0:
            # To the last bit, however often the two have changed places.
            assert_same(seen.begun[epoch], seen.trained[STEPS_PER_EPOCH * epoch - 1])
        assert np.abs(expected[step - 1][0] - seen.trained[step - 1][0]).max() > 1e-2
        assert_same(seen.ended[epoch], expected[step - 1], 1e-6)
        if validate:
            assert_same(seen.validated[epoch], expected[step - 1], 1e-6)
        saved = keras.saving.load_model(tmp_path / f"step-{step:08d}.keras")
        assert_same(saved.get_weights(), expected[step - 1], 1e-6)
    assert_same(model.get_weights(), expected[-1], 1e-6)
    average.show_average()  # it is there already
    assert_same(model.get_weights(), expected[-1], 1e-6)


def test_the_average_can_be_shown_at_any_time():
    """As when training is interrupted in the middle of an epoch."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(TransformerAdam(0.1, use_ema=True, ema_momentum=MOMENTUM), "mse", run_eagerly=True)
    average = AveragedWeights()
    average.set_model(model)
    trained = []
    for x, y in data():
        model.train_on_batch(x, y)
        trained.append(model.get_weights())
    average.show_average()
    assert_same(model.get_weights(), averages(trained)[-1], 1e-6)
    average.on_epoch_begin(1)
    assert_same(model.get_weights(), trained[-1])


def test_an_earlier_training_s_weights_come_back_only_if_its_average_is_in_the_model():
    """Not over the weights of another model, nor over others that were put in since then."""

    def model_of(value):
        kernel = keras.initializers.Constant(value)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer=kernel)])
        model.compile(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=MOMENTUM), "mse", run_eagerly=True)
        return model

    average, begun = AveragedWeights(), []
    spy = keras.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: begun.append(model.get_weights()))

    def first_of_fit():
        begun.clear()
        model.fit(np.ones((2, 1)), np.ones(2), batch_size=1, callbacks=[average, spy], verbose=0)
        return begun[0]

    model = model_of(3.0)
    assert_same(first_of_fit(), [[[3.0]]])
    with average.hidden():
        trained = model.get_weights()
    assert (trained[0] != model.get_weights()[0]).all()
    assert_same(first_of_fit(), trained)
    model.set_weights([np.array([[9.0]])])
    assert_same(first_of_fit(), [[[9.0]]])
    model = model_of(5.0)
    assert_same(first_of_fit(), [[[5.0]]])
