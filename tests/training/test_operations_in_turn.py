"""A CPU works on one operation at a time, unless someone has settled that otherwise."""

import subprocess
import sys
import textwrap

import pytest

ONE_DEVICE = "run_operations_in_turn()"
TWO_DEVICES = """
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
run_operations_in_turn()
"""
BEGUN = """
tf.constant(1) + 1
run_operations_in_turn()
"""


@pytest.mark.parametrize(("lines", "threads"), [(ONE_DEVICE, "1"), (TWO_DEVICES, "0"), (BEGUN, "0")])
def test_operations_in_turn(lines, threads):
    program = f"""
import tensorflow as tf
from tf_transformer.training import run_operations_in_turn
{textwrap.dedent(lines)}
print(tf.config.threading.get_inter_op_parallelism_threads(), tf.reduce_sum(tf.ones([10])).numpy())
"""
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.split() == [threads, "10.0"]  # 0 is TensorFlow's own choice
