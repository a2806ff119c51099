"""A step whose update is left out, since a scaled gradient was too large for float16, is a step like any other."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.experiment.small_recipe import ctrl_c_after, on
from tests.tiny_run import PAIRS
from tf_transformer import experiment, make_strategy
from tf_transformer.experiment import compiling
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.training.loss_scaling import LossScaling
from tf_transformer.training.step_count import steps_taken

GRADIENTS = [3.0, np.inf, 5.0, np.nan, 7.0]


def scaling():
    return LossScaling(keras.optimizers.SGD(1.0), initial_scale=64.0)


def test_every_step_is_counted():
    optimizer, weight = scaling(), keras.Variable(1000.0)
    for gradient in GRADIENTS:
        optimizer.apply([tf.constant(gradient)], [weight])
    assert int(optimizer.steps) == 5 and int(optimizer.iterations) == 3
    # Each that is left out halves the scale.
    assert float(weight) == pytest.approx(1000 - 3 / 64 - 5 / 32 - 7 / 16) and float(optimizer.dynamic_scale) == 16


def test_on_two_devices():
    strategy = make_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 2
    with strategy.scope():
        optimizer, weight = scaling(), keras.Variable(1000.0)
        optimizer.build([weight])
    step = tf.function(lambda gradient: strategy.run(optimizer.apply, args=([gradient],)), autograph=False)
    for gradient in GRADIENTS:
        step(tf.constant(gradient))
    counts = [keras.ops.convert_to_numpy(count) for count in (optimizer.steps, optimizer.iterations, weight)]
    assert counts == pytest.approx([5, 3, 1000 - 2 * (3 / 64 + 5 / 32 + 7 / 16)])


@pytest.mark.parametrize("broken", [0, 1])
def test_what_one_device_can_t_take_no_device_does(broken):
    strategy = make_strategy("mirrored")
    with strategy.scope():
        optimizer, weight = scaling(), keras.Variable(1000.0)
        optimizer.build([weight])

    def each(gradients):
        optimizer.apply([gradients[tf.distribute.get_replica_context().replica_id_in_sync_group]])

    step = tf.function(lambda gradients: strategy.run(each, args=(gradients,)), autograph=False)
    step(tf.constant([np.inf if device == broken else 3.0 for device in (0, 1)]))
    step(tf.constant([5.0, 7.0]))
    found = [float(keras.ops.convert_to_numpy(each)) for each in (weight, optimizer.steps, optimizer.dynamic_scale)]
    assert found == [1000 - 12 / 32, 2, 32]


@pytest.fixture
def far_too_high(monkeypatch):
    """A scale that several steps have to halve before there is an update."""
    monkeypatch.setattr(compiling, "LossScaling", partial(LossScaling, initial_scale=2.0**22))


@pytest.mark.slow
def test_a_training_ends_at_its_step_and_goes_on_exactly(eager, far_too_high, tmp_path):
    loaded = on(tmp_path, PAIRS, 64, steps=6, validate_every=3, precision="mixed_float16", save_every_seconds=60)
    whole, broken = (RunDirectory(tmp_path / name) for name in ("whole", "broken"))
    experiment.train(loaded, whole.path)
    checkpoints = [path.name for path in whole.step_checkpoints()]
    assert checkpoints == ["step-00000003.keras", "step-00000006.keras"]
    ended = keras.saving.load_model(whole.step_checkpoints()[-1])
    assert steps_taken(ended) == 6 and 0 < int(ended.optimizer.iterations) < 5
    with ctrl_c_after(4):
        experiment.train(loaded, broken.path)
    experiment.train(loaded, broken.path)
    assert [path.name for path in broken.step_checkpoints()] == checkpoints
    again = keras.saving.load_model(broken.step_checkpoints()[-1])
    for one, other in zip(ended.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(ended.optimizer.variables, again.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=one.path)
