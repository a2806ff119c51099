"""Prepared data of a run: made before it, shared, gone on with, and gone when it has ended."""

import errno
import io
import itertools
import json
import os
import re
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock

import pytest
import tensorflow as tf
from rich.console import Console

from tests.bounded import eventually, started
from tests.cli.command import contents
from tests.experiment.looked_at import first_batches
from tests.experiment.small_recipe import ctrl_c_after, on
from tests.runs.conftest import STOPPED, Begun
from tests.runs.prepared_data import nothing_is_prepared, with_data
from tests.runs.test_going_on import flip_a_bit
from tests.tiny_run import PAIRS
from tf_transformer import experiment, load_recipe
from tf_transformer.data.lookup import find_pairs
from tf_transformer.data.prepared import preparing
from tf_transformer.errors import UserError
from tf_transformer.experiment import runner, vocabulary
from tf_transformer.experiment.corpus import open_source
from tf_transformer.experiment.resuming import find_beginning
from tf_transformer.recipe import save_recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model


@pytest.fixture(scope="module")
def trained(eager, tmp_path_factory):
    """A run by such a recipe, which nothing disturbed. Nothing may be changed in it."""
    folder = tmp_path_factory.mktemp("trained")
    return experiment.train(on(folder, PAIRS, 64, max_length=32, steps=2, validate_every=2), folder / "run")


@pytest.fixture(scope="module")
def prepared_first(eager, stopped_once, tmp_path_factory):
    """A run by the recipe of the one that was stopped, and what was told when its data was prepared before it."""
    recipe, path, told = stopped_once[0], tmp_path_factory.mktemp("undisturbed") / "run", io.StringIO()
    experiment.prepare(recipe, path, Console(file=told, width=300))
    with pytest.MonkeyPatch.context() as patch:
        nothing_is_prepared(patch)
        return experiment.train(recipe, path), told.getvalue()


@pytest.fixture
def undisturbed(prepared_first):
    """The run, which nothing disturbed. Nothing may be changed in it."""
    return prepared_first[0]


def same_weights(one, other):
    name = one.step_checkpoints()[-1].name
    pairs = zip(*(load_model(run.checkpoints / name).get_weights() for run in (one, other)), strict=True)
    return all((a == b).all() for a, b in pairs)


def test_a_training_finds_what_was_prepared_for_it(prepared_first):
    """That it has the weights of one that nothing was prepared for, the test of damage sees."""
    run, told = prepared_first
    assert "train: 24 of 24 pairs kept" in told
    assert run.scores.is_file() and not run.training_state.exists()


@pytest.mark.thorough
def test_trainings_share_a_folder_which_stays(short, trained, tmp_path, monkeypatch):
    shared = with_data(short, prepared=str(tmp_path / "shared"))
    experiment.prepare(shared, tmp_path / "first", Console(quiet=True))
    before = contents(tmp_path / "shared")
    nothing_is_prepared(monkeypatch)
    second = experiment.train(shared.model_copy(update={"seed": 2}), tmp_path / "second")
    assert contents(tmp_path / "shared") == before
    assert {path.name for path in (tmp_path / "shared").iterdir()} == {"lock", "tokenizer", "train", "validation"}
    assert not same_weights(second, trained)


def test_tokenizers_that_were_not_learned_for_prepared_data_are_not_replaced(short, undisturbed, tmp_path):
    """Those of another run, and what somebody has put beside such as may be replaced; an empty folder may be."""
    shared = with_data(short, prepared=str(tmp_path / "shared"))
    tokenizer = tmp_path / "shared" / "tokenizer"
    tokenizer.mkdir(parents=True)
    experiment.prepare(shared, tmp_path / "run", Console(quiet=True))
    (tokenizer / "mine.model").write_text("mine")
    smaller = shared.model_copy(update={"tokenizer": shared.tokenizer.model_copy(update={"vocab_size": 400})})
    of_run = with_data(short, prepared=str(shutil.copytree(undisturbed.path, tmp_path / "other")))
    for recipe, what in (smaller, r"mine\.model"), (of_run, r"a folder without learned_from\.json"):
        there = Path(recipe.data.prepared) / "tokenizer"
        before = contents(there)
        with pytest.raises(UserError, match=rf"tokenizer: not replaced .*: {what} was not made by preparing"):
            experiment.prepare(recipe, tmp_path / "run", Console(quiet=True))
        assert contents(there) == before


def test_nothing_is_prepared_for_a_run_that_has_ended(undisturbed):
    before = contents(undisturbed.path)
    with pytest.raises(UserError, match="contains a finished training"):
        experiment.prepare(load_recipe(undisturbed.recipe), undisturbed.path, Console(quiet=True))
    assert contents(undisturbed.path) == before


def test_a_shared_folder_is_prepared_whatever_the_run_s_folder_holds(stopped, undisturbed, tmp_path):
    """And nothing is changed there. Only a training of this very recipe that was broken off has its own tokenizers."""
    loaded, run = stopped
    other = loaded.model_copy(update={"seed": 2})
    cases = (loaded, run, False), (other, run, True), (loaded, undisturbed, True)
    for number, (recipe, there, learned) in enumerate(cases):
        before, folder = contents(there.path), tmp_path / f"shared{number}"
        shared = with_data(recipe, prepared=str(folder))
        assert experiment.prepare(shared, there.path, Console(quiet=True)) == folder
        assert (folder / "tokenizer").exists() == learned and contents(there.path) == before


def test_of_two_that_begin_at_once_the_slower_leaves_the_other_s_folder(short, tmp_path, monkeypatch):
    """The other takes the folder that this one has just made for what was broken off, and goes on with it."""
    create = RunDirectory.create
    with ExitStack() as other:

        def create_too_slowly(path):
            run = create(path)
            other.enter_context(run.locked())
            return run

        monkeypatch.setattr(RunDirectory, "create", create_too_slowly)
        with pytest.raises(UserError, match="another process is training here"):
            experiment.train(short, tmp_path / "run")
        assert RunDirectory(tmp_path / "run").is_unfinished()


# What is missing is prepared again in the test of the buffer too.
@pytest.mark.parametrize("damage", ["a bit", pytest.param("all of it", marks=pytest.mark.slow)])
def test_damage_between_stopping_and_going_on_changes_no_batch(stopped, undisturbed, console, damage):
    loaded, run = stopped
    for split in ("train", "validation") if damage == "all of it" else ():
        for file in (run.prepared / split).iterdir():
            file.unlink()
        (run.prepared / split).rmdir()
    if damage == "a bit":
        flip_a_bit(run.prepared / "train" / "target_ids.npy", 0.9)
    experiment.train(loaded, run.path, console)
    assert ("the prepared data is damaged" in console.file.getvalue()) == (damage == "a bit")
    assert f"resuming from step {STOPPED}" in console.file.getvalue()
    assert same_weights(run, undisturbed)


def test_a_run_of_an_earlier_order_of_batches_is_told_so(stopped, until_it_begins, console, tmp_path):
    """And nothing of it is changed, so that the version that began it can finish it; another may begin from it."""
    loaded, run = stopped
    assert not find_beginning(loaded, RunDirectory(tmp_path / "other"), run.path).other_order
    start = run.training_state / "start.json"
    began = json.loads(start.read_bytes())
    for earlier in ({key: value for key, value in began.items() if key != "order"}, {**began, "order": 1}):
        start.write_text(json.dumps(earlier))
        before = contents(run.path)
        with pytest.raises(
            UserError, match="in the order of another version of this package; finish .* --resume "
        ) as e:
            experiment.train(loaded, run.path)
        assert "\n" not in str(e.value) and contents(run.path) == before
    with pytest.raises(Begun):
        experiment.train(loaded, tmp_path / "other", console, resume=run.path)
    assert "that run drew its batches in the order of another version" in console.file.getvalue()
    assert contents(run.path) == before


@pytest.mark.thorough
def test_a_training_goes_on_though_its_data_is_to_lie_elsewhere_now(stopped, undisturbed, console):
    """There nothing is prepared yet, which changes no batch."""
    loaded, run = stopped
    changed = with_data(loaded, prepared=str(run.path.parent / "elsewhere"))
    experiment.train(changed, run.path, console)
    said = console.file.getvalue()
    assert f"resuming from step {STOPPED}" in said
    assert "the prepared data is damaged" not in said and same_weights(run, undisturbed)


def test_what_was_prepared_before_a_failure_is_gone_on_with(short, until_it_begins, tmp_path, monkeypatch):
    """Where nothing was yet, the folder is gone. The disk is full after validation's 4 parts and 4 of training's 24.

    When all is prepared, there is too little memory for the model.
    """
    made, save_part = itertools.count(), preparing.save_part

    def save_eight(*given):
        if next(made) >= 8:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save_part(*given)

    monkeypatch.setattr(preparing, "PART", 1)
    with monkeypatch.context() as patch:
        patch.setattr(vocabulary, "train_tokenizers", lambda *given, **named: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            experiment.train(short, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with monkeypatch.context() as patch:
        patch.setattr(preparing, "save_part", save_eight)
        with pytest.raises(UserError, match="the prepared data can't be written: No space left on device; "):
            experiment.train(short, tmp_path / "run")
    saved = []
    monkeypatch.setattr(preparing, "save_part", lambda *given: saved.append(save_part(*given)))
    monkeypatch.setattr(vocabulary, "train_tokenizers", None)
    with monkeypatch.context() as patch:
        oom = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[512,512]")
        patch.setattr(runner, "make_model", Mock(side_effect=oom))
        with pytest.raises(UserError, match="^out of memory while the model was built; .* the prepared data is kept$"):
            experiment.train(short, tmp_path / "run")
    assert len(saved) == 20
    with pytest.raises(Begun):
        experiment.train(short, tmp_path / "run")
    assert len(saved) == 20


SOME = """
import itertools, sys, time
from pathlib import Path
from tf_transformer import experiment, load_recipe
from tf_transformer.data.prepared import preparing

preparing.PART = 1
make_part = preparing.make_part

def some(*given):
    # Of the validation data, which have more parts.
    if list(Path(sys.argv[2]).rglob(".parts-validation")) and next(made) >= 2:
        time.sleep(10**6)
    return make_part(*given)

made = itertools.count()
preparing.make_part = some
experiment.train(load_recipe(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.thorough
def test_a_training_that_was_killed_while_it_prepared_goes_on(short, trained, tmp_path, monkeypatch):
    save_recipe(short, tmp_path / "recipe.yaml")
    run = RunDirectory(tmp_path / "run")
    words = [sys.executable, "-c", SOME, tmp_path / "recipe.yaml", run.path]
    parts = run.prepared / ".parts-validation"
    with started(words):
        eventually(lambda: len(list(parts.glob("0*.npz"))) >= 2)
    monkeypatch.setattr(preparing, "PART", 1)
    assert run.is_only_prepared()
    experiment.train(load_recipe(tmp_path / "recipe.yaml"), run.path)
    assert same_weights(run, trained)
    with pytest.raises(UserError, match="contains a finished training"):
        experiment.train(short, run.path)


# -- several sources ----


@pytest.fixture
def mixed(short, tmp_path):
    back = [(f"{source} again", target) for source, target in PAIRS[:6]]
    for path, lines in zip((tmp_path / "back.en", tmp_path / "back.de"), zip(*back, strict=True), strict=True):
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    save_recipe(short, tmp_path / "one.yaml")
    sources = "[{files: [pairs.en, pairs.de]}, {files: [back.en, back.de], weight: 2, tag: <bt>}]"
    return load_recipe(tmp_path / "one.yaml", [f"data.train={sources}"])


def test_of_several_sources_each_is_told_and_trained_on(mixed, tmp_path, console, monkeypatch):
    """After Ctrl-C another weight is told, and what was prepared is still there."""
    with ctrl_c_after(1):
        experiment.train(mixed, tmp_path / "run", console)
    first, second = mixed.data.train
    other = with_data(mixed, train=(first, second.model_copy(update={"weight": 3.0})))
    with pytest.raises(UserError, match=r"a training run that differs in data\.train"):
        experiment.train(other, tmp_path / "run")
    nothing_is_prepared(monkeypatch)
    run = experiment.train(mixed, tmp_path / "run")
    monkeypatch.undo()
    said = console.file.getvalue()
    assert re.search(r"^train, pairs.en and pairs.de: 24 of 24 pairs kept", said, re.MULTILINE)
    assert re.search(r"^train, back.en and back.de: 6 of 6 pairs kept", said, re.MULTILINE)
    assert load_recipe(run.recipe) == mixed
    told = "| train | pairs.en and pairs.de (weight 1); back.en and back.de (weight 2, tag <bt>) |"
    assert told in run.card.read_text(encoding="utf-8")
    texts = [source for source, _ in open_source(mixed, "train")]
    assert texts[:24] == [source for source, _ in PAIRS] and all(text.startswith("<bt> ") for text in texts[24:])
    # One epoch is one batch here, with each pair of the second source twice.
    wide = mixed.model_copy(update={"data": mixed.data.model_copy(update={"batch_tokens": 4096})})
    save_recipe(wide, run.recipe)
    ((batch, *more),) = [first_batches(run, 1)]
    found = dict(find_pairs(open_source(wide, "train"), run.load_tokenizers(), batch))
    assert not more and set(found) == set(range(1, 31)) and len(batch[1]) == 24 + 2 * 6
    assert [found[number] for number in range(25, 31)] == [
        (f"<bt> {source} again", target) for source, target in PAIRS[:6]
    ]


@pytest.mark.thorough
def test_a_training_goes_on_though_its_folder_was_prepared_with_another_tag_since(mixed, tmp_path, console):
    """The files are the same, and so is what tells them from others without reading them."""
    shared = with_data(mixed, prepared=str(tmp_path / "shared"))
    with ctrl_c_after(1):
        experiment.train(shared, tmp_path / "run")
    first, second = shared.data.train
    other = with_data(shared, train=(first, second.model_copy(update={"tag": "<new>"})))
    experiment.prepare(other, tmp_path / "other", Console(quiet=True))
    experiment.train(shared, tmp_path / "run", console)
    said = console.file.getvalue()
    assert "train: the prepared data differs in tag" in said and "resuming from step 1" in said


@pytest.mark.thorough
def test_noise_is_drawn_once_and_tokenised_once(short, tmp_path, console, monkeypatch):
    """Clean pairs and two noised copies; a training that goes on after Ctrl-C, and another run, find them prepared."""
    save_recipe(with_data(short, prepared=str(tmp_path / "shared")), tmp_path / "one.yaml")
    copies = ", ".join(f"{{files: [pairs.en, pairs.de], noise: {{typos: 0.5, seed: {seed}}}}}" for seed in (1, 2))
    noisy = load_recipe(tmp_path / "one.yaml", [f"data.train=[{{files: [pairs.en, pairs.de]}}, {copies}]"])
    texts = list(open_source(noisy, "train"))
    assert texts == list(open_source(noisy, "train"))
    clean, first, second = texts[:24], texts[24:48], texts[48:]
    assert clean == PAIRS and [target for _, target in first] == [target for _, target in second]
    for one, other in (clean, first), (clean, second), (first, second):
        assert sum(a != b for a, b in zip(one, other, strict=True)) > 12
    with ctrl_c_after(1):
        experiment.train(noisy, tmp_path / "run", console)
    assert "pairs.en and pairs.de with noise (typos 0.5, seed 1): 24 of 24" in console.file.getvalue()
    nothing_is_prepared(monkeypatch)
    run = experiment.train(noisy, tmp_path / "run")
    assert run.step_checkpoints()[-1].name == "step-00000002.keras"
    experiment.prepare(noisy, tmp_path / "undisturbed", Console(quiet=True))
    assert load_recipe(run.recipe) == noisy
    assert "pairs.en and pairs.de with noise (typos 0.5, seed 2) (weight 1)" in run.card.read_text(encoding="utf-8")
    monkeypatch.undo()
    other = load_recipe(
        tmp_path / "one.yaml", [f"data.train=[{{files: [pairs.en, pairs.de]}}, {copies.replace('0.5', '0.4')}]"]
    )
    experiment.prepare(other, tmp_path / "other", console)
    assert "train: the prepared data differs in noise" in console.file.getvalue()
