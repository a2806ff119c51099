"""A new run that begins from the state of another."""

import io
import json
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from tests.cli.command import contents
from tests.experiment.looked_at import figures, first_batches
from tests.experiment.small_recipe import ctrl_c_after, on
from tests.runs.conftest import Begun
from tests.runs.test_going_on import flip_a_bit
from tests.tiny_run import PAIRS
from tf_transformer import experiment
from tf_transformer.commands.train import train
from tf_transformer.errors import OutOfMemory, Preempted, UserError
from tf_transformer.experiment import runner
from tf_transformer.experiment.averaging import average_checkpoints
from tf_transformer.experiment.resuming import find_state
from tf_transformer.recipe import save_recipe
from tf_transformer.runs import interruption
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.interruption import Interruption
from tf_transformer.runs.loading import load_model
from tf_transformer.translation.translator import Translator


def with_training(recipe, **changes):
    return recipe.model_copy(update={"training": recipe.training.model_copy(update=changes)})


@pytest.mark.slow
def test_another_run_begins_from_it_and_leaves_it_alone(stopped, tmp_path):
    loaded, run = stopped
    assert sorted(path.name for path in run.training_state.glob("step-*")) == ["step-00000003", "step-00000005"]
    before = contents(run.path)
    other = experiment.train(loaded, tmp_path / "other", resume=run.path)
    assert contents(run.path) == before
    same = experiment.train(loaded, run.path)
    for name in "step-00000003.keras", "step-00000006.keras":
        ours, theirs = (load_model(each.checkpoints / name).get_weights() for each in (other, same))
        assert all((a == b).all() for a, b in zip(ours, theirs, strict=True))


def test_another_corpus_is_told(stopped):
    loaded, run = stopped
    source = Path(loaded.data.root) / "pairs.en"
    first = source.read_bytes()
    before = contents(run.path)
    for changed in (first.replace(b"man", b"mam", 1), b"".join(reversed(first.splitlines(keepends=True)))):
        assert len(changed) == len(first) and changed != first
        source.write_bytes(changed)
        with pytest.raises(UserError, match=r"had other pairs in data\.train \(24 pairs, CRC-32 .*; now 24 pairs, CRC"):
            experiment.train(loaded, run.path)
    source.write_bytes(first)
    written = run.training_state / "start.json"
    flip_a_bit(written, 0)
    with pytest.raises(UserError, match=r"start\.json: missing or damaged"):
        experiment.train(loaded, run.path)
    flip_a_bit(written, 0)
    whole = written.read_bytes()
    for of_another_shape in b"{}", b"[]", b'{"devices": 1, "corpus": {}, "origin": null}', b'{"origin": 1}':
        written.write_bytes(of_another_shape)
        with pytest.raises(UserError, match=r"start\.json: missing or damaged"):
            experiment.train(loaded, run.path)
    written.write_bytes(whole)
    assert contents(run.path) == before


def test_another_set_of_evaluation_also_is_told(eager, until_it_begins, tmp_path):
    """But not where an earlier version began the training, which did not write it down."""
    loaded, run = on(tmp_path, PAIRS, 64, max_length=32), RunDirectory(tmp_path / "run")
    also = {"news": ("pairs.en", "news.de")}
    loaded = loaded.model_copy(update={"evaluation": loaded.evaluation.model_copy(update={"also": also})})
    news = tmp_path / "news.de"
    news.write_bytes((tmp_path / "pairs.de").read_bytes())
    with pytest.raises(Begun):
        experiment.train(loaded, run.path)
    (run.training_state / "step-00000003").mkdir()  # as if it had come so far
    news.write_bytes(news.read_bytes().replace(b"Mann", b"Mond"))
    with pytest.raises(UserError, match=r"had other pairs in evaluation\.also\.news \(24 pairs, .*; now 24 pairs, "):
        experiment.train(loaded, run.path)
    start = json.loads((run.training_state / "start.json").read_text())
    del start["corpus"]["news"]
    (run.training_state / "start.json").write_text(json.dumps(start))
    with pytest.raises(Begun):
        experiment.train(loaded, run.path)


def test_an_order_to_end_that_comes_twice_counts_once(monkeypatch):
    """As from a scheduler, and from a sweep that the scheduler has told too. One that comes later is another."""
    state = SimpleNamespace(place=lambda: "the same command resumes from step 3")
    interrupted = Interruption(state, None, Console(quiet=True))
    went_on = False
    with pytest.raises(Preempted), interrupted.watching():
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        went_on = True
        monkeypatch.setattr(interruption, "ONE_ORDER_SECONDS", 0.0)
        with pytest.raises(Preempted):
            signal.raise_signal(signal.SIGTERM)
    assert went_on


def test_sigterm_before_the_first_step_ends_the_command_to_be_given_again(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "train", lambda *arguments: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(Preempted, match="^stopped by SIGTERM; to continue, give the same command again$"):
        train(Path("train/recipes/demo.yaml"), run_dir=tmp_path / "run")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the process would end now


def tokens(run, devices, begin, end):
    """How many target tokens the batches of some steps have."""
    return sum(np.count_nonzero(labels) for _, labels in first_batches(run, end, devices)[begin:])


def test_ctrl_c_after_the_last_step_leaves_the_scores_to_the_same_command(stopped, monkeypatch):
    """It comes while the last state may still be being written. What is written at the end is there all the same."""
    loaded, run = stopped
    loaded = loaded.model_copy(update={"tensorboard": loaded.tensorboard.model_copy(update={"embeddings": True})})
    save_recipe(loaded, run.recipe)
    console = Console(file=io.StringIO(), width=300)
    with ctrl_c_after():
        experiment.train(loaded, run.path, console)
    assert "interrupted; the same command resumes from step 6" in console.file.getvalue()
    assert run.is_unfinished() and not run.scores.exists()
    monkeypatch.setattr(keras.Model, "fit", None)
    embeddings = run.logs / "train" / "source.bytes"
    written = embeddings.read_bytes()
    embeddings.unlink()
    experiment.train(loaded, run.path)
    assert run.scores.is_file() and not run.is_unfinished()
    assert embeddings.read_bytes() == written


def test_too_little_memory_for_the_scores_leaves_them_to_the_same_command(stopped, monkeypatch):
    """It may have a smaller `evaluation.batch_size` then; `evaluate` can score what is trained before."""
    loaded, run = stopped
    few = [(Path(loaded.data.root) / f"few.{language}").read_text().splitlines() for language in ("en", "de")]
    translate = Translator.translate

    def with_little_memory(self, texts):
        if len(texts) > 2:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[4,512]")
        return translate(self, texts)

    monkeypatch.setattr(Translator, "translate", with_little_memory)
    with pytest.raises(OutOfMemory) as error:
        experiment.train(loaded, run.path)
    message = str(error.value)
    assert message.startswith("out of memory while the trained model was scored; the training is complete and ")
    assert "lower evaluation.batch_size" in message and f"tf-transformer evaluate {run.path} " in message
    assert run.is_unfinished() and not run.scores.exists()
    monkeypatch.setattr(keras.Model, "fit", None)
    scores = experiment.evaluate(run, list(zip(*few, strict=True)), batch_size=2)
    smaller = loaded.model_copy(update={"evaluation": loaded.evaluation.model_copy(update={"batch_size": 2})})
    experiment.train(smaller, run.path)
    own = run.read_scores()[0]
    assert own["bleu"] == scores["bleu"] and own["training_seconds"] > 0 and not run.is_unfinished()


def test_too_little_memory_for_the_perplexity_is_told(eager, tiny_run_directory, monkeypatch):
    def no_memory(*arguments, **options):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[64,512]")

    monkeypatch.setattr(keras.Model, "evaluate", no_memory)
    with pytest.raises(OutOfMemory, match="^out of memory while the perplexity was computed; end other programs that "):
        experiment.evaluate(tiny_run_directory, PAIRS[:1])


def test_the_time_of_a_training_is_that_of_its_steps(stopped, monkeypatch):
    """Not that of its preparation, which an interrupted training would have several times, or not at all."""
    loaded, run = stopped
    clock = SimpleNamespace(now=0.0)

    def prepare(*arguments):
        clock.now += 1000.0
        return prepare_data(*arguments)

    def fit(*arguments):
        clock.now += 5.0
        return 7.0

    prepare_data = runner.prepare_data
    monkeypatch.setattr(runner, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr(runner, "prepare_data", prepare)
    monkeypatch.setattr(runner, "fit", fit)
    monkeypatch.setattr(runner, "evaluate_sets", lambda *arguments: {"test": {"bleu": 1.0}})
    assert experiment.train(loaded, run.path).read_scores()[0]["training_seconds"] == 12.0


@pytest.mark.thorough
def test_another_number_of_devices_is_told_and_a_new_run_may_have_it(stopped, tmp_path):
    """As on a machine with more GPUs; each device counts figures of its own, in mid-epoch."""
    loaded, run = stopped
    before = contents(run.path)
    more = with_training(loaded, distribution="mirrored")
    save_recipe(more, run.recipe)
    with pytest.raises(UserError, match=r"had 1 device\(s\), now there are 2, .* start a new run .* --resume "):
        experiment.train(more, run.path)
    save_recipe(loaded, run.recipe)
    assert contents(run.path) == before
    other = experiment.train(more, tmp_path / "other", resume=run.path)
    ((_, counted),) = figures(other.logs / "train")["training/tokens"]
    assert counted == tokens(run, devices=1, begin=3, end=5) + tokens(run, devices=2, begin=5, end=6)


@pytest.mark.parametrize("changes", [{"ema": 0.9}, {"precision": "mixed_float16"}], ids=str)
def test_a_state_that_another_optimizer_can_t_take_is_told(stopped, changes, tmp_path):
    loaded, run = stopped
    changed = with_training(loaded, **changes)
    with pytest.raises(UserError, match=rf"differs in training\.{next(iter(changes))}; use the same values"):
        experiment.train(changed, tmp_path / "new", resume=run.path)
    assert not (tmp_path / "new").exists()


def test_an_average_from_before_is_not_the_model_of_the_training_that_goes_on(stopped):
    loaded, run = stopped
    average_checkpoints(run, last=1)
    experiment.train(loaded, run.path)
    assert not run.average.exists() and run.best_checkpoint() == run.best


@pytest.mark.parametrize(
    "exactly",
    [pytest.param(False, marks=pytest.mark.thorough), pytest.param(True, marks=pytest.mark.slow)],
    ids=["it ends", "exactly"],
)
def test_the_same_command_goes_on_with_a_run_that_began_from_another(stopped, tmp_path, exactly):
    """Even where the other run's states are gone; with another path the folder is another run's.

    Where it is to be exact, to the weights that it has undisturbed.
    """
    loaded, run = stopped
    before = contents(run.path)
    longer = with_training(loaded, steps=9)
    whole = experiment.train(longer, tmp_path / "whole", resume=run.path) if exactly else None
    with ctrl_c_after(7):
        experiment.train(longer, tmp_path / "other", resume=run.path)
    with pytest.raises(UserError, match="contains another run"):
        experiment.train(longer, tmp_path / "other", resume=next(run.training_state.glob("step-*")))
    assert contents(run.path) == before
    shutil.rmtree(run.training_state)
    other = experiment.train(longer, tmp_path / "other", resume=run.path)
    last = "step-00000009.keras"
    weights = load_model(other.checkpoints / last).get_weights()
    if exactly:
        theirs = load_model(whole.checkpoints / last).get_weights()
        assert all((a == b).all() for a, b in zip(weights, theirs, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending",
    [{"steps": 4}, {"steps": 8, "early_stopping": 1}],
    ids=["steps", "stopping"],
)
def test_what_ended_another_run_does_not_end_the_one_that_begins_from_it(eager, tmp_path, ending):
    """It died after its last step, or once early stopping had ended it, and before its scores were there."""
    settings = {"validate_every": 2, "warmup_steps": 100_000, "save_every_seconds": 60, **ending}
    loaded = on(tmp_path, PAIRS, 64, max_length=32, **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tf_transformer.experiment.runner.evaluate_sets", lambda *arguments, **options: 1 / 0)
        if "early_stopping" in ending:  # no validation is better than the first
            patch.setattr(keras.callbacks.EarlyStopping, "_is_improvement", lambda *arguments: False)
        with pytest.raises(ZeroDivisionError):
            experiment.train(loaded, tmp_path / "run")
    longer = with_training(loaded, steps=10, early_stopping=3)
    assert find_state(tmp_path / "run", longer).name == "step-00000004"
    other = experiment.train(longer, tmp_path / "other", resume=tmp_path / "run")
    assert other.step_checkpoints()[-1].stem == "step-00000010"


def test_what_is_no_state_or_another_model_s_is_told_in_one_line(stopped, tmp_path):
    loaded, run = stopped
    older, newest = sorted(run.training_state.glob("step-*"))
    assert find_state(run.path, loaded) == find_state(newest, loaded) == newest
    assert find_state(older, loaded) == older
    longer = with_training(loaded, steps=20)
    assert find_state(run.path, longer) == newest

    other_dropout = loaded.model_copy(update={"model": loaded.model.model_copy(update={"dropout_rate": 0.3})})
    assert find_state(run.path, other_dropout) == newest

    drops = loaded.model_copy(update={"model": loaded.model.model_copy(update={"attention_dropout_rate": 0.1})})
    with pytest.raises(UserError, match=r"differs in model\.attention_dropout_rate \(0\.0 there, 0\.1 here\)"):
        find_state(run.path, drops)

    # Each word of its trees would be another token, one that the vocabulary does not have.
    tagged = loaded.model_copy(update={"data": loaded.data.model_copy(update={"tags": True})})
    with pytest.raises(UserError, match=r"differs in data\.tags;"):
        find_state(run.path, tagged)

    shorter, at_once = with_training(loaded, steps=3), with_training(loaded, steps_per_execution=2)
    wider = loaded.model_copy(update={"model": loaded.model.model_copy(update={"dff": 64})})
    ended = tmp_path / "ended"
    shutil.copytree(run.path, ended, ignore=shutil.ignore_patterns("training_state"))
    flip_a_bit(next(newest.glob("*.data-*")), 0.5)
    for path, recipe, told in [
        (tmp_path / "none", loaded, "contains no training state"),
        (run.training_state / "step-00000007", loaded, "contains no training state"),
        (ended, loaded, "contains no training state"),
        (older, wider, r"differs in model\.dff"),
        (older, shorter, r"that state is of step 3; training\.steps is 3 and must be larger"),
        (older, at_once, r"of step 3, not a multiple of training\.steps_per_execution, 2"),
        (run.path, loaded, r"step-00000005: damaged"),
    ]:
        with pytest.raises(UserError, match=told) as error:
            experiment.train(recipe, tmp_path / "new", resume=path)
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="names this run itself; leave --resume out"):
        experiment.train(loaded, run.path, resume=run.path)
    with pytest.raises(UserError, match="ended: contains a finished training"):
        experiment.train(loaded, ended, resume=older)
    assert not (tmp_path / "new").exists()
