"""The lock of a training in its run's folder, also of another machine, and what ends with it."""

import errno
import os
import re
import socket
import time
from contextlib import ExitStack, contextmanager

import pytest

from tests.bounded import SECONDS
from tests.experiment.small_recipe import recipe
from tests.mistakes import refused
from tf_transformer.errors import UserError, WorkerLost
from tf_transformer.experiment import runner
from tf_transformer.files.locks import lock
from tf_transformer.runs import training_lock
from tf_transformer.runs.directory import LOCK, RunDirectory


@pytest.fixture
def nfs(monkeypatch):
    """Within its context, a lock file that is removed is renamed and kept, as by NFS while it is open."""
    unlink = os.unlink

    def renaming(path, *, dir_fd=None):
        if path == LOCK:
            os.rename(path, ".nfs01", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        elif path == ".nfs01":
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        else:
            unlink(path, dir_fd=dir_fd)

    @contextmanager
    def emulated():
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", renaming)
            yield

    return emulated


def end_with_open_files(run, nfs):
    (run.training_state / "step-00000001").mkdir()
    with nfs():
        run.end_training()
    assert [path.name for path in run.ended.iterdir()] == [".nfs01"]
    assert not run.is_unfinished()


def test_a_training_ends_though_its_files_are_open(tmp_path, monkeypatch, nfs):
    def train(recipe, run, console, resume, held):
        run = RunDirectory.create(run.path)
        held.enter_context(run.locked())
        end_with_open_files(run, nfs)
        return run

    monkeypatch.setattr(runner, "_train", train)
    assert [path.name for path in runner.train(None, tmp_path / "run").path.iterdir()] == ["checkpoints"]


def test_what_an_ended_training_left_goes_when_its_folder_is_tried_again(tmp_path, nfs):
    run = RunDirectory.create(tmp_path / "run")
    run.recipe.write_text("name: empty\n")
    with run.locked():
        end_with_open_files(run, nfs)
    assert "contains a finished training" in refused(run.check_is_free)
    assert not run.ended.exists()


@pytest.fixture
def elsewhere(tmp_path):
    """A run that a process of another machine has locked, and the context that holds its lock."""
    run = RunDirectory.create(tmp_path / "run")
    with ExitStack() as held:
        held.enter_context(run.locked())
        # The names of machines tell nothing: a pod of Kubernetes has that of the pod that it replaces.
        (run.training_state / LOCK).write_text(f"process 1 on {socket.gethostname()}\nother-boot\n")
        yield run, held


def test_the_lock_of_another_machine_may_be_that_of_a_dead_one(elsewhere):
    """Trying again may help, so that a scheduler is not told of a mistake."""
    run, _ = elsewhere
    with pytest.raises(WorkerLost, match=r"locked by another machine \(process 1 on .*\): wait") as error, run.locked():
        pass
    assert "\n" not in str(error.value)


def test_a_lock_that_names_no_machine_is_taken_for_one_of_this(elsewhere):
    """As an earlier version wrote it, or of a process that has only just locked it."""
    run, _ = elsewhere
    for told in "process 1 on somewhere\n", "":
        (run.training_state / LOCK).write_text(told)
        with pytest.raises(UserError, match="another process is training here"), run.locked(patience=SECONDS):
            pass


def test_a_file_that_was_replaced_before_it_was_locked_is_no_lock(tmp_path, monkeypatch):
    run, locked = RunDirectory.create(tmp_path / "run"), []

    def lock_late(file, *arguments):
        if not locked:  # a training ends, and another begins
            (run.training_state / LOCK).unlink()
            (run.training_state / LOCK).touch()
        locked.append(file.name)
        return lock(file, *arguments)

    monkeypatch.setattr(training_lock, "lock", lock_late)
    with run.locked():
        assert len(locked) == 2 and (run.training_state / LOCK).read_text().startswith(f"process {os.getpid()} on ")


def test_the_lock_of_another_machine_is_waited_for(elsewhere, monkeypatch, caplog):
    run, held = elsewhere
    waits = iter([None, None, held.close])
    monkeypatch.setattr(time, "sleep", lambda seconds: (next(waits) or int)())
    with run.locked(patience=SECONDS):
        assert (run.training_state / LOCK).read_text().startswith(f"process {os.getpid()} on ")
    assert caplog.text.count("locked by another machine") == 1 and next(waits, None) is None


def test_a_training_that_ended_while_its_lock_was_waited_for_does_not_go_on(elsewhere, monkeypatch):
    run, held = elsewhere

    def other_ends(seconds):
        run.recipe.write_text("name: other\n")
        run.end_training()
        held.close()

    monkeypatch.setattr(time, "sleep", other_ends)
    assert "contains a finished training" in refused(runner.train, recipe(distribution="single"), run.path)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK])
def test_without_locks_no_training_begins_and_none_goes_on(tmp_path, monkeypatch, number):
    """Nothing is left of the one, and all of the other. A run can be scored nevertheless."""
    run = RunDirectory.create(tmp_path / "run")

    def flock(file, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    told = f"can't be locked ({os.strerror(number)}), since its file system has no locks; mount it with them (Lustre: "
    assert refused(RunDirectory.create, tmp_path / "new" / "run").startswith(f"{tmp_path / 'new' / 'run'}: {told}")
    with pytest.raises(UserError, match=re.escape(f"{run.path}: {told}")), run.locked():
        raise KeyError
    run.write_scores({"bleu": 1.5})
    assert run.is_unfinished() and [path.name for path in tmp_path.iterdir()] == ["run"]
