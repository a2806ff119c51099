"""A run's folder: its files."""

from __future__ import annotations

import fcntl
import itertools
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.errors import OutOfMemory, UserError
from tf_transformer.files.as_json import as_json, escaped, read_object
from tf_transformer.files.whole import written_whole
from tf_transformer.runs.training_lock import check_can_be_locked, is_probe, training_lock

if TYPE_CHECKING:
    from tf_transformer.tokenizers import TokenizerPair

logger = logging.getLogger(__name__)


RECIPE = "recipe.yaml"
CARD = "model_card.md"
AVERAGE, BEST, INTERRUPTED = "average.keras", "best.keras", "interrupted.keras"
LOCK = "lock"  # in the folder of the states, which is there as long as there is something to train


class RunDirectory:
    """The folder of one training.

    It contains `recipe.yaml` (resolved), `tokenizer/`, `checkpoints/`, `logs/` (for TensorBoard), `training.json`
    (corpus, devices and versions), `scores.json` and `model_card.md`; until the training has finished, also
    `training_state/`, from which it can be resumed.

    Args:
        path: the folder.

    Attributes:
        chosen: the checkpoint that is to be taken for the run's model, in place of the best; see `of_model`.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        self.chosen: Path | None = None
        self.recipe = self.path / RECIPE
        self.tokenizer = self.path / "tokenizer"
        self.checkpoints = self.path / "checkpoints"
        self.average = self.checkpoints / AVERAGE
        self.best = self.checkpoints / BEST
        self.interrupted = self.checkpoints / INTERRUPTED
        self.training_state = self.path / "training_state"
        self.prepared = self.training_state / "prepared"
        self.ended = self.path / ".training_state-ended"
        self.logs = self.path / "logs"
        self.scores = self.path / "scores.json"
        self.training = self.path / "training.json"
        self.card = self.path / CARD

    def check_is_free(self) -> None:
        """Raises a UserError where something lies already, or nothing can be written or locked."""
        if (named := escaped(str(self.path))) != str(self.path):
            raise UserError(f"{named}: not UTF-8, which TensorFlow requires for a run's folder; choose another folder")
        try:
            free = not self.path.exists() or (self.path.is_dir() and all(map(is_probe, self.path.iterdir())))
            nearest = next(folder for folder in (self.path, *self.path.parents) if folder.exists())
        except OSError as error:
            raise UserError(f"{self.path}: can't be created: {error.strerror}; choose another folder") from None
        if not free and self.recipe.exists() and not self.is_unfinished():
            self.remove_ended()  # which the training's own process could not
            scores = f", with its scores in {self.scores}" if self.scores.exists() else ""
            raise UserError(
                f"{self.path}: contains a finished training run{scores}; to train longer, start a new run with more "
                "training.steps and another --run-dir"
            )
        if not free:
            what = "contains another run" if self.recipe.exists() else "is not empty"
            raise UserError(
                f"{self.path}: {what} and was not changed; choose another folder with --run-dir, or move this one away"
            )
        if not nearest.is_dir() or not os.access(nearest, os.W_OK):
            raise UserError(
                f"{self.path}: can't be created: {nearest} is not a folder you can write to; choose another folder"
            )
        try:
            check_can_be_locked(self.path, nearest)
        except OSError as error:
            raise UserError(f"{self.path}: can't be created: {error.strerror}; choose another folder") from None

    def is_only_prepared(self) -> bool:
        """Whether the folder holds prepared data, and its training has not begun."""
        return os.path.isdir(self.prepared) and not self.recipe.exists()

    def is_unfinished(self) -> bool:
        """Whether the folder contains an interrupted training."""
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
            raise UserError(f"{run.path}: the run's folder can't be created: {error.strerror}") from None
        return run

    @contextmanager
    def locked(self, patience: float = 0) -> Iterator[None]:
        """Within it, no other process trains in this folder; the system unlocks it when the process ends, however.

        Args:
            patience: how many seconds to wait for a process of another machine, whose lock may outlive it.

        Raises:
            UserError: another process of this machine trains here, or the folder can't be locked.
            WorkerLost: one of another machine does, or did when that machine died.
        """
        with training_lock(self.training_state / LOCK, self.path, patience):
            yield

    def end_training(self) -> None:
        """Removes the files that only a resumed training needs."""
        # Renamed at once: half of it must not look like a training that was broken off.
        self.training_state.rename(self.ended)
        self.remove_ended()

    def remove_ended(self) -> None:
        """Removes what is left of the files of a training that has ended.

        NFS keeps a file that a process still has open, under another name and with its folder, and a kill may leave
        some of them. They are in nobody's way, so that no failure is told.
        """
        shutil.rmtree(self.ended, ignore_errors=True)

    @contextmanager
    def removed_on_failure(self) -> Iterator[None]:
        """Within it, a user's mistake before the training has begun removes the folder, so that it is in nobody's way.

        After any other failure, such as a full disk, too little memory or a lost worker, the same command is going to
        be given again: then the folder is removed only if nothing was prepared yet.
        """
        try:
            yield
        except Exception as error:
            by_system = isinstance(error, OutOfMemory) or isinstance(error.__context__, OSError)
            mistake = isinstance(error, UserError) and not by_system
            # A vocabulary, or pairs that are tokenised, if only a part of them.
            prepared = itertools.chain(self.prepared.glob("tokenizer"), self.prepared.glob("*/*.np[yz]"))
            if not self.recipe.exists() and (mistake or not any(prepared)):
                shutil.rmtree(self.path, ignore_errors=True)
            raise

    @classmethod
    def open(cls, path: str | os.PathLike) -> RunDirectory:
        """Opens a run's folder.

        Raises:
            UserError: there is none.
        """
        run = cls(path)
        if not run.recipe.is_file():
            raise UserError(f"{run.path}: not a run (it has no recipe.yaml); give a folder that `train` wrote")
        return run

    @classmethod
    def of_model(cls, path: str | os.PathLike) -> RunDirectory:
        """Opens the run that a model is in; `best_checkpoint` then gives that model.

        Args:
            path: a run's folder, or one of its checkpoints, `RUN/checkpoints/FILE.keras`.

        Raises:
            UserError: no run is there, or no such checkpoint in it.
        """
        path = Path(path)
        if path.suffix != ".keras":
            return cls.open(path)
        if not path.is_file():
            raise UserError(f"{path}: no such checkpoint; give a run's folder, or RUN/checkpoints/FILE.keras")
        folder = path.absolute().parent.parent  # of a lone name too; the root's parent is the root
        if not (folder / RECIPE).is_file():
            raise UserError(
                f"{path}: a checkpoint outside its run, without the recipe and tokenizers that translating needs; give "
                "a run's folder, or RUN/checkpoints/FILE.keras"
            )
        run = cls.open(folder)
        run.chosen = path
        return run

    def step_checkpoints(self) -> list[Path]:
        """The checkpoints of single steps that are kept, oldest first."""
        return step_checkpoints(self.checkpoints)

    def by_preference(self) -> list[Path]:
        """The files that the run's model may be in, the one to take first; not all of them need be there."""
        return [self.average, self.best, *reversed(self.step_checkpoints()), self.interrupted]

    def best_checkpoint(self) -> Path:
        """The run's model: the checkpoint chosen, if one was.

        Else it is the average where `tf-transformer average` made one, else the checkpoint with the lowest validation
        perplexity, else the newest, else that of an interruption.

        Raises:
            UserError: there is no checkpoint yet.
        """
        if self.chosen:
            return self.chosen
        for file in self.by_preference():
            if file.is_file():
                return file
        raise UserError(f"{self.checkpoints}: no checkpoint yet; train for longer than training.validate_every")

    def load_tokenizers(self) -> TokenizerPair:
        """The run's tokenizers."""
        from tf_transformer.tokenizers import TokenizerPair

        return TokenizerPair.load(self.tokenizer)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it, other processes that hold the run wait; the system lets them go on however this one ends."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            # Some network file systems lock files alone, or nothing. A run can be scored there too: at worst the scores
            # of two processes that end at the same moment are not both kept.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def write_training(self, known: dict[str, Any]) -> None:
        """Writes `training.json`, what is known as a training begins; its model card tells it.

        Raises:
            UserError: it can't be written.
        """
        with written_whole(self.training, "what the training begins with") as partial:
            partial.write_text(as_json(known) + "\n", encoding="utf-8")

    def read_training(self) -> dict[str, Any]:
        """What `write_training` wrote; empty if it is missing or damaged."""
        return read_object(self.training)

    def read_scores(self) -> list[dict[str, Any]]:
        """What `write_scores` wrote, newest first; empty if it is missing or damaged."""
        latest = read_object(self.scores)
        earlier = latest.get("earlier", [])
        return [latest, *reversed(earlier)] if latest and isinstance(earlier, list) else []

    def write_scores(self, scores: dict[str, Any]) -> None:
        """Writes `scores.json`; what it held moves into the list "earlier", or if it is damaged into another file.

        Of several processes that score a run at the same time each adds its own.

        Raises:
            UserError: it can't be written.
        """
        with self.held():
            self._write_scores(scores)

    def _write_scores(self, scores: dict[str, Any]) -> None:
        earlier = []
        if self.scores.is_file():
            try:
                previous = json.loads(self.scores.read_bytes())
                earlier = [*previous.pop("earlier", []), previous]
            except (ValueError, AttributeError, TypeError):  # no JSON; JSON of another form
                number = next(n for n in itertools.count(1) if not self._damaged_scores(n).exists())
                self.scores.rename(self._damaged_scores(number))
                logger.warning("%s: damaged, kept as %s", self.scores, self._damaged_scores(number).name)
        text = as_json({**scores, "earlier": earlier})
        with written_whole(self.scores, "the scores") as partial:
            partial.write_text(text + "\n", encoding="utf-8")

    def _damaged_scores(self, number: int) -> Path:
        return self.path / f"scores-damaged-{number}.json"


def step_name(step: int) -> str:
    """What is called by its step: a saved state, and a checkpoint but for its ending. Names sort as steps do."""
    return f"step-{step:08d}"


def step_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of single steps in a folder, oldest first."""
    return sorted(folder.glob("step-*.keras"))


def is_run(path: Path) -> bool:
    """Whether a path is that of a run's folder, or of one of its checkpoints."""
    return path.suffix == ".keras" or (path / RECIPE).is_file()
