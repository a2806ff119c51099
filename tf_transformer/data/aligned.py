"""Pairs of which is known which words belong together, as word aligners write it down."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tf_transformer.data.lines import Line, LineFile, decoded, nothing_to_be_left_out
from tf_transformer.data.links import PHARAOH, as_pharaoh, from_pharaoh
from tf_transformer.data.pairs import DerivedPairs, Pairs, state_of
from tf_transformer.errors import UserError
from tf_transformer.files.home import below_home


class AlignedPairs(DerivedPairs):
    r"""Pairs with an alignment of their words, in the form of the decoder Pharaoh: `0-0 1-2`.

    Words are separated by whitespace, any of Unicode's, and counted from 0; the source's comes first. An empty line
    is for a pair without an alignment.

    Args:
        pairs: any source of pairs that leaves none out: line N is for pair N.
        path: the alignments, a text file, plain or gzip.
        words_before: how many words come before each source text that the alignments do not count, such as a tag.

    Raises:
        UserError: At once, if the file is missing or unreadable. In `rows`, if a line is not an alignment of its
            pair, or if there are more or fewer lines than pairs.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "train.align"
        >>> _ = path.write_text("0-0 1-1\n\n")
        >>> list(AlignedPairs([("a dog", "ein Hund"), ("a cat", "eine Katze")], path).rows())
        [('a dog', 'ein Hund', '0-0 1-1'), ('a cat', 'eine Katze', '')]
    """

    def __init__(self, pairs: Pairs, path: str | os.PathLike, words_before: int = 0) -> None:
        super().__init__(pairs)
        self._lines, self._words_before = LineFile(below_home(path)), words_before

    def state(self) -> list | None:
        state = state_of(self._origin)
        return None if state is None else [state, self._lines.state()]

    def _pairs(self) -> Iterator[tuple[str, str]]:
        with nothing_to_be_left_out():
            yield from self._origin

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """The pairs, each with its alignment, which is empty where there is none."""
        lines, path = iter(self._lines), self._lines.path
        number = 0
        for number, (source, target) in enumerate(self, start=1):
            line = next(lines, None)
            if line is None:
                raise UserError(
                    f"{path} has {number - 1:,} lines, but there are more pairs: line N must be the alignment of pair "
                    "N; leave the line of a pair without one empty"
                )
            yield source, target, self._alignment(line, source, target)
        more = sum(1 for _ in lines)
        if more:
            raise UserError(
                f"{path} has {number + more:,} lines, but there are {number:,} pairs: line N must be the alignment of "
                "pair N; remove the extra lines"
            )

    def _alignment(self, line: Line, source: str, target: str) -> str:
        text = decoded(line.content, line.path, line.number).strip()
        if not text:
            return ""
        if not PHARAOH.fullmatch(text):
            raise UserError(
                f'{line.path}, line {line.number}: not an alignment such as "0-0 1-2": write a link as the numbers '
                "of a source and a target word with a hyphen between, and separate links by spaces"
            )
        numbers = [len(source.split()) - self._words_before, len(target.split())]
        links = from_pharaoh(text)
        for link in links:
            for side, word, words in zip(("source", "target"), link, numbers, strict=True):
                if word >= words:
                    raise UserError(
                        f"{line.path}, line {line.number}: {link[0]}-{link[1]} names word {word} of the {side}, "
                        f"which has {max(words, 0)}: words are separated by spaces and counted from 0; a link "
                        "gives the source's first"
                    )
        if not self._words_before:
            return text
        return as_pharaoh([(source + self._words_before, target) for source, target in links])


def rows_of(pairs: Pairs) -> Iterator[tuple[str, ...]]:
    """Pairs, those of `AlignedPairs` with their alignments."""
    return pairs.rows() if isinstance(pairs, AlignedPairs) else iter(pairs)
