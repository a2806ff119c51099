"""What the terminal shows of a training."""

import io
from types import SimpleNamespace

import keras
import pytest
from rich.console import Console

from tf_transformer.training.progress import ProgressBar


@pytest.mark.parametrize("at_once", [1, 5])
def test_the_bar_counts_steps_and_not_executions(at_once):
    """Of several steps an execution Keras tells but the last."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    bar = ProgressBar(20, console)
    optimizer = keras.optimizers.SGD()
    optimizer.build([])
    bar.set_model(SimpleNamespace(optimizer=optimizer, jit_compile=False))
    optimizer.iterations.assign(5)
    bar.on_train_begin()
    for step in range(5 + at_once, 16, at_once):
        optimizer.iterations.assign(step)
        bar.on_train_batch_end(step - 1, {"loss": 2.5})
    bar.stop()
    said = console.file.getvalue()
    assert "15/20" in said and "in which 5 batches were passed over and the model was traced" in said
