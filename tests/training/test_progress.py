"""What the terminal shows of a training."""

import io
from types import SimpleNamespace

import keras
import pytest
from rich.console import Console

from tf_transformer.training.progress import ProgressBar


def bar_and_optimizer(console, jit_compile=False):
    """The bar of a training of 20 steps, and the optimizer whose steps it counts."""
    bar = ProgressBar(20, console)
    optimizer = keras.optimizers.SGD()
    optimizer.build([])
    bar.set_model(SimpleNamespace(optimizer=optimizer, jit_compile=jit_compile))
    return bar, optimizer


@pytest.mark.parametrize("at_once", [1, 5])
def test_the_bar_counts_steps_and_not_executions(at_once):
    """Of several steps an execution Keras tells but the last."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    bar, optimizer = bar_and_optimizer(console)
    optimizer.iterations.assign(5)
    bar.on_train_begin()
    bar.on_epoch_begin(0)
    for step in range(at_once, 11, at_once):
        bar.on_train_batch_end(step - 1, {"loss": 2.5})
    bar.stop()
    said = console.file.getvalue()
    assert "15/20" in said and "s, in which the model was traced" in said


FIGURES = {
    **{"loss": 2.5, "perplexity": 9.0, "val_perplexity": 12.0, "val_accuracy": 0.5},
    **{"tokens_per_second": 1234.0, "data_wait": 0.0123},
}


@pytest.mark.parametrize(
    ("jit_compile", "more", "first", "end"),
    [
        (False, {}, "the model was traced", "waited for data 1.2%"),
        (True, {"new_shapes": 0, "new_shapes_seconds": 0.0}, "the model was traced and compiled", "for data 1.2%"),
        (
            True,
            {"new_shapes": 7, "new_shapes_seconds": 41.23},
            "the model was traced and compiled",
            "waited for data 1.2%   compiled 7 batch shapes in 41.2 s",
        ),
    ],
    ids=["plain", "no new shapes", "new shapes"],
)
def test_the_lines_tell_compiling_and_waiting(jit_compile, more, first, end):
    console = Console(file=io.StringIO(), width=200)
    bar, _ = bar_and_optimizer(console, jit_compile)
    bar.on_train_begin()
    bar.on_epoch_begin(0)
    bar.on_train_batch_end(0, {"loss": 2.5})
    bar.on_epoch_end(0, {**FIGURES, **more})
    bar.stop()
    told, figures = console.file.getvalue().splitlines()
    assert told.endswith(f"in which {first}") and figures.endswith(end)


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        ({"loss": 2.5}, "step       0   loss 2.500"),
        (
            {**FIGURES, "val_bleu": 31.5, "alignment_loss": 1.25},
            "step       0   loss 2.500   perplexity     9.00   on validation    12.00   accuracy 0.500   BLEU 31.50   "
            "alignment loss 1.250   1,234 tokens/s   waited for data 1.2%",
        ),
    ],
    ids=["of any Keras model", "of a recipe's training"],
)
def test_a_line_has_the_figures_that_there_are(figures, line):
    console = Console(file=io.StringIO(), width=200)
    bar, _ = bar_and_optimizer(console)
    bar.on_epoch_end(0, figures)
    assert console.file.getvalue() == f"{line}\n"


@pytest.mark.parametrize(
    ("seconds", "left"), [(6.0, "60 s left"), (300.0, "50 min left"), (1800.0, "5.0 h left")], ids=str
)
def test_the_lines_tell_how_long_the_rest_takes(seconds, left, monkeypatch):
    """Step 5 is the first, and ten of 20 are done when these seconds a step have passed."""
    now = [0.0]
    monkeypatch.setattr("tf_transformer.training.progress.time", SimpleNamespace(perf_counter=lambda: now[0]))
    console = Console(file=io.StringIO(), width=200)
    bar, optimizer = bar_and_optimizer(console)
    optimizer.iterations.assign(4)
    bar.on_train_begin()
    bar.on_epoch_begin(0)
    for step in range(16):
        bar.on_train_batch_end(step, {"loss": 2.5})
        if step in (5, 15):
            bar.on_epoch_end(0, FIGURES)
        now[0] += seconds
    bar.stop()
    _, half, whole = console.file.getvalue().splitlines()
    assert half.endswith(f"waited for data 1.2%   {left}") and whole.endswith("waited for data 1.2%")
