"""The command `score-trees`: score the trees of any parser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import JSON_OPTION
from tf_transformer.errors import UserError
from tf_transformer.terminal.json_output import print_json
from tf_transformer.terminal.lines import open_sentences, read_lines
from tf_transformer.terminal.notes import notes

if TYPE_CHECKING:
    from tf_transformer.parsing.tree import Tree

ROWS = {
    "recall": "recall",
    "precision": "precision",
    "f1": "F1",
    "complete_match": "complete match",
    "no_crossing": "no crossing",
    "two_or_less_crossing": "two or less crossing",
    "average_crossing": "average crossing",
    "sentences": "sentences",
    "skipped": "skipped",
    "without_parse": "without a parse",
}


@app.command()
def score_trees(
    gold: Annotated[
        Path, typer.Argument(help="File of the correct trees: Penn brackets, plain or gzip.", show_default=False)
    ],
    predicted: Annotated[
        Path,
        typer.Argument(
            help="File of the parser's trees, one per line, in the same order; an empty line is a failed parse.",
            show_default=False,
        ),
    ],
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Scores the trees of any parser: labelled precision, recall and F1, computed as EVALB does."""
    from tf_transformer.parsing.cleaning import clean
    from tf_transformer.parsing.reading import TreeFiles
    from tf_transformer.parsing.scoring import ParseScorer

    scorer = ParseScorer()
    trees = iter(TreeFiles(gold))
    number = 0
    unusable = []
    stream, name = open_sentences(predicted, command=None, advice="; give a file of trees, one per line")
    with stream:
        lines = read_lines(stream, name)
        for number, tree in enumerate(trees, start=1):
            line = next(lines, None)
            if line is None:
                raise _unequal(gold, number + sum(1 for _ in trees), predicted, number - 1)
            cleaned, parse = clean(tree), _parse(line)
            if cleaned is None:  # only empty elements: no sentence
                continue
            if parse is None or parse.words() != cleaned.words():
                unusable.append(number)
            scorer.add(cleaned, parse)
        surplus = [line for line in lines if line.strip()]
    if surplus:
        raise _unequal(gold, number, predicted, number + len(surplus))
    _show(scorer.scores(), as_json)
    if unusable:
        shown = ", ".join(map(str, unusable[:5])) + (", ..." if len(unusable) > 5 else "")
        notes.print(
            f"{len(unusable):,} of {number:,} lines of {predicted} are not a tree over the words of their sentence; "
            f"they count as failed parses (line {shown})"
        )


def _parse(line: str) -> Tree | None:
    """The cleaned tree of a line, or None if the line is not a tree (a failed parse)."""
    from tf_transformer.parsing.cleaning import clean
    from tf_transformer.parsing.reading import read_tree

    try:
        return clean(read_tree(line))
    except UserError:
        return None


def _unequal(gold: Path, trees: int, predicted: Path, lines: int) -> UserError:
    return UserError(
        f"{gold} has {trees:,} trees but {predicted} has {lines:,} lines; line N must be the parse of tree N, or be "
        "empty; make the two equal in length"
    )


def _show(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(scores)
        return
    short = scores["at_most_40_words"]
    print(f"{'':20}{'all':>10}{'<= 40 words':>14}")
    for key, name in ROWS.items():
        how = ",d" if isinstance(scores[key], int) else ".2f"
        print(f"{name:20}{scores[key]:>10{how}}{short[key]:>14{how}}")
