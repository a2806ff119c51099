"""Killed at any moment, alone or beside others, the same command ends with the very file."""

import itertools
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from tests.bounded import SECONDS, eventually, started
from tests.cli.command import COMMAND
from tests.tiny_run import PAIRS

LINES = 2_000
SHARD_LINES = 50


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A file of lines in no order, so that a shard in another's place would be noticed; and its translation."""
    folder = tmp_path_factory.mktemp("kills")
    pairs = random.Random(8).choices(PAIRS, k=LINES)
    for name, lines in zip(("sources.en", "expected.de"), zip(*pairs, strict=True), strict=True):
        (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return folder / "sources.en", (folder / "expected.de").read_bytes()


def words_of(model, sources, folder, shard_lines=SHARD_LINES):
    words = ["translate", model, sources[0], "--shards", folder / "shards", "--shard-lines", shard_lines]
    return [*map(str, words), "--output", str(folder / "joined")]


def ends(words) -> None:
    process = subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=SECONDS)
    assert process.returncode == 0, process.stderr


def check(folder, expected) -> None:
    """That the translation is joined, and nothing half-written is left."""
    assert (folder / "joined").read_bytes() == expected
    assert not list(folder.rglob(".*"))


def whole_shards(folder, shard_lines=SHARD_LINES) -> int:
    """How many shards are there; each must be whole whenever it is there."""
    files = list((folder / "shards").glob("[0-9]*"))
    assert all(file.read_bytes().count(b"\n") == shard_lines for file in files)
    return len(files)


def killed_at_random(words, folder, draw, kills) -> list[int]:
    """Kills the command again and again; gives how many shards there were each time, or [] if it came to its end."""
    reached = []
    for number in range(kills):
        with started([COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            # Until some shards more are there, so that each kill has something to break off; and then at any time.
            goal = draw.randrange(LINES // SHARD_LINES * 3 * (number + 1) // (4 * kills) + 1)
            eventually(
                lambda goal=goal, end=process.poll: whole_shards(folder) >= goal or end() is not None, every=0.01
            )
            time.sleep(draw.uniform(0, 0.05))
            process.kill()
            status = process.wait(SECONDS)
        if status == 0:
            return []
        assert status == -signal.SIGKILL
        reached.append(whole_shards(folder))
    return reached


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_it_ends_with_the_very_file(tiny_saved_model, sources, tmp_path, kills):
    seed = random.SystemRandom().randrange(2**32)
    draw, reached, attempts = random.Random(seed), [], itertools.count()
    # On a busy machine a command may end while this process stands still, and is not killed then.
    while not reached or reached[-1] == LINES // SHARD_LINES:
        folder = tmp_path / str(next(attempts))
        folder.mkdir()
        words = words_of(tiny_saved_model, sources, folder)
        reached = killed_at_random(words, folder, draw, kills)
        print(f"seed {seed}; shards after each kill: {reached}")
    assert reached == sorted(reached)
    ends(words)
    check(folder, sources[1])


def test_killed_again_and_again_while_it_writes(tiny_saved_model, sources, tmp_path):
    """First the manifest, then four shards of 500 lines, and the joined file last.

    Each command goes on with what the one before it left, and is killed at a later file, its N-th.
    """
    words = words_of(tiny_saved_model, sources, tmp_path, 500)
    # The manifest; the first shard, behind a new manifest; the last shard; the joined file, behind that shard.
    for number, where, shards in (1, "half", 0), (2, "before", 0), (4, "half", 3), (2, "half", 4):
        program = [sys.executable, "-m", "tests.shards.killed", str(number), where, *words]
        process = subprocess.run(program, capture_output=True, timeout=SECONDS)
        assert process.returncode == -signal.SIGKILL, process.stderr
        assert whole_shards(tmp_path, 500) == shards
        assert list(tmp_path.rglob(".partial-*")) and not (tmp_path / "joined").exists()
    ends(words)
    assert (tmp_path / "joined").read_bytes() == sources[1]
    assert not list((tmp_path / "shards").glob(".*"))


def test_jobs_side_by_side_one_of_which_is_killed(tiny_saved_model, sources, tmp_path):
    """Three jobs at once, two of which do the same shards; a command without a job does what the killed one left."""
    words = words_of(tiny_saved_model, sources, tmp_path)
    # It kills itself before its fifth shard is there, or its fourth: the manifest may be its own.
    begin = [[sys.executable, "-m", "tests.shards.killed", "5", "before", *words, "--job", "0/2"]]
    begin += [[COMMAND, *words, "--job", job] for job in ("1/2", "1/2")]
    with ExitStack() as stack:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        killed, *others = (stack.enter_context(started(each, **options)) for each in begin)
        for job, status in (killed, -signal.SIGKILL), *((other, 0) for other in others):
            told, _ = job.communicate(timeout=SECONDS)
            assert job.returncode == status, told
    there = {int(file.stem) for file in (tmp_path / "shards").glob("[0-9]*")}
    assert set(range(1, LINES // SHARD_LINES, 2)) <= there
    assert len(there) < LINES // SHARD_LINES and not (tmp_path / "joined").exists()
    ends(words)
    check(tmp_path, sources[1])
