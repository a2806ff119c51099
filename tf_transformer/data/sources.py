"""Where sentence pairs come from: text files, tab-separated files, TensorFlow Datasets.

Every source is an iterable of (source, target) Python strings. It streams, and each `iter()` starts anew.
What can be found wrong without reading everything (a missing file, an unknown dataset) is found when the
source is made.
"""

import codecs
import contextlib
import difflib
import gzip
import io
import itertools
import logging
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tf_transformer.errors import UserError

StrPath = str | os.PathLike

logger = logging.getLogger(__name__)


class _Line(NamedTuple):
    """A line of a file, still undecoded, and where it stands."""

    path: Path
    number: int
    content: bytes


def _open(path: Path) -> BinaryIO:
    """Opens a plain or gzip file for reading bytes."""
    try:
        if not path.exists():
            raise UserError(f"{path} does not exist: give the path of a text file, plain or gzip")
        if not path.is_file():  # a pipe is refused too: a corpus is read more than once
            raise UserError(f"{path} is no regular file: give the path of a text file, plain or gzip")
        file = path.open("rb")
        if path.suffix != ".gz" and file.peek(2)[:2] != b"\x1f\x8b":
            return file
        file.close()
        return gzip.open(path)
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}): check its permissions") from error


def _lines(path: Path) -> Iterator[_Line]:
    r"""Streams the lines of a file.

    Only "\n" ends a line: Python's text mode would also split at a lone "\r", and `str.splitlines` at U+2028
    and its like, and from there on every source sentence would stand beside the wrong target.
    """
    with _open(path) as file:
        try:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield _Line(path, number, line.removesuffix(b"\n").removesuffix(b"\r"))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            message = f"{path} is no whole gzip file ({_one_line(error)}): fetch or compress it again"
            raise UserError(message) from error
        except OSError as error:
            raise UserError(f"cannot read {path} ({_one_line(error)}): check its disk") from error


def _one_line(error: Exception, limit: int = 300) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[:limit] + "..."


class _FileSource:
    """What text files and TSV files share: strict decoding, skipping on request, no empty corpus."""

    def __init__(self, paths: Sequence[Path], invalid_utf8: str):
        if invalid_utf8 not in ("error", "skip"):
            raise UserError(f'invalid_utf8 is {invalid_utf8!r}: choose "error" or "skip"')
        self.invalid_utf8 = invalid_utf8
        self.skipped = 0
        self._paths = paths
        for path in paths:
            _open(path).close()

    def _line_pairs(self) -> Iterator[tuple[_Line, _Line]]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[tuple[str, str]]:
        self.skipped = 0
        empty = True
        for source, target in self._line_pairs():
            try:
                pair = self._decode(source), self._decode(target)
            except UserError:
                if self.invalid_utf8 == "error":
                    raise
                self.skipped += 1
                continue
            empty = False
            yield pair
        if empty:
            names = " and ".join(map(str, self._paths))
            reason = f" ({self.skipped:,} skipped as invalid UTF-8)" if self.skipped else ""
            raise UserError(f"no sentence pairs in {names}{reason}: give files that hold at least one")

    @staticmethod
    def _decode(line: _Line) -> str:
        try:
            return line.content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{line.path}, line {line.number}: invalid UTF-8 (byte 0x{line.content[error.start]:02x}, "
                f'the line\'s {error.start + 1}.): convert the file to UTF-8, or set invalid_utf8 to "skip" '
                "to leave such pairs out"
            ) from error


class TextFiles(_FileSource):
    r"""Pairs from parallel text files: line N of the target translates line N of the source.

    Files are UTF-8, plain or gzip (known by content or by a name ending in `.gz`). Only "\n" ends a line; the
    "\r" of CRLF files and a byte order mark are dropped.

    Args:
        source: The source language's file, or a list of files.
        target: The target language's file, or as many files, in the same order.
        invalid_utf8: What a line that is not UTF-8 does: "error" raises, "skip" leaves its pair out.

    Attributes:
        skipped: Pairs left out as invalid UTF-8 in the latest pass.

    Raises:
        UserError: At once, where a file is missing, a folder or unreadable, or the lists differ in length.
            While iterating, where a gzip file is broken, a line is not UTF-8, files that belong together have
            unequal numbers of lines, or there is no pair at all.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> _ = (folder / "train.en").write_text("A dog runs.\nA man sings.\n")
        >>> _ = (folder / "train.de").write_text("Ein Hund läuft.\nEin Mann singt.\n", encoding="utf-8")
        >>> list(TextFiles(folder / "train.en", folder / "train.de"))
        [('A dog runs.', 'Ein Hund läuft.'), ('A man sings.', 'Ein Mann singt.')]
    """

    def __init__(
        self,
        source: StrPath | Sequence[StrPath],
        target: StrPath | Sequence[StrPath],
        invalid_utf8: str = "error",
    ):
        sources, targets = _path_list(source), _path_list(target)
        if not sources or len(sources) != len(targets):
            raise UserError(
                f"{len(sources)} source files, {len(targets)} target files: give one target for each source"
            )
        self._file_pairs = list(zip(sources, targets, strict=True))
        super().__init__(sources + targets, invalid_utf8)

    def _line_pairs(self) -> Iterator[tuple[_Line, _Line]]:
        for source_path, target_path in self._file_pairs:
            source_lines, target_lines = _lines(source_path), _lines(target_path)
            pairs = itertools.zip_longest(source_lines, target_lines)
            for count, (source, target) in enumerate(pairs):
                if source is None or target is None:
                    longer = count + 1 + sum(1 for _ in pairs)
                    counts = (count, longer) if source is None else (longer, count)
                    raise UserError(
                        f"{source_path} has {counts[0]:,} lines but {target_path} has {counts[1]:,}: "
                        "line N of one must translate line N of the other; make them equal"
                    )
                yield source, target


def _path_list(paths: StrPath | Sequence[StrPath]) -> list[Path]:
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    return [Path(path).expanduser() for path in listed]


class TsvFile(_FileSource):
    r"""Pairs from one file of tab-separated columns: source, target, and any others, which are ignored.

    UTF-8, plain or gzip, lines ended as in `TextFiles`. There is no quoting: a quotation mark is text.

    Args:
        path: The file.
        invalid_utf8: What a line that is not UTF-8 does: "error" raises, "skip" leaves its pair out.

    Attributes:
        skipped: Pairs left out as invalid UTF-8 in the latest pass.

    Raises:
        UserError: At once, where the file is missing, a folder or unreadable. While iterating, where a line
            has no tab or is not UTF-8, where a gzip file is broken, or there is no pair at all.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "pairs.tsv"
        >>> _ = path.write_text("Run!\tLauf!\nHi.\tHallo.\n")
        >>> list(TsvFile(path))
        [('Run!', 'Lauf!'), ('Hi.', 'Hallo.')]
    """

    def __init__(self, path: StrPath, invalid_utf8: str = "error"):
        super().__init__(_path_list(path), invalid_utf8)

    def _line_pairs(self) -> Iterator[tuple[_Line, _Line]]:
        for line in _lines(self._paths[0]):
            # A tab byte is a tab wherever it stands in UTF-8, so columns part before decoding.
            columns = line.content.split(b"\t", maxsplit=2)
            if len(columns) < 2:
                raise UserError(
                    f"{line.path}, line {line.number}: 1 column, not 2: put a tab between source and target"
                )
            yield line._replace(content=columns[0]), line._replace(content=columns[1])


class TfdsSource:
    """Pairs from TensorFlow Datasets, or from a folder laid out as `tfds.TranslateFolder` has it.

    A dataset is downloaded and prepared when it is first asked for, which may take long, and then read in the
    order in which it is stored.

    With the name "translate_folder", `data_dir` is a folder of your own with one file for each language and
    split, named `lang.split.txt` (`de.train.txt`). These are read as `TextFiles`, and so streamed:
    `tfds.TranslateFolder` itself holds all splits in memory, ends lines at U+2028 too, and fails on any other
    file in the folder.

    Args:
        name: The dataset, with its configuration: "wmt14_translate/de-en".
        split: "train", "validation", "test", or a part such as "train[:10%]" (not of a folder).
        source_language: The feature that holds the source text: "en".
        target_language: The feature that holds the target text: "de".
        data_dir: Where datasets are stored; None for `~/tensorflow_datasets`, their own choice.

    Raises:
        UserError: Where the dataset, the split or a language does not exist, or the data cannot be fetched.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> _ = (folder / "en.train.txt").write_text("Run!")
        >>> _ = (folder / "de.train.txt").write_text("Lauf!")
        >>> list(TfdsSource("translate_folder", "train", "en", "de", data_dir=folder))
        [('Run!', 'Lauf!')]
    """

    def __init__(
        self,
        name: str,
        split: str,
        source_language: str,
        target_language: str,
        data_dir: StrPath | None = None,
    ):
        self._name = f"{name}, split {split}"
        if name in ("translate_folder", "TranslateFolder"):
            self._pairs = _translate_folder(data_dir, split, source_language, target_language)
        else:
            self._pairs = _TfdsPairs(name, split, source_language, target_language, data_dir)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        empty = True
        for pair in self._pairs:
            empty = False
            yield pair
        if empty:
            raise UserError(f"no sentence pairs in {self._name}: choose a split that holds at least one")


def _translate_folder(data_dir: StrPath | None, split: str, source_language: str, target_language: str) -> TextFiles:
    if data_dir is None or not Path(data_dir).expanduser().is_dir():
        raise UserError(f"translate_folder: no folder {data_dir}: let data_dir be one of lang.split.txt files")
    folder = Path(data_dir).expanduser()

    def file_of(language: str) -> Path:
        prefix = f"{language}.{split}."
        found = sorted(path for path in folder.iterdir() if path.name.startswith(prefix))
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise UserError(f"{folder} must hold one file {prefix}txt for this split and language: found {names}")
        return found[0]

    return TextFiles(file_of(source_language), file_of(target_language))


class _TfdsPairs:
    """One split of a prepared dataset, as pairs."""

    _BATCH = 1000  # examples turned into Python objects at a time: one by one is many times slower

    def __init__(self, name: str, split: str, source_language: str, target_language: str, data_dir: StrPath | None):
        import tensorflow_datasets as tfds

        self._languages = source_language, target_language
        self._as_numpy = tfds.as_numpy
        with _quiet(tfds):
            builder = _tfds_builder(tfds, name, data_dir)
            texts = [key for key, kind in builder.info.features.items() if isinstance(kind, tfds.features.Text)]
            for language in self._languages:
                if language not in texts:
                    offered = ", ".join(texts) or "none"
                    raise UserError(f"dataset {name} has no text {language!r}: choose among its own ({offered})")
            _tfds_prepare(builder, name)
            try:
                # In the order of storage: shuffling is the batching's business. Autocache would keep small
                # datasets in memory.
                config = tfds.ReadConfig(try_autocache=False)
                self._dataset = builder.as_dataset(split=split, shuffle_files=False, read_config=config)
            except (ValueError, KeyError) as error:
                offered = ", ".join(builder.info.splits)
                raise UserError(
                    f"dataset {name} has no split {split!r} ({_one_line(error)}): choose among {offered}"
                ) from error

    def __iter__(self) -> Iterator[tuple[str, str]]:
        source_language, target_language = self._languages
        for batch in self._as_numpy(self._dataset.batch(self._BATCH)):
            for source, target in zip(batch[source_language], batch[target_language], strict=True):
                yield source.decode("utf-8"), target.decode("utf-8")


def _tfds_builder(tfds, name: str, data_dir: StrPath | None):
    try:
        return tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError as error:
        near = difflib.get_close_matches(name.partition("/")[0], tfds.list_builders())
        hint = f"did you mean {' or '.join(near)}?" if near else "see the catalogue of TensorFlow Datasets"
        raise UserError(f"dataset {name} is unknown to TensorFlow Datasets: {hint}") from error
    except Exception as error:  # builders fail in ways of their own
        hint = "see its page in the catalogue of TensorFlow Datasets"
        raise UserError(f"dataset {name} cannot be used ({_one_line(error)}): {hint}") from error


def _tfds_prepare(builder, name: str) -> None:
    if not builder.is_prepared():
        logger.info("downloading and preparing %s in %s", name, builder.data_dir)
    try:
        builder.download_and_prepare()  # returns at once where it was done before
    except ImportError as error:
        hint = f"run pip install {error.name}"
        raise UserError(f"dataset {name} needs the package {error.name} to be prepared: {hint}") from error
    except Exception as error:  # network, disk, checksums, and whatever a builder does
        raise UserError(
            f"dataset {name} is not in {builder.data_dir} and cannot be fetched ({_one_line(error)}): "
            "check the network, or give the data_dir that holds it"
        ) from error


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
