"""Sweeps: what a file may hold, what the rows come to, and trainings that go on."""

import csv
import io
import json
import math
import os
import shutil
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.command import contents
from tests.eager import eagerly
from tests.recipe.recipes import FOLDER
from tests.tiny_run import MAX_LENGTH, RECIPE, settings, write_pairs
from tf_transformer import experiment
from tf_transformer.commands.sweep import sweep
from tf_transformer.errors import Preempted, UserError
from tf_transformer.recipe import save_recipe
from tf_transformer.sweep import load_sweep, running
from tf_transformer.sweep.picture import plot_rows
from tf_transformer.sweep.results import as_csv, check_results, compare
from tf_transformer.sweep.running import run_sweep

SWEEPS = sorted((FOLDER.parent / "sweeps").glob("*.yaml"))
SMALLEST = {"name": "small", "recipe": str(RECIPE), "rows": {"base": None}, "seeds": [1]}


def write(folder, **changes):
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({**SMALLEST, **changes}, sort_keys=False))
    return path


# --- the file -------------------------------------------------------------------------------------


def test_rows_change_the_recipe_over_what_is_set_for_all(tmp_path):
    rows = {"base": {}, "wide": {"model.dff": 64, "data.test": None}, "long": {"training.steps": 280}}
    path = write(tmp_path, set={"training.steps": 140, "data.test": "validation"}, rows=rows, seeds=[3, 4])
    sweep, runs = load_sweep(path)
    assert list(sweep.rows) == ["base", "wide", "long"]
    names = "base-seed3 wide-seed3 long-seed3 base-seed4 wide-seed4 long-seed4"
    assert [run.name for run in runs] == names.split()
    recipes = {run.name: run.load() for run in runs}
    assert {name: recipe.training.steps for name, recipe in recipes.items() if "4" in name} == {
        "base-seed4": 140,
        "wide-seed4": 140,
        "long-seed4": 280,
    }
    assert (recipes["wide-seed3"].model.dff, recipes["base-seed3"].model.dff) == (64, 512)
    assert (recipes["wide-seed3"].data.test, recipes["base-seed3"].data.test) == ("test", "validation")
    assert [recipe.seed for recipe in recipes.values()] == [3, 3, 3, 4, 4, 4]


def test_what_is_set_from_outside_replaces_the_file_s_but_no_row_s(tmp_path):
    rows = {"base": {}, "wide": {"model.dff": 64}}
    path = write(tmp_path, set={"training.steps": 140}, rows=rows)
    _, runs = load_sweep(path, ["training.steps=70", "model.dff=32"])
    base, wide = (run.load() for run in runs)
    assert (base.training.steps, base.model.dff) == (70, 32)
    assert (wide.training.steps, wide.model.dff) == (70, 64)


def test_a_recipe_may_lie_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "own.yaml").write_text(f"extends: {RECIPE}\ntraining: {{steps: 70}}\n")
    _, (run,) = load_sweep(write(tmp_path, recipe="~/own.yaml"))
    assert run.load().training.steps == 70


def test_a_row_that_is_there_twice_is_told(tmp_path):
    path = write(tmp_path)
    path.write_text("rows:\n  base: {}\n  base: {}\n")
    with pytest.raises(UserError, match="line 3: not a sweep's YAML: base was given on line 2 already"):
        load_sweep(path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"recipe": "none.yaml"}, "row base: "),
        ({"rows": {}}, "rows: "),
        ({"rows": {"a/b": {}}}, "rows.a/b"),
        ({"rows": {"base": {"model.dff": "wide"}}}, "row base: --set model.dff=wide: model.dff is wide"),
        ({"rows": {"base": {}, "more": {"modle.dff": 3}}}, "row more: --set modle.dff=3: unknown key modle.dff"),
        ({"seeds": [1, 1]}, "a seed occurs twice"),
        ({"seeds": []}, "seeds: "),
        ({"set": {"seed": 9}}, "set has a seed; list the seeds of a sweep under its key seeds"),
        ({"rows": {"base": {}, "other": {"seed": 9}}}, "row other has a seed; list the seeds"),
        ({"seeds": ["a"]}, "seeds.0: "),
        ({"vary": {}}, "a sweep has the keys name, recipe, set, rows, seeds"),
    ],
)
def test_mistakes(tmp_path, changes, told):
    path = write(tmp_path, **changes)
    with pytest.raises(UserError) as error:
        load_sweep(path)
    assert str(error.value).startswith(str(path)) and told in str(error.value) and "\n" not in str(error.value)


def test_a_seed_from_outside_is_told(tmp_path):
    with pytest.raises(UserError, match="--set has a seed; list the seeds of a sweep under its key seeds"):
        load_sweep(write(tmp_path), ["training.steps=70", "seed=9"])


@pytest.mark.parametrize("text", [None, "", "rows: [", "- a"])
def test_a_file_that_is_none(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match="sweep"):
        load_sweep(path)


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_the_project_s_sweeps_load_under_their_names(path):
    assert load_sweep(path)[0].name == path.stem


# --- the comparison -------------------------------------------------------------------------------

FIGURE = st.floats(0, 100).map(lambda x: round(x, 3))


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["base", "a", "b"]), st.integers(1, 4)),
        st.fixed_dictionaries({"bleu": FIGURE}, optional={"perplexity": FIGURE}),
    )
)
def test_means_deviations_and_paired_differences(scores):
    rows = compare(scores, ["base", "a", "b"])
    expected = {
        (row, figure) for figure in ("bleu", "perplexity") for row, seed in scores if figure in scores[row, seed]
    }
    assert {(row.row, row.figure) for row in rows} == expected
    for row in rows:
        values = [scores[row.row, seed][row.figure] for seed in row.values]
        np.testing.assert_allclose(row.mean, np.mean(values))
        pairs = [
            (scores[row.row, seed][row.figure], scores["base", seed][row.figure])
            for seed in range(1, 5)
            if row.figure in scores.get((row.row, seed), {}) and row.figure in scores.get(("base", seed), {})
        ]
        differences = np.array([one - base for one, base in pairs]) if row.row != "base" else np.array([])
        for told, among, of in (
            (row.deviation, values, lambda x: np.std(x, ddof=1)),
            (row.difference_deviation, differences, lambda x: np.std(x, ddof=1)),
        ):
            assert (told is None) == (len(among) < 2)
            if told is not None:
                np.testing.assert_allclose(told, of(among), atol=1e-9)
        assert (row.difference is None) == (len(differences) == 0)
        if row.difference is not None:
            np.testing.assert_allclose(row.difference, differences.mean(), atol=1e-9)


def test_an_infinite_perplexity_has_no_deviation_and_the_others_are_told(tmp_path):
    perplexities = {("base", 1): math.inf, ("base", 2): 4.0, ("wide", 1): 3.0, ("wide", 2): 5.0}
    base, wide = rows = compare({run: {"perplexity": each} for run, each in perplexities.items()}, ["base", "wide"])
    assert (base.mean, base.deviation) == (math.inf, None)
    assert (wide.mean, wide.difference, wide.difference_deviation) == (4.0, -math.inf, None)
    assert wide.deviation == pytest.approx(math.sqrt(2))
    assert "base,perplexity,inf,,,,inf,4\n" in as_csv(rows)
    assert plot_rows(rows, tmp_path / "rows.png").stat().st_size


@pytest.mark.parametrize("of_seeds", [[(math.inf, math.inf)], [(math.inf, 4.0), (4.0, math.inf)]])
def test_where_both_rows_are_infinite_there_is_no_difference(of_seeds):
    """Not NaN, which JSON does not have."""
    names = ["base", "wide"]
    scores = {
        (row, seed): {"perplexity": each}
        for seed, pair in enumerate(of_seeds)
        for row, each in zip(names, pair, strict=True)
    }
    _, wide = rows = compare(scores, names)
    assert (wide.mean, wide.difference, wide.difference_deviation) == (math.inf, None, None)
    assert "wide,perplexity,inf,,,," in as_csv(rows)


ROWS = compare(
    {("base", 1): {"bleu": 30.0}, ("base", 2): {"bleu": 32.0}, ("wide", 2): {"bleu": 33.5, "perplexity": 4.0}},
    ["base", "wide"],
)


def test_csv():
    rows = list(csv.DictReader(io.StringIO(as_csv(ROWS))))
    assert [row["row"] for row in rows] == ["base", "wide", "wide"]
    assert rows[1] == {
        "row": "wide", "figure": "bleu", "mean": "33.5", "deviation": "", "difference": "1.5",
        "difference_deviation": "", "seed1": "", "seed2": "33.5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("results.csv", as_csv(ROWS).encode(), ["base"]),
        ("results.csv", b"date,litres\n1 May,40\n", ["base", "wide"]),
        ("results.csv", b"\xff\xfe", ["base", "wide"]),
        ("results.png", b"a picture", ["base", "wide"]),
    ],
    ids=["another sweep", "another table", "no text", "a picture alone"],
)
def test_results_of_something_else_are_told(tmp_path, name, content, rows):
    check_results(tmp_path / "none", rows)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(
        UserError, match=rf"{name}: not of this sweep's rows and not changed; move it away, or give another"
    ):
        check_results(tmp_path, rows)


def test_results_of_the_same_rows_or_fewer_may_be_replaced(tmp_path):
    (tmp_path / "results.csv").write_text(as_csv(ROWS), encoding="utf-8")
    (tmp_path / "results.png").touch()
    check_results(tmp_path, ["base", "wide", "deep"])


def test_a_picture(tmp_path):
    pixels = matplotlib.image.imread(plot_rows(ROWS, tmp_path / "results.png"))
    assert pixels.shape[1] > pixels.shape[0] > 100
    assert pixels[..., :3].std() > 0.05


def test_the_command_replaces_its_own_results_alone(tmp_path, monkeypatch):
    path, folder, begun = write(tmp_path), tmp_path / "runs", []
    folder.mkdir()
    monkeypatch.setattr(running, "run_sweep", lambda runs, *others: begun.append(runs) or {("base", 1): {"bleu": 30.0}})
    (folder / "results.csv").write_text("date,litres\n1 May,40\n")
    with pytest.raises(UserError, match="not of this sweep's rows"):
        sweep(path, run_dir=folder)
    assert contents(folder) == {"results.csv": b"date,litres\n1 May,40\n"} and not begun
    (folder / "results.csv").unlink()
    for _ in range(2):
        sweep(path, run_dir=folder)
        assert sorted(contents(folder)) == ["results.csv", "results.png"]
    assert len(begun) == 2


# --- trainings ------------------------------------------------------------------------------------


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
    told = {"before": r"differs in training\.steps", "after": r"own\.yaml: changed since the sweep began, .* undo that"}
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


def test_other_sets_are_compared_too():
    """By their BLEU, which stands behind that of the test set."""
    rows = {"old": (30.0, 40.0), "new": (33.5, 38.0)}
    scores = {
        (row, 1): {"bleu": bleu, "perplexity": 5.0, "also": {"news": {"bleu": other}}}
        for row, (bleu, other) in rows.items()
    }
    found = [(row.figure, row.row, row.mean, row.difference) for row in compare(scores, ["old", "new"])]
    assert found[:4] == [
        ("bleu", "old", 30.0, None),
        ("bleu", "new", 33.5, 3.5),
        ("bleu on news", "old", 40.0, None),
        ("bleu on news", "new", 38.0, -2.0),
    ]
