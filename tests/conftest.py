"""What every test may use."""

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read when TensorFlow is imported

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_collection_finish(session) -> None:
    """Splits the CPU in two, so that `distribution: mirrored`, the default, has two devices in every test.

    That can only be said before TensorFlow does its first work: no test module may make a tensor when it is imported.
    Test modules that need TensorFlow have imported it by now; the others stay fast.
    """
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the checkout; skips the test where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the real corpora in ../shared/data, which are not here")
    return SHARED_DATA
