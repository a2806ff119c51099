"""`train --workers 2`, and the same command by hand: they share the work, one writes, and none outlives another."""

import os
import signal
import subprocess
from contextlib import contextmanager

import pytest

from tests.bounded import eventually, started, turned_on
from tests.cli.command import COMMAND, assert_mistake, contents
from tests.distributed.workers import workers
from tests.runs.test_going_on import assert_same
from tests.tiny_run import RECIPE, settings, write_pairs
from tf_transformer.distributed.launcher import worker_configs
from tf_transformer.runs.directory import RunDirectory

# All that a training remembers beside weights and optimizer; see test_going_on.py.
CHANGES = {
    "training__distribution": "mirrored",
    "training__steps": 24,
    "training__validate_every": 8,
    "training__average_checkpoints": 3,
    "training__ema": 0.9,
    "training__early_stopping": 4,
    "model__dropout_rate": 0.1,
    "tensorboard__bleu": 0,
}
SECONDS = 900  # for what takes one where the machine has nothing else to do
STOPS_WITHIN = 120  # likewise


def training(folder, name, *more, **changes):
    overrides = [part for each in settings(folder, **{**CHANGES, **changes}) for part in ("--set", each)]
    return [COMMAND, "train", RECIPE, *overrides, "--run-dir", folder / name, *more]


@contextmanager
def launch(words, **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started([*words, "--workers", "2"], preexec_fn=turned_on, **pipes, **options) as process:
        yield process


def ends(process, status=0):
    out, told = process.communicate(timeout=SECONDS)
    assert process.returncode == status, told
    return out, told


def wait_for_state(folder, name, step, process):
    path = RunDirectory(folder / name).training_state / f"step-{step:08d}"
    eventually(lambda: path.exists() or process.poll() is not None, SECONDS)
    assert process.poll() is None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("launcher")
    write_pairs(folder)
    return folder


@pytest.fixture(scope="module")
def whole(folder):
    """A training of two workers that nothing disturbed: what it wrote, and what it told."""
    with launch(training(folder, "whole")) as process:
        told = ends(process)
    return RunDirectory.open(folder / "whole"), told


@pytest.fixture(scope="module")
def killed(folder):
    """Two workers, started by hand, of which one is killed: the chief's status, and what it told."""
    with workers([training(folder, "killed")] * 2) as (chief, other):
        wait_for_state(folder, "killed", 8, chief.process)
        other.process.send_signal(signal.SIGKILL)
        return chief.ends(STOPS_WITHIN)


@pytest.mark.slow
def test_two_workers_leave_one_run(whole):
    run, (out, told) = whole
    names = {path.name for path in run.path.iterdir()}
    cards = {"training.json", "model_card.md"}
    assert names == {"recipe.yaml", "tokenizer", "checkpoints", "logs", "scores.json"} | cards
    assert len(list((run.logs / "train").glob("events.*"))) == 1
    assert out.count("BLEU") == 1
    assert told.count("2 device(s)") == told.count("run: ") == 1
    assert [line.split()[1] for line in told.splitlines() if line.startswith("step ")] == ["8", "16", "24"]


@pytest.mark.slow
def test_a_killed_worker_ends_the_other_soon_and_in_words(killed):
    status, told = killed
    assert status == os.EX_TEMPFAIL
    last = told.splitlines()[-1]
    assert last.startswith("tf-transformer: worker 1 (127.0.0.1:")
    assert "has stopped" in last and "give all workers the same command again" in last
    assert "Traceback" not in told


@pytest.mark.slow
def test_the_restarted_job_goes_on_exactly(folder, killed, whole):
    """To the bit."""
    with launch(training(folder, "killed")) as process:
        _, told = ends(process)
    assert "resuming from step" in told
    assert_same(RunDirectory.open(folder / "killed"), whole[0])


def test_a_mistake_is_told_once(folder):
    before = contents(folder)
    with launch(training(folder, "mistake", tokenizer__vocab_size=5000)) as process:
        out, told = ends(process, status=2)
    assert out == ""
    assert told.startswith("tf-transformer: tokenizer.vocab_size 5000 is larger than") and told.count("\n") == 1
    assert contents(folder) == before


def test_workers_do_not_go_with_one_device_or_with_others(folder, command, monkeypatch):
    for told, changes, config in (
        ("training.distribution is single", {"training__distribution": "single"}, ""),
        ("TF_CONFIG already names the workers", {}, worker_configs(2)[0]),
    ):
        monkeypatch.setenv("TF_CONFIG", config)
        _, *words = training(folder, "mistake", "--workers", 2, **changes)
        outcome = command(*words)
        assert_mistake(outcome, f"tf-transformer: --workers is 2, but {told}")
        assert outcome.out == b""


def told_at(number, folder, name, status):
    """What a training tells that is sent a signal; it leaves no process."""
    with launch(training(folder, name, training__steps=1_000_000)) as process:
        wait_for_state(folder, name, 8, process)
        process.send_signal(number)
        _, told = ends(process, status)
    found = subprocess.run(["pgrep", "-f", "--", f"-c from tf_transformer.*{folder / name}"], capture_output=True)
    assert found.returncode == 1, found  # it is 1 where nothing matches, and 2 where the pattern is wrong
    return told


@pytest.mark.slow
def test_ctrl_c_leaves_a_checkpoint_and_no_process(folder):
    told = told_at(signal.SIGINT, folder, "interrupted", status=130)
    assert "interrupted; the same command resumes from step" in told and "Traceback" not in told


@pytest.mark.slow
def test_sigterm_leaves_a_checkpoint_and_no_process(folder):
    told = told_at(signal.SIGTERM, folder, "terminated", status=os.EX_TEMPFAIL)
    assert "stopped by SIGTERM; the same command resumes from step" in told and "Traceback" not in told
    assert (folder / "terminated" / "checkpoints" / "interrupted.keras").is_file()


@pytest.mark.slow
def test_a_launcher_whose_terminal_goes_leaves_no_process(folder):
    told_at(signal.SIGHUP, folder, "left", status=128 + signal.SIGHUP)


@pytest.mark.slow
def test_a_killed_chief_ends_the_others(folder):
    with workers([training(folder, "headless", training__steps=1_000_000)] * 3) as (chief, *others):
        wait_for_state(folder, "headless", 8, chief.process)
        chief.process.send_signal(signal.SIGKILL)
        for other in others:
            status, told = other.ends(STOPS_WITHIN)
            assert status == os.EX_TEMPFAIL, told
            assert "has stopped" in told and "Traceback" not in told
