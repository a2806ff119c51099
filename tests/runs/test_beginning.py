"""Killed at any moment before its first step, a run that begins from another's state is begun by the same command."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bounded import SECONDS
from tests.cli.command import contents
from tests.experiment.small_recipe import ctrl_c_after
from tests.runs.conftest import Begun
from tests.tiny_run import RECIPE, settings, write_pairs
from tf_transformer import experiment, load_recipe
from tf_transformer.errors import UserError
from tf_transformer.experiment import resuming
from tf_transformer.runs.directory import RunDirectory

CHANGES = {"training__steps": 6, "training__validate_every": 3, "training__save_every_seconds": 60}


@pytest.fixture(scope="module")
def stopped_by_command(eager, tmp_path_factory):
    """A recipe that a command gives too, and the folder of a run by it that was stopped."""
    folder = tmp_path_factory.mktemp("beginning")
    (folder / "data").mkdir()
    write_pairs(folder / "data")
    recipe = load_recipe(RECIPE, settings(folder / "data", **CHANGES))
    with ctrl_c_after(5):
        experiment.train(recipe, folder / "stopped")
    return recipe, folder / "stopped"


@pytest.fixture(scope="module")
def killed(stopped_by_command):
    """A run that a process began from the state of the one that was stopped, and copies of it at each moment."""
    folder = stopped_by_command[1].parent
    given = settings(folder / "data", **CHANGES)
    (folder / "copies").mkdir()
    words = ["train", RECIPE, *(word for each in given for word in ("--set", each))]
    words += ["--run-dir", folder / "run", "--resume", folder / "stopped"]
    program = [sys.executable, "-m", "tests.runs.beginning", folder / "copies", folder / "run", *words]
    ended = subprocess.run(program, timeout=SECONDS, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    copies = {tuple(sorted(contents(copy).items(), key=str)): copy for copy in sorted((folder / "copies").iterdir())}
    assert len(copies) > 15
    return folder / "run", list(copies.values())


def without_what_is_no_state(folder):
    """What a training needs and leaves: neither the lock nor folders made early."""
    return {name: held for name, held in contents(folder).items() if held is not None and not name.endswith("/lock")}


@pytest.mark.parametrize(
    "moments", [pytest.param("some", marks=pytest.mark.thorough), pytest.param("all", marks=pytest.mark.slow)]
)
def test_the_same_command_begins_it_whatever_was_there(stopped_by_command, killed, until_it_begins, tmp_path, moments):
    """With auto it goes on as soon as it is written down whose state it begins from.

    Of some moments every second copy before that is gone on with, and from then on each, in one of the two ways.
    """
    (recipe, stopped), (whole, copies) = stopped_by_command, killed
    before = contents(stopped)
    written = [copy for copy in copies if (RunDirectory(copy).training_state / resuming.START).exists()]
    unwritten = [copy for copy in copies if copy not in written]
    assert len(written) > 3 and len(unwritten) > 3
    tried = [(copy, stopped) for copy in copies] + [(copy, "auto") for copy in written]
    if moments == "some":
        tried = [(copy, stopped) for copy in unwritten[::-2]]
        tried += [(copy, ("auto", stopped)[number % 2]) for number, copy in enumerate(written)]
    for number, (copy, resume) in enumerate(tried):
        run = RunDirectory(tmp_path / str(number))
        shutil.copytree(copy, run.path)
        with pytest.raises(Begun, match="^5$"):
            experiment.train(recipe, run.path, resume=resume)
        assert without_what_is_no_state(run.path) == without_what_is_no_state(whole), (copy.name, resume)
    assert contents(stopped) == before


def test_where_the_other_state_is_gone_before_it_was_copied_that_is_told(stopped, until_it_begins, tmp_path):
    recipe, run = stopped
    other = run.path
    with pytest.raises(Begun):
        experiment.train(recipe, tmp_path / "run", resume=other)
    shutil.rmtree(next((tmp_path / "run" / "training_state").glob("step-*")))
    shutil.rmtree(other / "training_state")
    before = contents(tmp_path / "run")
    for resume in other, "auto":
        with pytest.raises(UserError, match=rf"--resume {other}: contains no training state"):
            experiment.train(recipe, tmp_path / "run", resume=resume)
    assert contents(tmp_path / "run").keys() - {"training_state/lock"} == before.keys() - {"training_state/lock"}


@pytest.mark.parametrize("fault", [errno.ENOENT, errno.ENOSPC])
def test_a_state_that_can_t_be_copied_is_told_in_one_line(tmp_path, monkeypatch, fault):
    """The other run replaced it while this one's pairs were prepared, or the disk is full; no half of it stays."""
    state = tmp_path / "other" / "training_state" / "step-00000005"
    state.mkdir(parents=True)
    (state / "variables.index").write_text("index")
    (state / "variables.data").write_text("data")
    run = RunDirectory.create(tmp_path / "run")
    before = contents(run.path)

    def fails_at_the_second(source, target, **named):
        if any(Path(target).parent.iterdir()):
            Path(target).touch()
            raise OSError(fault, os.strerror(fault), source)
        return copyfile(source, target, **named)

    with monkeypatch.context() as patch:
        copyfile = shutil.copyfile
        patch.setattr(shutil, "copyfile", fails_at_the_second)
        told = rf"^--resume {state}: the state can't be copied to .*: {os.strerror(fault)}; .* give the same command"
        with pytest.raises(UserError, match=told) as error:
            resuming.copy_state(state, run)
    assert "\n" not in str(error.value) and contents(run.path) == before
    resuming.copy_state(state, run)
    assert contents(run.training_state / state.name) == contents(state)


def test_a_checkpoint_that_the_other_run_removes_meanwhile_is_left_out(tmp_path, monkeypatch):
    """As it would soon have been here."""
    state = tmp_path / "other" / "training_state" / "step-00000002"
    state.mkdir(parents=True)
    checkpoints = resuming.run_of(state).checkpoints
    checkpoints.mkdir()
    (checkpoints / "step-00000002.keras").write_bytes(b"weights")
    listed = [checkpoints / f"step-0000000{step}.keras" for step in (1, 2)]
    monkeypatch.setattr(RunDirectory, "step_checkpoints", lambda run: listed)
    run = RunDirectory.create(tmp_path / "run")
    resuming.copy_state(state, run)
    assert contents(run.checkpoints) == {"step-00000002.keras": b"weights"}


def test_a_training_of_its_own_is_not_begun_anew_from_another(stopped, until_it_begins, tmp_path):
    """Not even one that was broken off before its first state."""
    recipe, run = stopped
    with pytest.raises(Begun):
        experiment.train(recipe, tmp_path / "own")
    before = contents(tmp_path / "own")
    with pytest.raises(UserError, match="own: contains another run"):
        experiment.train(recipe, tmp_path / "own", resume=run.path)
    assert contents(tmp_path / "own") == before
