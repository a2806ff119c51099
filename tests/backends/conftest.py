"""Processes on JAX that have two devices, for all tests of what such a one finds on one of them or on both."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.backends.test_backends import ENVIRONMENT
from tests.tiny_run import one_at_a_time


def found_on(number: int, base: Path) -> dict:
    """What `data_parallel.py` writes of so many devices. All test processes have it in common."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs jax, which is not installed here: pip install -e '.[jax]'")
    two = {"KERAS_BACKEND": "jax", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    with one_at_a_time(base, f"data_parallel_{number}") as common:
        folder = common / f"data_parallel_{number}"
        file = folder / "found.npz"
        if not file.exists():
            folder.mkdir(exist_ok=True)
            command = [sys.executable, "-m", "tests.backends.data_parallel", file, folder / "run", str(number)]
            environment = {**os.environ, **ENVIRONMENT, **two}
            done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=900)
            assert done.returncode == 0, done.stderr
            assert list(folder.iterdir()) == [file]
    with np.load(file) as arrays:
        return {name: array if array.ndim else array.item() for name, array in arrays.items()}


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    return found_on(2, tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def found_on_one(tmp_path_factory):
    return found_on(1, tmp_path_factory.getbasetemp())
