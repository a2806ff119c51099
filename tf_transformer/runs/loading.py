"""Loads the model of a run, and tells its checkpoints from any others."""

from __future__ import annotations

import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tf_transformer.errors import UserError
from tf_transformer.runs.directory import RunDirectory

if TYPE_CHECKING:
    from tf_transformer.models.ensemble import Ensemble
    from tf_transformer.models.sequence_model import SequenceModel

WEIGHTS = "model.weights.h5"  # in a checkpoint, which is an archive


def load_model(path: str | os.PathLike, precision: str | None = None) -> SequenceModel | Ensemble:
    """Loads a trained model in any process, ready to be called (to train it further, compile it first).

    Args:
        path: a run's folder (its best checkpoint is taken) or a `.keras` file, of an `Ensemble` too.
        precision: Keras's dtype policy to compute in, such as "float32"; that of its training by default.

    Raises:
        UserError: there is no model, or it is damaged.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> _ = model((np.array([[5, 3]]), np.array([[2]])))
        >>> model.save("/tmp/tiny.keras")
        >>> tt.load_model("/tmp/tiny.keras").d_model
        8
    """
    import keras

    from tf_transformer.models.ensemble import Ensemble
    from tf_transformer.models.kinds import MODEL_KINDS
    from tf_transformer.models.sequence_model import SequenceModel

    for kind in MODEL_KINDS.values():
        kind.model_class()  # imported, since Keras finds the classes only once they are registered

    path = Path(path)
    file = path if path.suffix == ".keras" else RunDirectory.open(path).best_checkpoint()
    if not file.is_file():
        raise UserError(f"{file}: no such model; give a run's folder or a .keras file")
    try:
        _check_archive(file)
        model = keras.saving.load_model(file, compile=False, safe_mode=True)
    except Exception as error:  # whatever a damaged archive makes h5py, zipfile or Keras raise
        told = str(error).strip() or type(error).__name__
        reason = told.splitlines()[0].partition(". ")[0]
        raise UserError(f"{file}: not a model of this package, or damaged ({reason}); {_instead_of(file)}") from error
    if not isinstance(model, SequenceModel | Ensemble):
        raise UserError(f"{file}: a {type(model).__name__}, not a model of this package; give another model")
    if precision in (None, model.dtype_policy.name):
        return model
    if isinstance(model, Ensemble):
        return Ensemble([_in_precision(each, precision) for each in model.models])
    return _in_precision(model, precision)


def _in_precision(model: SequenceModel, precision: str) -> SequenceModel:
    """The same model, working in another precision."""
    # Whatever it was trained in, weights are float32.
    other = type(model).from_config({**model.get_config(), "dtype": precision})
    other.build(((None, None), (None, None)))
    other.set_weights(model.get_weights())
    for weight, given in zip(other.weights, model.weights, strict=True):
        weight.trainable = given.trainable
    return other


def identity(checkpoint: Path) -> dict[str, str]:
    """What scores keep of the checkpoint that they are of: its name, and the checksum of its weights.

    A name alone does not do: another average is written under the same one. The checksum is that in the archive's list
    of its files, which takes no time to read; of a damaged file, or one that is not there, it is missing.
    """
    known = {"checkpoint": checkpoint.name}
    with suppress(OSError, zipfile.BadZipFile, KeyError), zipfile.ZipFile(checkpoint) as archive:
        known["weights"] = f"CRC-32 {archive.getinfo(WEIGHTS).CRC:08x}"
    return known


def _check_archive(file: Path) -> None:
    """Raises an error where a part of a `.keras` file is not what its checksum says.

    Keras looks at no checksum where memory is short for the weights: it reads them in place.
    """
    with zipfile.ZipFile(file) as archive:
        damaged = archive.testzip()
    if damaged:
        raise zipfile.BadZipFile(f"{damaged} does not match its checksum")


def _instead_of(file: Path) -> str:
    """What to do about a damaged checkpoint; if it is a run's, tells one that is whole."""
    run = RunDirectory(file.parent.parent)
    if file.parent != run.checkpoints:
        return "use another checkpoint"
    for other in run.by_preference():
        if other != file and zipfile.is_zipfile(other):
            try:
                _check_archive(other)
            except Exception:  # whatever a damaged archive makes zipfile raise
                continue
            return f"move it away, {other.name} is intact"
    return "no other checkpoint of the run is intact, so train it again"
