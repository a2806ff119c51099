"""What a process frees stays with it, where it was told so."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")

# Faults of pages that had to be had from the system, after the first of many rounds that ask for the same 64 MiB.
ROUNDS = """
import ctypes, resource, sys, threading
from tf_transformer.training.freed_memory import keep_freed_memory

kept = keep_freed_memory() if sys.argv[1] == "keep" else None
malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, malloc.argtypes, free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def one_round():
    block = malloc(2**26)
    ctypes.memset(block, 1, 2**26)
    free(block)

def rounds():
    global faults
    one_round()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        one_round()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

thread = threading.Thread(target=rounds)  # as TensorFlow's work is done in threads of its own
thread.start()
thread.join()
print(kept, faults)
"""


def faults(how: str, **environment: str) -> tuple[str, int]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    process = subprocess.run(
        [sys.executable, "-c", ROUNDS, how], env=plain | environment, capture_output=True, text=True, check=True
    )
    kept, number = process.stdout.split()
    return kept, int(number)


def test_what_was_freed_is_had_again_without_the_system():
    pages = 8 * 2**26 // os.sysconf("SC_PAGE_SIZE")
    _, without = faults("as ever")
    kept, with_it = faults("keep")
    assert kept == "True" and with_it < pages / 100 < without


@pytest.mark.parametrize("told", [{"MALLOC_ARENA_MAX": "2"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}])
def test_what_the_environment_says_of_malloc_holds(told):
    kept, number = faults("keep", **told)
    assert kept == "False" and number > 20
