"""A CPU can be made several devices, before TensorFlow has set them up and not after."""

import subprocess
import sys
import textwrap


def run(program):
    outcome = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.split("\n")


def test_as_many_devices_as_asked_for_and_no_other_number_later():
    first, second, third, *_ = run(
        """
        import tensorflow as tf
        from tf_transformer import UserError
        from tf_transformer.training import make_strategy, split_cpu

        split_cpu(3)
        print(make_strategy("mirrored").num_replicas_in_sync, tf.config.threading.get_intra_op_parallelism_threads())
        split_cpu(3)
        print("again")
        try:
            split_cpu(2)
        except UserError as error:
            print(error)
        """
    )
    assert first == "3 1"
    assert second == "again"
    assert third == (
        "TensorFlow runs with 3 CPU device(s) already, training.cpu_devices asks for 2; start a new process, or ask "
        "for as many"
    )
