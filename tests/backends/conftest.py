"""A process on JAX with two devices, for all tests of what such a one finds."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.backends.test_backends import ENVIRONMENT
from tests.tiny_run import one_at_a_time


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    """What `data_parallel.py` writes. All test processes have it in common."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs jax, which is not installed here: pip install -e '.[jax]'")
    two = {"KERAS_BACKEND": "jax", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    with one_at_a_time(tmp_path_factory.getbasetemp(), "data_parallel") as common:
        folder = common / "data_parallel"
        file = folder / "found.npz"
        if not file.exists():
            folder.mkdir(exist_ok=True)
            command = [sys.executable, "-m", "tests.backends.data_parallel", file, folder / "run"]
            environment = {**os.environ, **ENVIRONMENT, **two}
            done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=900)
            assert done.returncode == 0, done.stderr
            assert list(folder.iterdir()) == [file]
    with np.load(file) as arrays:
        return {name: array if array.ndim else array.item() for name, array in arrays.items()}
