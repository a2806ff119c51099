"""Scores a parser's trees as EVALB, the reference program, does with COLLINS.prm.

A bracket is a constituent's label with the words it spans. Precision is the share of predicted brackets that the
treebank has too, recall the share of the treebank's that were predicted, counted over all sentences together; as often
as a sentence has a bracket, so often it can match. Labels of roots do not count (TOP), ADVP and PRT are one label, and
words with a punctuation tag are taken out of the sentences first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any

from tf_transformer.parsing.tree import LEAF, OPEN, Tree

# What COLLINS.prm says.
PUNCTUATION = frozenset({",", ":", "``", "''", "."})
UNCOUNTED = PUNCTUATION | {"TOP", ""}
EQUAL = {"PRT": "ADVP"}
SHORT = 40

Bracket = tuple[str, int, int]


class ParseScorer:
    """Scores trees pair by pair.

    It differs from EVALB in what EVALB gets wrong, or leaves to its user:

    - Which words are punctuation depends on the treebank's tags, for both trees. EVALB uses each tree's own tags, and
      refuses a tree without tags.
    - A bracket without a label does not count. EVALB counts the unlabelled root of Penn trees, which always matches.
    - A sentence without a usable parse (None, or a tree over other words) counts all of the treebank's brackets as
      missed, and is no complete match nor one of few crossings. EVALB leaves it out.

    As with EVALB, a sentence of punctuation alone is skipped.

    Example:
        >>> from tf_transformer.parsing import read_tree
        >>> scorer = ParseScorer()
        >>> scorer.add(
        ...     read_tree("(S (NP (NNS Dogs)) (VP (VBP chase) (NP (NNS cats))) (. .))"),
        ...     read_tree("(S (NP (XX Dogs) (XX chase)) (NP (XX cats)) (XX .))"),
        ... )
        >>> scores = scorer.scores()
        >>> round(scores["recall"], 2), round(scores["precision"], 2), scores["average_crossing"]
        (50.0, 66.67, 1.0)
    """

    def __init__(self) -> None:
        self._all = _Counts()
        self._short = _Counts()

    def add(self, gold: Tree, predicted: Tree | None) -> None:
        """Counts a sentence.

        Args:
            gold: The treebank's tree, cleaned.
            predicted: The parser's tree, cleaned, whatever its tags; None where there is none.
        """
        leaves = gold.leaves()
        counted = _count(gold, predicted, [leaf.tag in PUNCTUATION for leaf in leaves])
        self._all.add(counted)
        if len(leaves) <= SHORT:
            self._short.add(counted)

    def scores(self) -> dict[str, Any]:
        """The figures of all sentences that were added.

        Returns:
            A dict that `json.dumps` takes. In percent: "recall", "precision", "f1", "complete_match" (sentences whose
            brackets are all right), "no_crossing" and "two_or_less_crossing" (sentences with so few predicted brackets
            that cross one of the treebank's). "average_crossing" is the number of these in a sentence that has a
            parse. "sentences" are all, of which "skipped" hold nothing but punctuation and "without_parse" had no
            usable parse; then "gold_brackets", "predicted_brackets" and "matched_brackets". The same of the sentences
            of at most 40 words, punctuation included, is under "at_most_40_words".
        """
        return {**self._all.scores(), f"at_most_{SHORT}_words": self._short.scores()}


def score_trees(gold: Iterable[Tree], predicted: Iterable[Tree | None]) -> dict[str, Any]:
    """Scores a parser's trees.

    Args:
        gold: The treebank's trees, cleaned.
        predicted: The parser's, cleaned, in the same order; None where there is none.

    Returns:
        As `ParseScorer.scores` gives it.

    Raises:
        ValueError: The two differ in length.

    Example:
        >>> from tf_transformer.parsing import read_tree
        >>> tree = read_tree("(S (NP (PRP It)) (VP (VBZ rains)) (. .))")
        >>> scores = score_trees([tree, tree], [tree, None])
        >>> scores["recall"], scores["precision"], scores["complete_match"], scores["without_parse"]
        (50.0, 100.0, 50.0, 1)
    """
    scorer = ParseScorer()
    for gold_tree, predicted_tree in zip(gold, predicted, strict=True):
        scorer.add(gold_tree, predicted_tree)
    return scorer.scores()


@dataclass
class _Counts:
    """What is counted in a sentence, or in many."""

    sentences: int = 0
    skipped: int = 0
    without_parse: int = 0
    gold: int = 0
    predicted: int = 0
    matched: int = 0
    complete: int = 0
    crossing: int = 0
    no_crossing: int = 0
    few_crossing: int = 0

    def add(self, other: _Counts) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def scores(self) -> dict[str, Any]:
        recall = _ratio(100 * self.matched, self.gold)
        precision = _ratio(100 * self.matched, self.predicted)
        scored = self.sentences - self.skipped
        return {
            "recall": recall,
            "precision": precision,
            "f1": _ratio(2 * precision * recall, precision + recall),
            "complete_match": _ratio(100 * self.complete, scored),
            "average_crossing": _ratio(self.crossing, scored - self.without_parse),
            "no_crossing": _ratio(100 * self.no_crossing, scored),
            "two_or_less_crossing": _ratio(100 * self.few_crossing, scored),
            "sentences": self.sentences,
            "skipped": self.skipped,
            "without_parse": self.without_parse,
            "gold_brackets": self.gold,
            "predicted_brackets": self.predicted,
            "matched_brackets": self.matched,
        }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _count(gold: Tree, predicted: Tree | None, punctuation: list[bool]) -> _Counts:
    """Counts one sentence, of whose words some are punctuation."""
    if all(punctuation):
        return _Counts(sentences=1, skipped=1)
    # The place of each boundary between words once the punctuation is out.
    places = list(accumulate((not each for each in punctuation), initial=0))
    gold_brackets = _brackets(gold, places)
    if predicted is None or predicted.words() != gold.words():
        return _Counts(sentences=1, without_parse=1, gold=len(gold_brackets))
    predicted_brackets = _brackets(predicted, places)
    matched = (Counter(gold_brackets) & Counter(predicted_brackets)).total()
    crossing = _crossing(gold_brackets, predicted_brackets)
    return _Counts(
        sentences=1,
        gold=len(gold_brackets),
        predicted=len(predicted_brackets),
        matched=matched,
        complete=matched == len(gold_brackets) == len(predicted_brackets),
        crossing=crossing,
        no_crossing=crossing == 0,
        few_crossing=crossing <= 2,
    )


def _brackets(tree: Tree, places: list[int]) -> list[Bracket]:
    """The tree's brackets that count; those of punctuation alone span no words."""
    brackets = []
    starts = []
    words = 0
    for kind, node in tree.walk():
        if kind is OPEN:
            starts.append(places[words])
        elif kind is LEAF:
            words += 1
        else:
            start, end = starts.pop(), places[words]
            if start < end and node.label not in UNCOUNTED:
                brackets.append((EQUAL.get(node.label, node.label), start, end))
    return brackets


def _crossing(gold: list[Bracket], predicted: list[Bracket]) -> int:
    """Counts the predicted brackets that have some words of a gold one, but neither hold it nor are held by it."""
    spans = {(start, end) for _, start, end in gold}
    return sum(
        # what is a gold span itself crosses no other
        (start, end) not in spans and any(s < start < e < end or start < s < end < e for s, e in spans)
        for _, start, end in predicted
    )
