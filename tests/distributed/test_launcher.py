"""`train --workers 2`, and the same command by hand: they share the work, one writes, and none outlives another."""

import os
import signal
import subprocess
import time
from functools import partial

import pytest

from tests.cli.command import COMMAND, contents
from tests.distributed import workers
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
STOPS_WITHIN = 90  # likewise


def command(folder, name, *more, **changes):
    overrides = [part for each in settings(folder, **{**CHANGES, **changes}) for part in ("--set", each)]
    return [COMMAND, "train", RECIPE, *overrides, "--run-dir", folder / name, *more]


def launch(words, **options):
    # Where the tests themselves run in the background, a shell has turned Ctrl-C off for them and their children.
    turned_on = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*words, "--workers", "2"], preexec_fn=turned_on, **pipes, **options)


def ends(process, status=0):
    out, told = process.communicate(timeout=SECONDS)
    assert process.returncode == status, told
    return out, told


def wait_for_state(folder, name, step, processes):
    path = RunDirectory(folder / name).training_state / f"step-{step:08d}"
    deadline = time.monotonic() + SECONDS
    while not path.exists():
        assert all(process.poll() is None for process in processes), [process.communicate() for process in processes]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("launcher")
    write_pairs(folder)
    return folder


@pytest.fixture(scope="module")
def whole(folder):
    """A training of two workers that nothing disturbed: what it wrote, and what it told."""
    told = ends(launch(command(folder, "whole")))
    return RunDirectory.open(folder / "whole"), told


@pytest.fixture(scope="module")
def killed(folder):
    """Two workers, started by hand, of which one is killed: what the chief told, its status, and how long it took."""
    processes = workers.start([command(folder, "killed")] * 2)
    chief, other = processes
    try:
        wait_for_state(folder, "killed", 8, processes)
        other.send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
        told = chief.communicate(timeout=SECONDS)[1]
        return told, chief.returncode, time.monotonic() - killed_at
    finally:
        workers.end(processes)


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
    told, status, seconds = killed
    assert status == os.EX_TEMPFAIL
    assert seconds < STOPS_WITHIN
    last = told.splitlines()[-1]
    assert last.startswith("tf-transformer: worker 1 (127.0.0.1:")
    assert "has stopped" in last and "give all workers the same command again" in last
    assert "Traceback" not in told


@pytest.mark.slow
def test_the_restarted_job_goes_on_exactly(folder, killed, whole):
    """To the bit."""
    _, told = ends(launch(command(folder, "killed")))
    assert "resuming from step" in told
    assert_same(RunDirectory.open(folder / "killed"), whole[0])


def test_a_mistake_is_told_once(folder):
    before = contents(folder)
    out, told = ends(launch(command(folder, "mistake", tokenizer__vocab_size=5000)), status=2)
    assert out == ""
    assert told.startswith("tf-transformer: tokenizer.vocab_size 5000 is larger than") and told.count("\n") == 1
    assert contents(folder) == before


def test_workers_do_not_go_with_one_device_or_with_others(folder):
    environment = {**os.environ, "TF_CONFIG": worker_configs(2)[0]}
    words = command(folder, "mistake", training__distribution="single")
    for told, process in (
        ("training.distribution is single", launch(words)),
        ("TF_CONFIG already names the workers", launch(command(folder, "mistake"), env=environment)),
    ):
        out, line = ends(process, status=2)
        assert out == "" and line.startswith(f"tf-transformer: --workers is 2, but {told}") and line.count("\n") == 1


def told_at(number, folder, name, status):
    """What a training tells that is sent a signal; it leaves no process."""
    process = launch(command(folder, name, training__steps=1_000_000))
    wait_for_state(folder, name, 8, [process])
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
    processes = workers.start([command(folder, "headless")] * 3)
    try:
        wait_for_state(folder, "headless", 8, processes)
        processes[0].send_signal(signal.SIGKILL)
        for process in processes[1:]:
            told = process.communicate(timeout=STOPS_WITHIN)[1]
            assert process.returncode == os.EX_TEMPFAIL, told
            assert "has stopped" in told and "Traceback" not in told
    finally:
        workers.end(processes)
