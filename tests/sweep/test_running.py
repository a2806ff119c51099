"""The trainings of a sweep: begun, gone on with, stopped, and compared only where they are alike."""

import csv
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import yaml

from tests.eager import eagerly
from tests.sweep.small_sweep import write
from tests.tiny_run import MAX_LENGTH, RECIPE, settings, write_pairs
from tf_transformer import experiment
from tf_transformer.commands.sweep import sweep
from tf_transformer.errors import Preempted, UserError
from tf_transformer.recipe import save_recipe
from tf_transformer.sweep import load_sweep, running
from tf_transformer.sweep.results import compare
from tf_transformer.sweep.running import run_sweep


@pytest.fixture(params=[pytest.param("in processes", marks=pytest.mark.slow), "in this process"])
def trains(request, monkeypatch):
    """How trainings are made; one without a corpus always is a process, whose status and words are told."""
    in_a_process = running._train

    def train(run):
        recipe = run.load()
        if not all((Path(recipe.data.root) / name).exists() for name in recipe.data.train):
            return in_a_process(run)
        with eagerly():
            return experiment.train(recipe, run.path)

    if request.param == "in this process":
        monkeypatch.setattr(running, "_train", train)


@pytest.mark.usefixtures("trains")
def test_what_failed_goes_on_and_what_is_there_stays(tmp_path):
    """Two real trainings; the second finds its corpus in the second attempt alone."""
    write_pairs(tmp_path)
    small = settings(tmp_path, training__steps=1, training__validate_every=1, evaluation__beam_size=1,
                     evaluation__extra_length=0)  # fmt: skip
    common = {key: yaml.safe_load(value) for key, _, value in (each.partition("=") for each in small)}
    both = ["late.en", "late.de"]
    late = {"data.train": both, "data.validation": both, "data.test": both}
    path = write(tmp_path, set=common, rows={"base": {}, "late": late})
    folder, told = tmp_path / "runs", []
    sweep, runs = load_sweep(path, folder=folder)
    with pytest.raises(UserError, match=r"late-seed1 ended with status 2 \(.*late\.en.*give the same command again"):
        run_sweep(runs, told.append)
    for name in "en", "de":
        (tmp_path / f"late.{name}").write_bytes((tmp_path / f"pairs.{name}").read_bytes())
    written = (folder / "base-seed1" / "scores.json").stat().st_mtime_ns
    scores = run_sweep(runs, told.append)
    assert (folder / "base-seed1" / "scores.json").stat().st_mtime_ns == written

    def figures(row):
        of_run = scores[row, 1]
        seconds = f"training_seconds {of_run['training_seconds']:,.0f}"
        return f"bleu {of_run['bleu']:.2f}, perplexity {of_run['perplexity']:,.3f}, {seconds}"

    assert told[-3:] == [
        f"1 of 2: base-seed1: {figures('base')} (already finished)",
        "2 of 2: late-seed1 ...",
        f"2 of 2: late-seed1: {figures('late')}",
    ]
    assert scores["base", 1] == json.loads((folder / "base-seed1" / "scores.json").read_text()) | {"earlier": []}
    assert {(row.row, row.figure) for row in compare(scores, list(sweep.rows))} == {
        (row, figure) for row in ("base", "late") for figure in ("bleu", "perplexity", "training_seconds")
    }

    _, others = load_sweep(write(tmp_path, set={**common, "model.dff": 32}), folder=folder)
    with pytest.raises(UserError, match=r"model\.dff"):
        run_sweep(others)

    runs[0].path.joinpath("scores.json").write_text("{")
    with pytest.raises(UserError, match=r"scores\.json: missing or damaged; .* move .*base-seed1 away$"):
        run_sweep(runs)


def test_finished_fine_tunings_need_not_what_they_began_from(tmp_path, tiny_run_directory):
    origin = shutil.copytree(tiny_run_directory.path, tmp_path / "origin")
    raw = yaml.safe_load(RECIPE.read_text()) | {"init_from": str(origin)}
    del raw["model"], raw["tokenizer"]
    raw["data"]["max_length"] = MAX_LENGTH
    (tmp_path / "tuned.yaml").write_text(yaml.safe_dump(raw))
    path, folder = write(tmp_path, recipe="tuned.yaml"), tmp_path / "runs"
    _, [run] = load_sweep(path, folder=folder)
    run.path.mkdir(parents=True)
    save_recipe(run.load(), run.path / "recipe.yaml")
    own = {"bleu": 4.0, "training_seconds": 5.0}  # what `evaluate` scored, before and since, is not the training's
    (run.path / "scores.json").write_text(json.dumps({"bleu": 3.0, "earlier": [{"bleu": 1.0}, own, {"bleu": 2.0}]}))
    shutil.rmtree(origin)
    assert run_sweep(load_sweep(path, folder=folder)[1]) == {("base", 1): own}
    with pytest.raises(UserError, match="row base: .*init_from is"):
        load_sweep(path)


def test_what_failed_is_told_whatever_bytes_it_wrote(tmp_path, monkeypatch):
    monkeypatch.setattr(
        running, "COMMAND", [sys.executable, "-c", r"import os; os.write(2, b'no \xfc\n'); os._exit(3)"]
    )
    _, runs = load_sweep(write(tmp_path), folder=tmp_path / "runs")
    with pytest.raises(UserError, match=r"base-seed1 ended with status 3 \(no \ufffd\); fix that"):
        run_sweep(runs)


def test_a_training_that_is_stopped_stops_the_sweep_with_its_status(tmp_path, monkeypatch):
    """By SIGTERM to it alone, or since a worker is lost: the command then ends with status 75, as the training did."""
    monkeypatch.setattr(running, "COMMAND", [sys.executable, "-c", "print('worker 1 is gone'); raise SystemExit(75)"])
    _, runs = load_sweep(write(tmp_path), folder=tmp_path / "runs")
    with pytest.raises(Preempted, match=r"base-seed1 was stopped \(worker 1 is gone\); .* give the same command again"):
        run_sweep(runs)


@pytest.mark.parametrize("signalled", ["os.getpid()", "os.getppid(), os.getpid()"])
def test_sigterm_while_a_training_starts_stops_the_sweep_with_the_same_status(tmp_path, monkeypatch, signalled):
    """To the training alone, or to the sweep, which sends it on: no handler is there yet."""
    program = f"import os, signal, time\nfor each in {signalled},: os.kill(each, signal.SIGTERM)\ntime.sleep(600)"
    monkeypatch.setattr(running, "COMMAND", [sys.executable, "-c", program])
    _, runs = load_sweep(write(tmp_path), folder=tmp_path / "runs")
    with pytest.raises(Preempted, match="^base-seed1 was stopped; to continue, give the same command again"):
        run_sweep(runs)


def test_sigterm_between_trainings_stops_the_sweep_with_the_same_status(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "run_sweep", lambda *arguments: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(Preempted, match="^stopped by SIGTERM; to continue, give the same command again$"):
        sweep(write(tmp_path), run_dir=tmp_path / "runs")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the process would end now


def trained(run, **known):
    """Makes a run's folder as a training leaves it."""
    run.path.mkdir(parents=True)
    save_recipe(run.load(), run.path / "recipe.yaml")
    (run.path / "training.json").write_text(json.dumps(known))
    (run.path / "scores.json").write_text(json.dumps({"bleu": 30.0, "training_seconds": 5.0, "earlier": []}))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_recipe_that_is_changed_during_a_sweep_is_told(tmp_path, monkeypatch, moment):
    """Before the second training's process has read it, or after the first has ended."""
    recipe = tmp_path / "own.yaml"
    recipe.write_text(f"extends: {RECIPE}\n")
    _, runs = load_sweep(write(tmp_path, recipe="own.yaml", seeds=[1, 2]), folder=tmp_path / "runs")

    def train(run):
        if moment == "after":
            trained(run)
        recipe.write_text(f"extends: {RECIPE}\ntraining: {{steps: 70}}\n")
        if moment == "before":
            trained(run)

    monkeypatch.setattr(running, "_train", train)
    told = {
        "before": r"differs in training\.steps",
        "after": r"own\.yaml: changed since the sweep began, .* undo the change",
    }
    with pytest.raises(UserError, match=told[moment]):
        run_sweep(runs)
    assert not runs[1].path.exists()


CORPUS, OTHER_CORPUS = ({"train": f"24 pairs, CRC-32 {number}"} for number in (1, 2))


@pytest.mark.parametrize(
    ("known", "other", "told"),
    [
        ({"corpus": CORPUS}, {"corpus": OTHER_CORPUS}, "other pairs"),
        ({"fine_tuned_from": {"sha256": "1"}}, {"fine_tuned_from": {"sha256": "2"}}, "another model of init_from"),
    ],
    ids=["corpus", "origin"],
)
def test_runs_of_other_data_are_not_compared(tmp_path, known, other, told):
    """But for those whose settings say so."""
    rows = {"base": {}, "wide": {"model.dff": 64, "data.max_length": 30}, "old": {}}
    _, runs = load_sweep(write(tmp_path, rows=rows), folder=tmp_path / "runs")
    for run, each in zip(runs, (known, known, {}), strict=True):
        trained(run, **each)
    assert len(run_sweep(runs)) == 3
    (runs[1].path / "training.json").write_text(json.dumps(other))
    message = rf"wide-seed1: trained with {told} than .*base-seed1, .* give the same command again$"
    with pytest.raises(UserError, match=message):
        run_sweep(runs)
    (runs[1].path / "recipe.yaml").unlink()
    rows["wide"] |= {"data.train": "test"}
    _, runs = load_sweep(write(tmp_path, rows=rows), folder=tmp_path / "runs")
    if told == "other pairs":
        assert len(run_sweep(runs)) == 3


def test_after_each_training_the_table_has_what_there_is(tmp_path, monkeypatch):
    def train(run):
        if run.row == "late":
            raise UserError("late-seed1 ended with status 2")
        trained(run)

    monkeypatch.setattr(running, "_train", train)
    with pytest.raises(UserError, match="late-seed1 ended"):
        sweep(write(tmp_path, rows={"base": {}, "late": {"model.dff": 64}}), run_dir=tmp_path / "runs")
    rows = list(csv.DictReader((tmp_path / "runs" / "results.csv").open()))
    assert [(row["row"], row["figure"]) for row in rows] == [("base", "bleu"), ("base", "training_seconds")]


# A training during which the sweep is told to end, and told so again while the training saves its state.
TOLD_TO_END = """
import os, signal, sys, time

def save(number, frame):
    print(signal.Signals(number).name, flush=True)
    if not {again}:
        sys.exit(75)
    os.kill(os.getppid(), signal.SIGTERM)

signal.signal(signal.SIGTERM, save)
print(os.getpid(), os.getpgrp(), flush=True)
os.kill(os.getppid(), signal.SIGTERM)
for _ in range(24_000):
    time.sleep(0.01)
"""


@pytest.mark.parametrize("again", [False, True])
def test_a_training_gets_one_signal_where_the_sweep_is_told_to_end(tmp_path, monkeypatch, again):
    """In a process group of its own, to which Ctrl-C in a terminal does not go; at a second one it is ended."""
    monkeypatch.setattr(running, "COMMAND", [sys.executable, "-c", TOLD_TO_END.format(again=again)])
    _, runs = load_sweep(write(tmp_path), folder=tmp_path / "runs")
    with pytest.raises(SystemExit if again else Preempted):
        run_sweep(runs)
    process, group, *signals = (tmp_path / "runs" / "base-seed1.log").read_text().split()
    assert process == group and signals == ["SIGTERM"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)
