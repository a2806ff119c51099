"""A step whose loss is no number, or that finds no memory, ends the training and says on which batch."""

import io
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from tests.experiment.looked_at import first_batches
from tests.experiment.small_recipe import on
from tests.tiny_run import PAIRS, write_pairs
from tf_transformer import SmoothedCrossEntropy, experiment
from tf_transformer.data import TextFiles
from tf_transformer.errors import UserError
from tf_transformer.runs import Checkpoints
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model
from tf_transformer.runs.state import TrainingState
from tf_transformer.training.step_faults import ADVICE, StepFaults


def test_a_loss_that_is_no_number_ends_the_training(eager, tmp_path):
    """The first update throws the weights far off; the second step can't work with them."""
    loaded = on(tmp_path, PAIRS, 64, learning_rate_scale=1e30)
    run, console = RunDirectory(tmp_path / "run"), Console(file=io.StringIO(), width=300)
    with pytest.raises(UserError, match=r"^step 2: the loss is (nan|inf), on the pairs \d+, ") as error:
        experiment.train(loaded, run.path, console)
    assert re.search(r"^step 2: the loss is (nan|inf); looking for its pairs", console.file.getvalue(), re.MULTILINE)
    assert "\n" not in str(error.value) and "a lower learning rate" in str(error.value)
    # The pairs are those of the second batch, and stand under their lines' numbers.
    rows = [line.split("\t") for line in (run.path / "bad_batch.tsv").read_text(encoding="utf-8").splitlines()]
    assert 1 < len(rows) < len(PAIRS)
    assert all(PAIRS[int(number) - 1] == (source, target) for number, source, target in rows)
    tokenizers = run.load_tokenizers()
    _, labels = first_batches(run, 2)[1]
    expected = {tuple(row[row != 0][:-1]) for row in labels}
    found = {tuple(np.asarray(tokenizers.target.tokenize([target])[0])) for _, _, target in rows}
    assert found == expected
    # The state after the first step stays, and is what the training would go on from.
    assert [path.name for path in run.training_state.glob("step-*")] == ["step-00000001"]


def test_a_fault_is_told_though_the_text_can_t_be_read(tmp_path):
    """The file has changed since reading began."""
    source, target = write_pairs(tmp_path)
    pairs = TextFiles(source, target)
    source.write_text("another text\n")
    told, report = [], tmp_path / "bad_batch.tsv"
    faults = StepFaults(lambda step: [None], lambda batch: list(pairs), report, told.append)
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    faults.set_model(model)
    faults._unread = 7, np.nan, 1.0
    with pytest.raises(UserError) as error:
        faults.check()
    assert told == ["step 7: the loss is nan; looking for its pairs in data.train"]
    message = str(error.value)
    assert message.startswith(f"step 7: the loss is nan (its pairs can't be identified: {source} has changed")
    assert message.endswith(ADVICE) and "\n" not in message and not report.exists()


@tf.custom_gradient
def with_a_gradient_of_nan(x):
    return x, lambda upstream: upstream * np.nan


def spoil_step(monkeypatch, number, spoil, before=lambda: None):
    """Spoils what the loss is given in a step of training; the list that it returns has the steps that have begun."""
    of_states, begun = SmoothedCrossEntropy.of_states, []

    def spoilt(self, states, embeddings, labels, training, free_shapes):
        if training:
            begun.append(len(begun) + 1)
            if begun[-1] == number:
                before()
                states = spoil(states)
        return of_states(self, states, embeddings, labels, training, free_shapes)

    monkeypatch.setattr(SmoothedCrossEntropy, "of_states", spoilt)
    return begun


@pytest.mark.parametrize(
    ("spoil", "at_once", "told"),
    [
        pytest.param(
            lambda states: states * np.nan, 1, "step 3: the loss is nan, on the pairs ", marks=pytest.mark.slow
        ),
        pytest.param(
            lambda states: states * np.nan,
            2,
            "one of the steps 3 to 4: the loss is nan, on the pairs ",
            marks=pytest.mark.thorough,
        ),
        # Its own step is named, whose loss is sound, and not the next one.
        (with_a_gradient_of_nan, 1, "step 3: the gradient is nan, on the pairs "),
    ],
    ids=["loss", "two steps an execution", "gradient"],
)
def test_what_was_saved_before_a_fault_stays_as_it_was(eager, tmp_path, monkeypatch, spoil, at_once, told):
    """Two sound steps and a validation; then what the loss is given, or its gradient, is no number."""
    run, saved = RunDirectory(tmp_path / "run"), {}

    def remember():
        saved.update({path: path.read_bytes() for path in run.checkpoints.iterdir()})

    spoil_step(monkeypatch, 3, spoil, before=remember)
    loaded = on(tmp_path, PAIRS, 64, steps=4, validate_every=2, steps_per_execution=at_once)
    with pytest.raises(UserError) as error:
        experiment.train(loaded, run.path)
    assert str(error.value).startswith(told)
    assert {path.name for path in saved} == {"best.keras", "step-00000002.keras"}
    assert {path: path.read_bytes() for path in run.checkpoints.iterdir()} == saved
    assert all(np.isfinite(weight).all() for weight in load_model(run.path).get_weights())
    assert max(path.name for path in run.training_state.glob("step-*")) == "step-00000002"


@pytest.mark.parametrize(
    ("spoil", "at_once", "told"),
    [
        (lambda states: states * np.nan, 1, "step 2: the loss is nan, on the pairs "),
        pytest.param(
            with_a_gradient_of_nan, 1, "step 2: the gradient is nan, on the pairs ", marks=pytest.mark.thorough
        ),
        (lambda states: states * np.nan, 2, "one of the steps 1 to 2: the loss is nan, on the pairs "),
    ],
    ids=["loss", "gradient", "two steps an execution"],
)
def test_a_fault_that_is_found_when_the_next_step_has_started_is_of_its_own_step(
    eager, tmp_path, monkeypatch, spoil, at_once, told
):
    """Nothing is saved and no validation begins before the fourth step."""
    begun = spoil_step(monkeypatch, 2, spoil)
    changed = {"steps": 8, "validate_every": 8, "steps_per_execution": at_once, "save_every_seconds": 1e9}
    with pytest.raises(UserError) as error:
        experiment.train(on(tmp_path, PAIRS, 64, **changed), tmp_path / "run")
    assert str(error.value).startswith(told)
    assert begun[-1] == 2 + at_once  # one more was started, and no other


def test_weights_that_are_not_finite_are_never_saved(eager, tmp_path):
    """The last step's update spoils them, after its loss was looked at."""
    loaded = on(tmp_path, PAIRS, 64, learning_rate_scale=1e38, steps=1, validate_every=1)
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(UserError, match=r"^validation after step 1: the loss is "):
        experiment.train(loaded, run.path)
    assert not list(run.training_state.glob("step-*"))
    assert not list(run.checkpoints.iterdir())

    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.optimizer.build(model.trainable_variables)
    model.trainable_variables[0].assign([[np.nan]])
    state = TrainingState(tmp_path, Checkpoints(tmp_path))
    state.set_model(model)
    state.save()
    with pytest.raises(UserError, match=r"^step 0: sequential.*kernel is no longer finite"):
        state.wait()
    assert not list(tmp_path.glob("step-*"))


def test_a_step_without_memory_is_told_with_the_shape_of_its_batch(eager, tmp_path, monkeypatch):
    def no_memory(*arguments, **options):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(SmoothedCrossEntropy, "of_states", no_memory)
    told = r"^out of memory at step 1, whose batch has \d x \d+ source and \d x \d+ target ids; "
    with pytest.raises(UserError, match=told) as error:
        experiment.train(on(tmp_path, PAIRS, 64), tmp_path / "run")
    assert "\n" not in str(error.value)


def untrained():
    """A model before its first step, and what looks at its faults."""
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.optimizer.build(model.trainable_variables)
    batch = (np.ones((2, 3)), np.ones((2, 4))), None
    faults = StepFaults(lambda step: [batch], None, None, None)
    faults.set_model(model)
    return model, faults


def test_a_validation_without_memory_is_told_as_such():
    """And a step after it as a step."""
    model, faults = untrained()
    error = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
    faults.on_test_begin()
    with pytest.raises(UserError, match=r"^out of memory in validation; lower data\.batch_tokens"), faults.told(model):
        raise error
    faults.on_test_end()
    told = "^out of memory at step 1, whose batch has 2 x 3 source and 2 x 4 target ids; "
    with pytest.raises(UserError, match=told), faults.told(model):
        raise error


def test_a_disk_without_space_is_not_told_as_memory():
    model, faults = untrained()
    full = tf.errors.ResourceExhaustedError(None, None, "room/step-1.index; No space left on device")
    with pytest.raises(tf.errors.ResourceExhaustedError) as error, faults.told(model):
        raise full
    assert error.value is full


@pytest.mark.slow  # TensorFlow waits ten seconds for memory
def test_a_batch_that_is_too_large_is_told_with_its_shape(eager, tmp_path):
    """250,000 tokens would attend to one another: 500 GB."""
    tokens = 250_000
    pairs = [*PAIRS, ("a " * tokens, "ein Haus")]
    told = r"^out of memory at step [12], whose batch has 1 x \d{6} source and 1 x \d target ids; "
    with pytest.raises(UserError, match=told) as error:
        experiment.train(on(tmp_path, pairs, 2 * tokens, 2 * tokens), tmp_path / "run")
    message = str(error.value)
    assert "\n" not in message and "lower data.batch_tokens" in message and "gradient_accumulation" in message
