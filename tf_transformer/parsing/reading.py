"""Reads trees in Penn brackets from files (streamed) and strings.

No library reads them here. NLTK's, which is the usual one, gives the same trees for both CRAFT files, but takes a
second to import, refuses trees that are nested over 500 deep, which a model's output may be, and knows neither files
that don't fit into memory nor the line of a mistake. What is left for a library to do is the loop below.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from tf_transformer.data.lines import LineFile, decoded
from tf_transformer.errors import UserError
from tf_transformer.files.home import below_home
from tf_transformer.parsing.tree import Leaf, Tree

StrPath = str | os.PathLike

# An opening bracket with the label that adjoins it, a closing bracket, or a word.
_PART = re.compile(r"\(([^\s()]*)|(\))|([^\s()]+)")

_ADVICE = "give Penn brackets, such as (S (NP (NNS Dogs)))"

# Where a closing bracket is missing, a tree swallows those that follow: it is told before the memory is full.
_MOST_PARTS = 100_000


class TreeFiles:
    """Trees from files of Penn brackets, such as a treebank's `.mrg` files.

    A tree takes one line or several, and a line may hold several trees. Files are UTF-8, plain or gzip (known by
    content or by a name ending in `.gz`). They are streamed, and can be iterated over any number of times.

    Trees come as they are written: see `tf_transformer.parsing.clean`. Only a bracket with several words, such as
    `(NN Xpd TTD)`, becomes as many leaves of its tag. Any Unicode whitespace separates words, as for `str.split`: a
    sentence is written with spaces between its words.

    Args:
        paths: A file, or a list of files.
        tags: Whether each word must have a tag; `( dog)` has none.

    Raises:
        UserError: At once, where a file is missing, a folder or unreadable. While iterating, where brackets are
            damaged, a tree has no words, a file holds other text or none, is not UTF-8 or not a complete gzip file; and
            if a file has changed since it was first read.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "trees.mrg"
        >>> _ = path.write_text("( (S (NP-SBJ (NNS Dogs))\\n     (VP (VBP bark))) )\\n")
        >>> for tree in TreeFiles(path):
        ...     print(tree)
        ( (S (NP-SBJ (NNS Dogs)) (VP (VBP bark))))
    """

    def __init__(self, paths: StrPath | Sequence[StrPath], tags: bool = False):
        if isinstance(paths, StrPath):
            paths = [paths]
        if not paths:
            raise UserError("no file of trees was given: give at least one")
        self._tags = tags
        self._files = [LineFile(below_home(path)) for path in paths]

    def state(self) -> list:
        """What distinguishes each file: its name, size and time of change."""
        return [file.state() for file in self._files]

    def __iter__(self) -> Iterator[Tree]:
        for file in self._files:
            tree = None
            for tree in _trees(_texts(file), self._tags):
                yield tree
            if tree is None:
                raise UserError(f"no trees in {file.path}: {_ADVICE}")


def read_tree(text: str) -> Tree:
    """Reads one tree.

    Args:
        text: Penn brackets.

    Raises:
        UserError: The text is not exactly one tree, the brackets are damaged, or there are no words in them.

    Example:
        >>> read_tree("(NP (DT the) (NN dog))").words()
        ['the', 'dog']
    """
    trees = list(_trees([("tree", text)]))
    if len(trees) != 1:
        raise UserError(f"{len(trees)} trees where one is expected: {_ADVICE}")
    return trees[0]


def _texts(file: LineFile) -> Iterator[tuple[str, str]]:
    """The lines of a file, each with the name of its place."""
    for line in file:
        yield f"{line.path}, line {line.number}", decoded(line.content, line.path, line.number)


def _trees(texts: Iterable[tuple[str, str]], tags: bool = False) -> Iterator[Tree]:
    """Puts the brackets of successive lines together."""
    path: list[tuple[str, list]] = []  # the brackets that are open: label and content of each
    begun = ""
    parts = 0
    for place, text in texts:
        for part in _PART.finditer(text):
            opens, closes = part.lastindex == 1, part.lastindex == 2
            if not path:
                if not opens:
                    what = "a closing bracket without an opening one" if closes else f"text, {part[0][:40]!r}"
                    raise UserError(f"{place}: {what}, where a tree should begin: {_ADVICE}")
                begun, parts = place, 0
            parts += 1
            if parts > _MOST_PARTS:
                raise UserError(f"{begun}: the tree is not closed within {_MOST_PARTS:,} brackets and words: {_ADVICE}")
            if opens:
                path.append((part[1], []))
            elif closes:
                content = _content(*path.pop(), begun, tags)
                if path:
                    path[-1][1].extend(content)
                else:
                    yield content[0] if isinstance(content[0], Tree) else Tree("", content)
            else:
                path[-1][1].append(part[0])
    if path:
        raise UserError(f"{begun}: {len(path)} brackets of the tree are not closed: {_ADVICE}")


def _content(label: str, inside: list[Tree | Leaf | str], place: str, tags: bool) -> list[Tree | Leaf]:
    """What a bracket that is closed stands for: a constituent, or words of one tag."""
    if not inside:
        raise UserError(f"{place}: a bracket ({label}) without words in the tree: {_ADVICE}")
    words = [each for each in inside if isinstance(each, str)]
    if not words:
        return [Tree(label, inside)]
    if len(words) < len(inside):
        raise UserError(f"{place}: {words[0][:40]!r} in the tree is next to brackets: give each word a tag, (NN dog)")
    if tags and not label:
        raise UserError(
            f"{place}: {words[0][:40]!r} in the tree has no tag: give each word a tag, (NN dog), or set data.tags "
            "to false"
        )
    return [Leaf(label, word) for word in words]
