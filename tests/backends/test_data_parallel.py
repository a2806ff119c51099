"""On JAX, Keras's `DataParallel` shares a batch among devices, and the steps are those of one."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.backends.program import LABELS
from tests.backends.test_backends import ENVIRONMENT, FIGURES


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs jax, which is not installed here: pip install -e '.[jax]'")
    file = tmp_path_factory.mktemp("data_parallel") / "found.npz"
    two = {"KERAS_BACKEND": "jax", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-m", "tests.backends.data_parallel", file]
    environment = {**os.environ, **ENVIRONMENT, **two}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    with np.load(file) as arrays:
        return {name: array if array.ndim else array.item() for name, array in arrays.items()}


def part(found, prefix):
    chosen = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    assert chosen
    return chosen


@pytest.mark.thorough
def test_two_devices_train_as_one(found):
    """20 steps of SGD, on rows of unequal length of which one is padding alone."""
    one, two = (part(found, f"{number}/weights/") for number in (1, 2))
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=0, atol=1e-5, err_msg=name)
    figures = part(found, "2/figures/")
    assert figures.keys() == FIGURES
    assert figures == pytest.approx(part(found, "1/figures/"), rel=1e-5)
    assert figures["tokens"] == np.count_nonzero(LABELS)


def test_both_devices_have_the_weights(found):
    assert set(part(found, "2/devices/").values()) == {2}
    assert set(part(found, "1/devices/").values()) == {1}
