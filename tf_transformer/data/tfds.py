"""Sentence pairs from TensorFlow Datasets, prepared on disk and read in the same order each time."""

import contextlib
import difflib
import io
import logging
import os
from collections.abc import Iterator
from typing import Any

from tf_transformer.data.lines import decoded, not_the_same
from tf_transformer.errors import UserError, reason

logger = logging.getLogger(__name__)


class TfdsPairs:
    """One split of a dataset, as pairs; downloaded and prepared where that has not been done.

    Arguments, attributes and errors are those of `TfdsSource`, which is made of it.
    """

    _BATCH = 1000  # examples turned into Python objects at a time: one by one is many times slower

    def __init__(
        self,
        name: str,
        split: str,
        source_language: str,
        target_language: str,
        data_dir: str | os.PathLike | None,
        damaged: str,
    ):
        import tensorflow_datasets as tfds

        self.damaged = damaged
        self.lost: list[str] = []
        self._name = f"dataset {name}, split {split}"
        self._languages = source_language, target_language
        self._as_numpy = tfds.as_numpy
        with _quiet(tfds):
            builder = _builder(tfds, name, data_dir)
            texts = [key for key, kind in builder.info.features.items() if isinstance(kind, tfds.features.Text)]
            for language in self._languages:
                if language not in texts:
                    offered = ", ".join(texts) or "none"
                    raise UserError(f"dataset {name} has no text in {language!r}: choose from {offered}")
            builder = _prepared(tfds, builder, name, data_dir)
            try:
                # In the same order each time: shuffling is the batching's business. (Of several files 16 are read by
                # turns, 16 examples of each, unless the dataset is stored unshuffled; another order would change
                # runs that are to be resumed.) Autocache would keep small datasets in memory. That no pair is missing
                # is checked here, where it may be a choice.
                config = tfds.ReadConfig(try_autocache=False, assert_cardinality=False)
                self._dataset = builder.as_dataset(split=split, shuffle_files=False, read_config=config)
            except (ValueError, KeyError) as error:
                offered = ", ".join(builder.info.splits)
                raise UserError(
                    f"dataset {name} has no split {split!r} ({reason(error)}): choose from {offered}"
                ) from error
        if damaged == "skip":
            # The reader goes on with the next file: past a damaged record it does not know where another begins.
            self._dataset = self._dataset.ignore_errors()
        self._files, self._number = _stored(builder, split)
        self._first_look = self._look()

    def state(self) -> list | None:
        """Name, size and time of change of each file; None of a builder that stores no files."""
        looks = zip(self._files, self._first_look, strict=True)
        return [[file, *look] for file, look in looks if look] or None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        import tensorflow as tf

        self._check_files(0)
        number = 0
        try:
            for batch in self._as_numpy(self._dataset.batch(self._BATCH)):
                for pair in zip(*(batch[language] for language in self._languages), strict=True):
                    number += 1
                    yield self._decode(pair[0], number), self._decode(pair[1], number)
        except tf.errors.OpError as error:
            self._check_files(number)
            where = " and ".join(self._damaged_records()) or reason(error)
            raise UserError(
                f"{self._name}: damaged at or shortly after pair {number:,} ({where}): prepare it again, or set "
                'damaged to "skip" to leave out the rest of a damaged file'
            ) from error
        self._check_files(number)
        if self._number is not None and number < self._number:
            self._tell_missing(number)

    def _decode(self, text: bytes, number: int) -> str:
        return decoded(text, self._name, number, "prepare it again from text in UTF-8", unit="pair")

    def _tell_missing(self, number: int) -> None:
        """Notes or raises that a pass gave fewer pairs than the dataset has."""
        where = " and ".join(self._damaged_records()) or "records are missing from its files"
        lost = f"{self._name}: {where}: {number:,} pairs read, {self._number - number:,} lost"
        if self.damaged == "error":
            raise UserError(f'{lost}; prepare it again, or set damaged to "skip" (data.damaged in a recipe)')
        self.lost = [lost]

    def _damaged_records(self) -> list[str]:
        """Tells the first damaged record of each file that has one."""
        import tensorflow as tf

        found = []
        for file in self._files:
            number = 0
            try:
                for _ in tf.data.TFRecordDataset(file):
                    number += 1
            except tf.errors.DataLossError:
                found.append(f"{file}, record {number + 1:,}")
            except tf.errors.OpError as error:
                found.append(f"{file}: {reason(error)}")
        return found

    def _look(self) -> list[tuple[int, int] | None]:
        """Size and time of change of each file; None for one that is gone."""
        import tensorflow as tf

        def look(file: str) -> tuple[int, int] | None:
            try:
                state = tf.io.gfile.stat(file)  # which knows remote files too
            except tf.errors.NotFoundError:
                return None
            return state.length, state.mtime_nsec

        return [look(file) for file in self._files]

    def _check_files(self, number: int) -> None:
        for file, first, now in zip(self._files, self._first_look, self._look(), strict=True):
            if now != first:
                what = "is gone" if now is None else "has changed since reading began"
                raise not_the_same(file, what, f"pair {number:,}")


def _stored(builder: Any, split: str) -> tuple[list[str], int | None]:
    """The files of a split, and how many pairs it has; neither is known of a builder that stores no files."""
    try:
        info = builder.info.splits[split]
    except KeyError:
        return [], None
    return [os.fspath(path) for path in info.filepaths], info.num_examples


def _builder(tfds, name: str, data_dir: str | os.PathLike | None):
    try:
        return tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError as error:
        near = difflib.get_close_matches(name.partition("/")[0], tfds.list_builders())
        hint = f"did you mean {' or '.join(near)}?" if near else "see the catalogue of TensorFlow Datasets"
        raise UserError(f"dataset {name} is unknown to TensorFlow Datasets: {hint}") from error
    except Exception as error:  # builders fail in ways of their own
        hint = "see its page in the catalogue of TensorFlow Datasets"
        raise UserError(f"dataset {name} cannot be used ({reason(error)}): {hint}") from error


def _prepared(tfds, builder, name: str, data_dir: str | os.PathLike | None):
    """The dataset's builder, of which the dataset is prepared."""
    if not builder.is_prepared():
        logger.info("downloading and preparing %s in %s", name, builder.data_dir)
    try:
        builder.download_and_prepare()  # returns at once where it was done before
    except ImportError as error:
        hint = f"run pip install {error.name}"
        raise UserError(f"dataset {name} needs the package {error.name} to be prepared: {hint}") from error
    except Exception as error:  # network, disk, checksums, and whatever a builder does
        other = _builder(tfds, name, data_dir)
        if other.is_prepared():  # meanwhile, by another process, whose folder this one's could not replace
            return other
        raise UserError(
            f"dataset {name} is not in {builder.data_dir} and cannot be downloaded ({reason(error)}): "
            "check the network and that the folder can be written, or give the data_dir that contains it"
        ) from error
    return builder


@contextlib.contextmanager
def _quiet(tfds) -> Iterator[None]:
    """Keeps TensorFlow Datasets' bars, prints and warnings off the terminal: output may be a pipe."""
    tfds.disable_progress_bar()
    absl_logger = logging.getLogger("absl")
    level = absl_logger.level
    absl_logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        absl_logger.setLevel(level)
