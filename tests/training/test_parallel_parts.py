"""Where operations can't take one thread each, which parts side by side need, that is told.

That they do in a process of its own, tests/distributed/test_multi_worker.py sees in its workers.
"""

import io

import pytest
import tensorflow as tf
from rich.console import Console

from tests.tiny_run import RECIPE, settings, write_pairs
from tf_transformer import experiment, load_recipe
from tf_transformer.distributed.strategy import set_single_threaded_operations
from tf_transformer.errors import UserError


def test_with_a_gpu_they_are_refused(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["a GPU"] if kind == "GPU" else [])
    with pytest.raises(
        UserError, match="parallel_parts is 2, which is only for CPUs, but this machine has a GPU; set it to 1"
    ):
        set_single_threaded_operations(2)


@pytest.mark.thorough
def test_a_training_that_comes_too_late_for_them_says_so(eager, tmp_path):
    write_pairs(tmp_path)
    few = {"training__steps": 2, "training__validate_every": 2, "training__warmup_steps": 1, "evaluation__beam_size": 1}
    recipe = load_recipe(RECIPE, settings(tmp_path, **few, training__parallel_parts=3))
    told = io.StringIO()
    tf.constant(1)  # some work
    experiment.train(recipe, tmp_path / "run", Console(file=told, width=1000))
    assert "training.parallel_parts is 3, but TensorFlow is already running" in told.getvalue()
    assert "set TF_NUM_INTRAOP_THREADS=1" in told.getvalue()
