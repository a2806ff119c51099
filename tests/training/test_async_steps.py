"""Steps that start before the device has done the one before."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.experiment.small_recipe import on
from tests.tiny_run import PAIRS
from tf_transformer import experiment
from tf_transformer.errors import UserError
from tf_transformer.experiment import fitting, runner
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.training.async_steps import AsyncCallbacks


def test_fit_tells_the_same_figures_as_with_keras_s_own_list():
    def figures(make_callbacks):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"], jit_compile=False)
        rng = np.random.default_rng(1)
        data = rng.normal(size=(12, 3)), rng.normal(size=(12, 1))
        told = []
        spy = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: told.append((batch, *(float(logs[name]) for name in sorted(logs))))
        )
        callbacks = make_callbacks([spy], model)
        history = model.fit(*data, batch_size=2, epochs=2, validation_split=0.5, callbacks=callbacks, verbose=0)
        return told, history.history

    of_keras = figures(lambda callbacks, model: callbacks)
    assert figures(lambda callbacks, model: AsyncCallbacks(callbacks, add_history=True, model=model)) == of_keras
    assert len(of_keras[0]) == 6 and "val_mae" in of_keras[1]


class Loss:
    """A figure of a step. Whoever reads it waits for the step, and must have started the next one."""

    def __init__(self, tensor, step, steps):
        self.tensor, self.step, self.steps = tensor, step, steps

    def __float__(self):
        assert self.steps.started > self.step or not self.steps.in_step, f"step {self.step} was waited for"
        self.steps.read.append(self.step)
        return float(self.tensor)


@pytest.mark.parametrize("at_once", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_no_step_is_waited_for_until_the_next_one_has_started(eager, tmp_path, monkeypatch, at_once):
    """But for the last step before a validation."""

    class Watched(AsyncCallbacks):
        started, in_step, read = 0, False, []

        def on_train_batch_end(self, batch, logs=None):
            Watched.started, Watched.in_step = Watched.started + 1, True
            super().on_train_batch_end(batch, {"loss": Loss(logs["loss"], Watched.started, Watched)})
            Watched.in_step = False

    of_variables = type(tf.Variable(0.0))
    for name in ("numpy", "__array__"):
        method = getattr(of_variables, name)

        def watched(variable, *arguments, method=method, **options):
            assert not Watched.in_step, f"{variable.name} was read"
            return method(variable, *arguments, **options)

        monkeypatch.setattr(of_variables, name, watched)
    monkeypatch.setattr(fitting, "AsyncCallbacks", Watched)
    monkeypatch.setattr(runner, "_score", lambda *arguments: None)  # which comes behind the last step
    options = {"steps": 4 * at_once, "validate_every": 2 * at_once, "steps_per_execution": at_once}
    experiment.train(on(tmp_path, PAIRS, 64, **options, save_every_seconds=1e9), tmp_path / "run")
    assert Watched.read == [1, 2, 3, 4]


@pytest.mark.parametrize("faulty", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_the_last_step_is_looked_at_before_a_state_is_saved(eager, tmp_path, monkeypatch, faulty):
    """A state is saved after each step; a faulty one must not be in it, though its weights are finite."""

    class Faulty(AsyncCallbacks):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, {**logs, "loss": np.inf} if batch + 1 == faulty else logs)

    monkeypatch.setattr(fitting, "AsyncCallbacks", Faulty)
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(UserError, match=f"^step {faulty}: the loss is inf"):
        experiment.train(on(tmp_path, PAIRS, 64, steps=4, validate_every=4, save_every_seconds=0), run.path)
    assert [path.name for path in run.training_state.glob("step-*")] == [f"step-{n:08}" for n in range(1, faulty)]
