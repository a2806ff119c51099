"""Ctrl-C ends a process, whatever its main thread is at; so does SIGTERM where the same command goes on."""

import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from tests.bounded import SECONDS, started, turned_on, within

# What a program does with Ctrl-C, or while it comes; each would run for longer than anybody waits for it.
PROGRAMS = {
    "drops it": "while True:\n  try: wait()\n  except BaseException: pass",
    "makes another error of it": "try: wait()\nexcept BaseException: raise ImportError('no')",
    "ends well all the same": "try: wait()\nexcept BaseException: sys.exit(0)",
    "collects garbage": "gc.callbacks.append(lambda *_: wait())\ngc.collect()\nsys.exit(0)",
    "waits for a thread": "with ThreadPoolExecutor() as pool: pool.submit(wait)",
    # No signal ends it: Python's handlers come after it.
    "is in a call of C": "signal.siginterrupt(signal.SIGINT, False)\nprint('begun', flush=True)\n"
    "ctypes.CDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)",
}
BEGINNING = f"""
import ctypes, gc, os, signal, sys, time
from concurrent.futures import ThreadPoolExecutor
from tf_transformer.errors import Preempted
from tf_transformer.terminal import ctrl_c
from tf_transformer.terminal.ctrl_c import ctrl_c_ends, sigterm_preempts

def wait():
    print("begun", flush=True)
    time.sleep({10 * SECONDS})
"""


def interrupted(program: str, handler=signal.default_int_handler, number=signal.SIGINT) -> tuple[int, str]:
    """The status and the errors of a program after Ctrl-C, or another signal."""
    words = [sys.executable, "-c", BEGINNING + "\n ".join(["with ctrl_c_ends():", *program.splitlines()])]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(words, **pipes, preexec_fn=partial(signal.signal, signal.SIGINT, handler)) as process:
        assert within(process.stdout.readline) == "begun\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=SECONDS)
        return process.returncode, err


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_program_ends_that(what):
    assert interrupted(PROGRAMS[what]) == (130, "")


@pytest.mark.parametrize("what", PROGRAMS)
def test_sigterm_ends_a_program_that(what):
    """As the command does: `Preempted` is a line and status 75."""
    program = PROGRAMS[what].replace("SIGINT", "SIGTERM").replace("\n", "\n  ")
    whole = f"try:\n with sigterm_preempts():\n  {program}\nexcept Preempted as error: sys.exit(75)"
    assert interrupted(whole, number=signal.SIGTERM) == (75, "")


def test_a_second_sigterm_changes_nothing():
    """As from a scheduler that sends it to each process, one of which hands it on."""
    first = "with sigterm_preempts(): signal.raise_signal(signal.SIGTERM)"
    program = f"try: \n {first}\nexcept Preempted: signal.raise_signal(signal.SIGTERM); print('begun'); sys.exit(75)"
    assert interrupted(program, number=0) == (75, "")


def test_sigterm_is_left_to_a_handler_of_its_own():
    program = "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1.5), sys.exit(7)))\n"
    for wait in "wait()", "with sigterm_preempts(): wait()":
        assert interrupted(program + wait, number=signal.SIGTERM) == (7, "")


def test_it_cleans_up_first(tmp_path):
    """For which it has a second; here more, since a machine may be that slow."""
    longer = f"ctrl_c.GRACE_SECONDS = {SECONDS}"
    program = f"{longer}\ntry: wait()\nfinally: open({str(tmp_path / 'cleaned')!r}, 'w')"
    assert interrupted(program) == (130, "")
    assert os.listdir(tmp_path) == ["cleaned"]


def test_a_handler_of_its_own_has_the_time_that_it_takes():
    program = "signal.signal(signal.SIGINT, lambda *_: (time.sleep(1.5), sys.exit(7)))\nwait()"
    assert interrupted(program) == (7, "")


def test_what_is_ignored_stays_so():
    assert interrupted("print('begun', flush=True)\ntime.sleep(0.5)", signal.SIG_IGN) == (0, "")


def test_nothing_of_it_is_left():
    program = "pass\nprint(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.set_wakeup_fd(-1))"
    words = [sys.executable, "-c", BEGINNING + program.replace("pass", "with ctrl_c_ends(): pass")]
    process = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, preexec_fn=turned_on)
    assert process.stdout == "True -1\n"
