"""A run's folder: what lies where, and the models in it."""

from __future__ import annotations

import fcntl
import itertools
import json
import logging
import os
import shutil
import socket
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.errors import UserError
from tf_transformer.whole_files import written_whole

if TYPE_CHECKING:
    from tf_transformer.model import Transformer
    from tf_transformer.tokenizers import TokenizerPair

logger = logging.getLogger(__name__)


AVERAGE, BEST, INTERRUPTED = "average.keras", "best.keras", "interrupted.keras"
LOCK = "lock"  # in the folder of the states, which is there as long as there is something to train


class RunDirectory:
    """The folder that one training fills.

    It holds `recipe.yaml` (resolved), `tokenizer/`, `checkpoints/`, `logs/` (for TensorBoard) and `scores.json`; until
    the training has ended also `training_state/`, from which it can go on.

    Args:
        path: the folder.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        self.recipe = self.path / "recipe.yaml"
        self.tokenizer = self.path / "tokenizer"
        self.checkpoints = self.path / "checkpoints"
        self.average = self.checkpoints / AVERAGE
        self.best = self.checkpoints / BEST
        self.interrupted = self.checkpoints / INTERRUPTED
        self.training_state = self.path / "training_state"
        self.logs = self.path / "logs"
        self.scores = self.path / "scores.json"

    def check_is_free(self) -> None:
        """Raises a UserError where something lies already, or nothing can be written."""
        try:
            free = not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir()))
            nearest = next(folder for folder in (self.path, *self.path.parents) if folder.exists())
        except OSError as error:
            raise UserError(f"{self.path}: can't be made: {error.strerror}; choose another folder") from None
        if not free:
            what = "holds another run" if self.recipe.exists() else "is not empty"
            raise UserError(
                f"{self.path}: {what}, which is left as it is; choose another folder with --run-dir, or move it away"
            )
        if not nearest.is_dir() or not os.access(nearest, os.W_OK):
            raise UserError(f"{self.path}: can't be made, {nearest} is no folder to write to; choose another folder")

    def is_unfinished(self) -> bool:
        """Whether a training lies here that was broken off."""
        return os.path.isdir(self.training_state)  # unlike pathlib's, it takes a name that is too long for a no

    @classmethod
    def create(cls, path: str | os.PathLike) -> RunDirectory:
        """Makes a run's folder.

        Raises:
            UserError: something lies there, or the folder can't be made.
        """
        run = cls(path)
        run.check_is_free()
        try:
            # First, as it tells a folder that a training has begun to fill from any other.
            run.training_state.mkdir(parents=True)
            run.checkpoints.mkdir()
        except OSError as error:
            raise UserError(f"{run.path}: the run's folder can't be made: {error.strerror}") from None
        return run

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Within it, no other process trains in this folder; the system unlocks it when the process ends, however.

        Raises:
            UserError: another process trains here.
        """
        with open(self.training_state / LOCK, "a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise UserError(
                    f"{self.path}: another process is training here ({file.read().strip() or 'just begun'}); wait for "
                    "its end, or choose another folder with --run-dir"
                ) from None
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
            yield

    def end_training(self) -> None:
        """Removes what only a training that goes on would need."""
        # Renamed at once: half of it must not look like a training that was broken off.
        ended = self.training_state.rename(self.path / ".training_state-ended")
        shutil.rmtree(ended)

    @classmethod
    def open(cls, path: str | os.PathLike) -> RunDirectory:
        """Opens a run's folder.

        Raises:
            UserError: there is none.
        """
        run = cls(path)
        if not run.recipe.is_file():
            raise UserError(f"{run.path}: no run here (no recipe.yaml); give the folder that `train` made")
        return run

    def step_checkpoints(self) -> list[Path]:
        """The checkpoints of single steps that are kept, oldest first."""
        return sorted(self.checkpoints.glob("step-*.keras"))

    def by_preference(self) -> list[Path]:
        """The files that the run's model may be in, the one to take first; not all of them need be there."""
        return [self.average, self.best, *reversed(self.step_checkpoints()), self.interrupted]

    def best_checkpoint(self) -> Path:
        """The run's model: the average where `tf-transformer average` made one, else the checkpoint with the lowest
        validation perplexity, else the newest, else that of an interruption.

        Raises:
            UserError: there is no checkpoint yet.
        """
        for file in self.by_preference():
            if file.is_file():
                return file
        raise UserError(f"{self.checkpoints}: no checkpoint yet; train for longer than training.validate_every")

    def load_tokenizers(self) -> TokenizerPair:
        """The run's tokenizers."""
        from tf_transformer.tokenizers import TokenizerPair

        return TokenizerPair.load(self.tokenizer)

    def write_scores(self, scores: dict[str, Any]) -> None:
        """Writes `scores.json`; what it held moves into the list "earlier", or if it is damaged into another file.

        Raises:
            UserError: it can't be written.
        """
        earlier = []
        if self.scores.is_file():
            try:
                previous = json.loads(self.scores.read_bytes())
                earlier = [*previous.pop("earlier", []), previous]
            except (ValueError, AttributeError, TypeError):  # no JSON; JSON of another form
                number = next(n for n in itertools.count(1) if not self._damaged_scores(n).exists())
                self.scores.rename(self._damaged_scores(number))
                logger.warning("%s: damaged, kept as %s", self.scores, self._damaged_scores(number).name)
        text = json.dumps({**scores, "earlier": earlier}, indent=2, ensure_ascii=False)
        with written_whole(self.scores, "the scores") as partial:
            partial.write_text(text + "\n", encoding="utf-8")

    def _damaged_scores(self, number: int) -> Path:
        return self.path / f"scores-damaged-{number}.json"


def load_model(path: str | os.PathLike) -> Transformer:
    """Loads a trained model in any process, ready to be called (to train on, compile it first).

    Args:
        path: a run's folder (its best checkpoint is taken) or a `.keras` file.

    Raises:
        UserError: no model there, or a damaged one.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> _ = model((np.array([[5, 3]]), np.array([[2]])))
        >>> model.save("/tmp/tiny.keras")
        >>> tt.load_model("/tmp/tiny.keras").d_model
        8
    """
    import keras

    from tf_transformer.model import Transformer  # Keras finds the classes only once they are registered

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
    if not isinstance(model, Transformer):
        raise UserError(f"{file}: a {type(model).__name__}, not a Transformer of this package; give another model")
    return model


def _check_archive(file: Path) -> None:
    """Raises an error where a part of a `.keras` file is not what its checksum says.

    Keras looks at no checksum where memory is short for the weights: it reads them in place.
    """
    with zipfile.ZipFile(file) as archive:
        damaged = archive.testzip()
    if damaged:
        raise zipfile.BadZipFile(f"{damaged} is not what its checksum says")


def _instead_of(file: Path) -> str:
    """What to do about a damaged checkpoint; if it is a run's, tells one that is whole."""
    run = RunDirectory(file.parent.parent)
    if file.parent != run.checkpoints:
        return "use another checkpoint"
    for other in run.by_preference():
        if other != file and zipfile.is_zipfile(other):
            try:
                _check_archive(other)
            except Exception:  # as above
                continue
            return f"move it away, {other.name} is whole"
    return "no other checkpoint of the run is whole, train it again"
