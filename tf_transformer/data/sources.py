"""Sources of sentence pairs: text files, tab-separated files, TensorFlow Datasets.

Every source is an iterable of (source, target) Python strings. It streams, and each `iter()` starts again.
What can be found wrong without reading everything (a missing file, an unknown dataset) is found when the
source is made.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tf_transformer.data.lines import OR_SKIP_DAMAGED, OR_SKIP_INVALID, PACK_AGAIN, Line, LineFile, decoded
from tf_transformer.data.pairs import Source
from tf_transformer.data.tfds import TfdsPairs
from tf_transformer.errors import UserError
from tf_transformer.files.home import below_home

StrPath = str | os.PathLike

_IF_INVALID = "convert the file to UTF-8, as with iconv -f LATIN1 -t UTF-8" + OR_SKIP_INVALID
_IF_DAMAGED = PACK_AGAIN + OR_SKIP_DAMAGED


class _FileSource(Source):
    """What text files and TSV files share: strict decoding, skipping on request, no empty corpus."""

    def __init__(self, paths: Sequence[Path], invalid_utf8: str, damaged: str):
        for name, value in (("invalid_utf8", invalid_utf8), ("damaged", damaged)):
            _check_choice(name, value)
        self.invalid_utf8 = invalid_utf8
        self.damaged = damaged
        self.skipped = 0
        self.lost: list[str] = []
        self._files = [LineFile(path, _IF_DAMAGED) for path in paths]
        self._sound_lines: dict[tuple[LineFile, ...], int | None] = {}

    def _line_pairs(self) -> Iterator[tuple[Line, Line]]:
        raise NotImplementedError

    def state(self) -> list | None:
        return [file.state() for file in self._files]

    def _pairs(self) -> Iterator[tuple[str, str]]:
        self.skipped = 0
        empty = True
        for source, target in self._line_pairs():
            try:
                pair = _text(source), _text(target)
            except UserError:
                if self.invalid_utf8 == "error":
                    raise
                self.skipped += 1
                continue
            empty = False
            yield pair
        if empty:
            names = " and ".join(str(file.path) for file in self._files)
            reasons = [f"{self.skipped:,} skipped as invalid UTF-8"] if self.skipped else []
            reason = f" ({'; '.join([*reasons, *self.lost])})" if reasons or self.lost else ""
            raise UserError(f"no sentence pairs in {names}{reason}: give files that hold at least one")

    def _read(self, *files: LineFile) -> list[Iterator[Line]]:
        """Opens files whose lines belong together; where damage is to be left out, up to the last line sound in all."""
        if self.damaged == "skip" and files not in self._sound_lines:
            self._sound_lines[files] = self._look_through(files)
        return [itertools.islice(file, self._sound_lines.get(files)) for file in files]

    def _look_through(self, files: tuple[LineFile, ...]) -> int | None:
        """Counts the lines up to the first damage, if there is any, and notes what is lost."""
        found = {file: file.soundness() for file in files}
        damaged = {file: sound for file, sound in found.items() if sound.damage}
        if not damaged:
            return None
        kept = min(sound.lines for sound in damaged.values())
        whole = [sound.lines for sound in found.values() if not sound.damage]
        lost = f"{whole[0] - kept:,} lost" if whole else "the rest lost"
        what = " and ".join(f"{file.path} {sound.damage}" for file, sound in damaged.items())
        self.lost.append(f"{what}: {kept:,} pairs read, {lost}")
        return kept


class TextFiles(_FileSource):
    r"""Pairs from parallel text files: line N of the target translates line N of the source.

    Files are UTF-8, plain or gzip (known by content or by a name ending in `.gz`). Only "\n" ends a line; the
    "\r" of CRLF files and a byte order mark are dropped.

    Args:
        source: The source language's file, or a list of files.
        target: The target language's file, or as many files, in the same order.
        invalid_utf8: What a line that is not UTF-8 does: "error" raises, "skip" leaves its pair out.
        damaged: What a gzip file that is cut off or damaged does: "error" raises, "skip" leaves out what is not sound
            in it, and the matching part in the other language.

    Attributes:
        skipped: Pairs left out as invalid UTF-8 in the latest pass.
        lost: What was left out of damaged files, in a line for each.

    Raises:
        UserError: At once, if a file is missing, a folder or unreadable, or the lists differ in length.
            While iterating, if a gzip file is broken, a line is not UTF-8, files that belong together have
            unequal numbers of lines, or there is no pair at all; and if a file has changed since it was first seen.

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
        damaged: str = "error",
    ):
        sources, targets = _path_list(source), _path_list(target)
        if not sources or len(sources) != len(targets):
            raise UserError(
                f"{len(sources)} source files, {len(targets)} target files: give one target for each source"
            )
        super().__init__(sources + targets, invalid_utf8, damaged)

    def _line_pairs(self) -> Iterator[tuple[Line, Line]]:
        half = len(self._files) // 2
        for files in zip(self._files[:half], self._files[half:], strict=True):
            pairs = itertools.zip_longest(*self._read(*files))
            for count, (source, target) in enumerate(pairs):
                if source is None or target is None:
                    longer = count + 1 + sum(1 for _ in pairs)
                    counts = (count, longer) if source is None else (longer, count)
                    raise UserError(
                        f"{files[0].path} has {counts[0]:,} lines but {files[1].path} has {counts[1]:,}: "
                        "line N of one must translate line N of the other; make them equal"
                    )
                yield source, target


def _text(line: Line) -> str:
    return decoded(line.content, line.path, line.number, _IF_INVALID)


def _check_choice(name: str, value: str) -> None:
    if value not in ("error", "skip"):
        raise UserError(f'{name} is {value!r}: choose "error" or "skip"')


def _path_list(paths: StrPath | Sequence[StrPath]) -> list[Path]:
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    return [below_home(path) for path in listed]


class TsvFile(_FileSource):
    r"""Pairs from one file of tab-separated columns: source, target, and any others, which are ignored.

    UTF-8, plain or gzip, lines ended as in `TextFiles`. There is no quoting: a quotation mark is text.

    Args:
        path: The file.
        invalid_utf8: What a line that is not UTF-8 does: "error" raises, "skip" leaves its pair out.
        damaged: What a gzip file that is cut off or damaged does: "error" raises, "skip" leaves out what is not sound
            in it, and the matching part in the other language.

    Attributes:
        skipped: Pairs left out as invalid UTF-8 in the latest pass.
        lost: What was left out of damaged files, in a line for each.

    Raises:
        UserError: At once, if the file is missing, a folder or unreadable. While iterating, if a line
            has no tab or is not UTF-8, a gzip file is broken, or there is no pair at all; and if the file has
            changed since it was first seen.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "pairs.tsv"
        >>> _ = path.write_text("Run!\tLauf!\nHi.\tHallo.\n")
        >>> list(TsvFile(path))
        [('Run!', 'Lauf!'), ('Hi.', 'Hallo.')]
    """

    def __init__(self, path: StrPath, invalid_utf8: str = "error", damaged: str = "error"):
        super().__init__(_path_list(path), invalid_utf8, damaged)

    def _line_pairs(self) -> Iterator[tuple[Line, Line]]:
        (lines,) = self._read(*self._files)
        for line in lines:
            # A tab byte is a tab wherever it stands in UTF-8, so columns part before decoding.
            columns = line.content.split(b"\t", maxsplit=2)
            if len(columns) < 2:
                raise UserError(f"{line.path}, line {line.number}: only 1 column: put a tab between source and target")
            yield line._replace(content=columns[0]), line._replace(content=columns[1])


class TfdsSource(Source):
    """Pairs from TensorFlow Datasets, or from a folder laid out for `tfds.TranslateFolder`.

    A dataset is downloaded and prepared when it is first asked for, which may take a long time, and then read in the
    same order each time: that of storage, except that if a dataset has several files, they are mostly read in turn, a
    block of each.

    With the name "translate_folder", `data_dir` is a folder of your own with one file for each language and
    split, named `lang.split.txt` (`de.train.txt`). These are read as `TextFiles`, and so streamed:
    `tfds.TranslateFolder` itself holds all splits in memory, ends lines at U+2028 too, and fails on any other
    file in the folder.

    Args:
        name: The dataset, with its configuration: "wmt14_translate/de-en".
        split: "train", "validation", "test", or a part such as "train[:10%]" (not of a folder).
        source_language: The feature that holds the source text: "en".
        target_language: The feature that holds the target text: "de".
        data_dir: Where datasets are stored; None for `~/tensorflow_datasets`, the default of TensorFlow Datasets.
        damaged: What a file with a damaged record does: "error" raises, "skip" leaves out the rest of that file.

    Attributes:
        lost: What was left out of damaged files, in a line for each.

    Raises:
        UserError: If the dataset, the split or a language does not exist, or the data cannot be fetched. While
            iterating, if a record is damaged, or a file has changed since it was first seen.

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
        damaged: str = "error",
    ):
        _check_choice("damaged", damaged)
        self._name = f"{name}, split {split}"
        if name in ("translate_folder", "TranslateFolder"):
            self._stored = _translate_folder(data_dir, split, source_language, target_language, damaged)
        else:
            self._stored = TfdsPairs(name, split, source_language, target_language, data_dir, damaged)

    @property
    def lost(self) -> list[str]:
        return self._stored.lost

    def state(self) -> list | None:
        return self._stored.state()

    def _pairs(self) -> Iterator[tuple[str, str]]:
        empty = True
        for pair in self._stored:
            empty = False
            yield pair
        if empty:
            raise UserError(f"no sentence pairs in {self._name}: choose a split that holds at least one")


def _translate_folder(
    data_dir: StrPath | None, split: str, source_language: str, target_language: str, damaged: str
) -> TextFiles:
    if data_dir is None or not below_home(data_dir).is_dir():
        raise UserError(f"translate_folder: no such folder {data_dir}: give a data_dir with files named LANG.SPLIT.txt")
    folder = below_home(data_dir)

    def file_of(language: str) -> Path:
        prefix = f"{language}.{split}."
        found = sorted(path for path in folder.iterdir() if path.name.startswith(prefix))
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise UserError(f"{folder} must contain one file {prefix}txt for this split and language: found {names}")
        return found[0]

    return TextFiles(file_of(source_language), file_of(target_language), damaged=damaged)
