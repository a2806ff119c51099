"""What callbacks leave behind: checkpoints and figures; and where training stops."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Perplexity, SmoothedCrossEntropy, Transformer, TransformerSchedule, UserError
from tf_transformer.runs import Checkpoints
from tf_transformer.runs.state import TrainingState
from tf_transformer.training import EpochEnds, Pace, TokenCount, ValidationBleu, pace
from tf_transformer.training.step_count import steps_taken

SOURCE, TARGET, LABELS = (
    np.array([[5, 9, 3], [7, 3, 0]]),
    np.array([[2, 4, 8], [2, 6, 0]]),
    np.array([[4, 8, 3], [6, 3, 0]]),
)


@pytest.fixture
def model():
    """A Transformer that has taken a step."""
    model = Transformer(1, 8, 2, 8, 12, 12, share_embeddings="all", max_length=8)
    model.compile(
        keras.optimizers.Adam(TransformerSchedule(8, 10), beta_2=0.98, epsilon=1e-9),
        SmoothedCrossEntropy(0.2),
        metrics=[Perplexity()],
        run_eagerly=True,  # takes less time here than tracing
    )
    model.train_on_batch((SOURCE, TARGET), LABELS)
    return model


@pytest.fixture
def small():
    """A model of one layer that has taken a step."""
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(2)])
    model.compile("adam", "mse", run_eagerly=True)
    model.train_on_batch(np.ones((2, 3)), np.ones((2, 2)))
    return model


def go_to(model, step):
    """Makes a model that has trained to a step: its weights, and the optimizer's, tell the step."""
    model.optimizer.iterations.assign(step)
    for variable in (*model.trainable_weights, *model.optimizer.variables[2:]):
        variable.assign(keras.ops.full(variable.shape, step / 10))


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def variables(model):
    return [variable.numpy() for variable in (*model.weights, *model.optimizer.variables)]


# -- Checkpoints ----


def test_the_newest_and_the_best_stay(small, tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.set_model(small)
    perplexities = {1: 9.0, 20: 5.0, 30: 7.0, 100: 5.5, 1000: float("nan")}
    seen = {}
    for step, perplexity in perplexities.items():
        go_to(small, step)
        checkpoints.on_epoch_end(0, {"val_perplexity": perplexity})
        seen[step] = variables(small)
    assert names(tmp_path) == ["best.keras", "step-00000100.keras", "step-00001000.keras"]

    for name, step in {"best": 20, "step-00000100": 100, "step-00001000": 1000}.items():
        loaded = keras.saving.load_model(tmp_path / f"{name}.keras")
        assert int(loaded.optimizer.iterations) == step
        for got, expected in zip(variables(loaded), seen[step], strict=True):
            np.testing.assert_array_equal(got, expected)


def test_training_goes_on_from_a_checkpoint_as_if_never_stopped(model, tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.set_model(model)
    loaded = keras.saving.load_model(checkpoints.save_interrupted())
    for each in (model, loaded):
        # Dropout draws again after loading; without it both take the same step.
        for layer in each._flatten_layers():
            if isinstance(layer, keras.layers.Dropout):
                layer.rate = 0
    figures = [each.train_on_batch((SOURCE, TARGET), LABELS, return_dict=True) for each in (model, loaded)]
    assert figures[0] == pytest.approx(figures[1], rel=1e-6)
    for got, expected in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


def test_without_validation_nothing_is_best(small, tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.set_model(small)
    checkpoints.on_epoch_end(0, {"loss": 1.0})
    checkpoints.on_epoch_end(1)
    assert names(tmp_path) == ["step-00000001.keras"]


def test_an_interrupted_save_leaves_no_half_checkpoint(small, tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.set_model(small)
    checkpoints.on_epoch_end(0, {"val_perplexity": 5.0})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def half(path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(small, "save", half)
    go_to(small, 2)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.on_epoch_end(1, {"val_perplexity": 4.0})
    assert {path.name: path.read_bytes() for path in tmp_path.glob("[!.]*")} == before


def test_a_training_that_goes_on_keeps_no_checkpoint_of_later_steps_and_no_half_one(tmp_path):
    kept = ["average.keras", "best.keras", "step-00000004.keras"]
    later = ["interrupted.keras", "step-00000005.keras", ".partial-interrupted.keras", ".partial-average.keras"]
    for name in (*kept, *later):
        (tmp_path / name).touch()
    checkpoints = Checkpoints(tmp_path)
    for _ in range(2):  # as several workers do
        checkpoints.forget_after(4)
        assert names(tmp_path) == kept


def test_another_training_s_later_checkpoints_are_refused_and_stay(small, tmp_path):
    for step in (1, 9, 12):
        (tmp_path / f"step-{step:08d}.keras").touch()
    kept = names(tmp_path)
    told = "step-00000012.keras is from a later step than the model's, 1, .*; choose another folder"
    with pytest.raises(UserError, match=told):
        small.fit(np.ones((2, 3)), np.ones((2, 2)), callbacks=[Checkpoints(tmp_path)], verbose=0)
    assert names(tmp_path) == kept
    go_to(small, 12)
    small.fit(np.ones((2, 3)), np.ones((2, 2)), callbacks=[Checkpoints(tmp_path, keep=2)], verbose=0)
    assert names(tmp_path) == ["step-00000012.keras", "step-00000013.keras"]


def test_at_least_one_checkpoint_is_kept(tmp_path):
    with pytest.raises(ValueError, match="keep must be a positive integer, got 0"):
        Checkpoints(tmp_path, keep=0)


# -- EpochEnds ----


@pytest.mark.parametrize(
    ("steps", "begun", "ends"),
    [
        (8, 0, [4, 8]),
        (5, 0, [4, 5]),
        (1, 0, [1]),
        (100, 0, [4, 8, 12]),
        (8, 3, [4, 8]),  # of the epoch in which training goes on, one step is left
        (9, 6, [8, 9]),
    ],
)
def test_epochs_and_training_end_at_their_steps(steps, begun, ends):
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    model.optimizer.build(model.trainable_variables)
    model.optimizer.iterations.assign(begun)
    data = tf.data.Dataset.from_tensors((np.ones((2, 3)), np.ones((2, 1)))).repeat()
    seen = []
    spy = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(steps_taken(model)))
    model.fit(data, epochs=3, steps_per_epoch=4, callbacks=[EpochEnds(steps, 4), spy], shuffle=False, verbose=0)
    assert seen == ends


# -- Pace ----


class Clock(keras.callbacks.Callback):
    """A training batch takes a second, a validation batch 100."""

    now = 1000.0

    def on_train_batch_end(self, batch, logs=None):
        self.now += 1

    def on_test_batch_end(self, batch, logs=None):
        self.now += 100


@pytest.mark.parametrize("validate", [True, False])
def test_the_pace_is_that_of_training_alone(monkeypatch, validate):
    clock = Clock()
    monkeypatch.setattr(pace, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    schedule = TransformerSchedule(11, 5)
    model = keras.Sequential([keras.layers.Embedding(11, 11)])
    model.compile(keras.optimizers.Adam(schedule), SmoothedCrossEntropy(), metrics=[TokenCount()], run_eagerly=True)

    lengths = [1, 4, 2, 4, 3, 3]  # of two epochs, three batches each
    labels = np.array([[6] * length + [0] * (4 - length) for length in lengths])
    data = tf.data.Dataset.from_tensor_slices((labels, labels)).batch(1)
    history = model.fit(
        data.repeat(),
        epochs=2,
        steps_per_epoch=3,
        validation_data=data if validate else None,
        callbacks=[clock, Pace()],
        shuffle=False,
        verbose=0,
    ).history
    assert history["tokens_per_second"] == [7 / 3, 10 / 3]
    # After the epoch's last step: the rate of the next one.
    assert history["learning_rate"] == pytest.approx([float(schedule(3)), float(schedule(6))], rel=1e-6)


def test_the_pace_of_an_epoch_that_is_gone_on_with_is_that_of_all_of_it(monkeypatch, tmp_path):
    """Of the three tokens a second before it was broken off as well, which the metric has counted."""
    clock = Clock()
    monkeypatch.setattr(pace, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    (tmp_path / "checkpoints").mkdir()

    def fit(steps: int, tokens: int, save: bool) -> keras.callbacks.History:
        model = keras.Sequential([keras.Input([4]), keras.layers.Embedding(11, 11)])
        model.compile("sgd", SmoothedCrossEntropy(), metrics=[TokenCount()], run_eagerly=True)
        model.optimizer.build(model.trainable_variables)
        labels = np.array([[6] * tokens + [0] * (4 - tokens)])
        model.evaluate(labels, labels, verbose=0)  # so that the metric is there
        pace = Pace()
        state = TrainingState(tmp_path / "state", Checkpoints(tmp_path / "checkpoints", 1), pace=pace)
        state.restore(model)
        saves = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: save and state.save())
        data = tf.data.Dataset.from_tensors((labels, labels)).repeat()
        watched = [clock, pace, saves] if save else [clock, pace, state]
        state.set_model(model)
        return model.fit(data, steps_per_epoch=steps, callbacks=watched, shuffle=False, verbose=0).history

    fit(steps=2, tokens=3, save=True)
    history = fit(steps=1, tokens=4, save=False)
    assert history["tokens"] == [10] and history["tokens_per_second"] == [10 / 3]


def test_pace_does_not_mind_an_evaluation_of_its_own():
    model = keras.Sequential([keras.layers.Embedding(11, 11)])
    model.compile("sgd", SmoothedCrossEntropy(), metrics=[TokenCount()], run_eagerly=True)
    figures = model.evaluate(LABELS, LABELS, callbacks=[Pace()], verbose=0, return_dict=True)
    assert figures["tokens"] == 5


# -- ValidationBleu ----


def test_bleu_of_the_validation_set_is_among_the_figures():
    pairs = [("a", "Ein Mann geht in das Haus ."), ("b", "Der Hund schläft .")]
    translations = {"a": "Ein Mann geht in ein Haus .", "b": "Der Hund schläft ."}
    bleu = ValidationBleu(lambda texts: [translations[text] for text in texts], pairs)
    logs = {}
    bleu.on_epoch_end(0, logs)
    # By hand: of 11 words 10 match, of 9 pairs 7, of 7 triples 4, of 5 quadruples 2; neither is shorter.
    assert logs["val_bleu"] == pytest.approx(100 * (10 / 11 * 7 / 9 * 4 / 7 * 2 / 5) ** 0.25)


def test_bleu_splits_text_as_it_is_told_to():
    bleu = ValidationBleu(lambda _: ["Ein Mann geht in ein Haus."], [("a", "Ein Mann geht in das Haus.")], "none")
    logs = {}
    bleu.on_epoch_end(0, logs)
    # "Haus." is one word: of 6 words 5 match, of 5 pairs 3, of 4 triples 2, of 3 quadruples 1.
    assert logs["val_bleu"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
