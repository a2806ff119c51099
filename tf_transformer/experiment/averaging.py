"""The mean of a run's last checkpoints (Vaswani et al., 2017, section 6.1: the last 5 for base, 20 for big)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np

from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_whole
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model


def average_checkpoints(run: RunDirectory, last: int = 5) -> Path:
    """Writes the mean of the newest checkpoints' weights as `average.keras`, which then is the run's model.

    The steps of a training scatter around a good place; their mean is nearer to it than most of them. An earlier
    average is replaced.

    Args:
        run: the run directory.
        last: how many checkpoints.

    Returns:
        The file written.

    Raises:
        UserError: `last` is below 1, or more than the run has; the checkpoints are of different models; or the average
            can't be written.
    """
    if last < 1:
        raise UserError(f"last is {last}: give at least 1 checkpoint to average")
    files = run.step_checkpoints()[-last:]
    if not files:
        raise UserError(
            f"{run.checkpoints}: no checkpoints from training, such as step-00001000.keras, so there is nothing to "
            "average; give a run that `train` wrote"
        )
    if len(files) < last:
        raise UserError(
            f"{run.checkpoints}: only {len(files)} checkpoints, so the last {last} can't be averaged; give a smaller "
            "--last, or train with a larger training.keep_checkpoints"
        )
    model = load_model(files[-1])
    configuration = _configuration(model)
    total = [np.zeros(weight.shape, "float64") for weight in model.weights]
    for file in files:
        one = model if file == files[-1] else load_model(file)
        # Shapes don't tell: two models may differ in their heads alone.
        if _configuration(one) != configuration:
            raise UserError(f"{file}: its model differs from that of {files[-1].name}, so they can't be averaged")
        for mean, weight in zip(total, one.weights, strict=True):
            mean += keras.ops.convert_to_numpy(weight)
    for variable, mean in zip(model.weights, total, strict=True):
        variable.assign((mean / last).astype(variable.dtype))  # divided last: of equal weights it gives the same bits
    # Held, since another command, or the end of the training, may be writing the same file.
    with run.held(), written_whole(run.average, "the average") as partial:
        model.save(partial)
    return run.average


def _configuration(model: keras.Model) -> dict[str, Any]:
    """What makes a model another one; its precision and its dropout in training do not."""
    return {
        key: value
        for key, value in model.get_config().items()
        if key not in ("name", "dtype") and not key.endswith("dropout_rate")
    }
