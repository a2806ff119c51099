"""The built-in treebank: English sentences made by a small phrase grammar with the words of the demo corpus.

The demo's sentence pairs nest too little to be worth parsing, so this is a grammar of its own. Its constituents nest:
relative clauses, prepositional phrases, coordination, subordinate clauses. Each sentence has one tree, and its words
tell which: "with" belongs to the noun before it, "in" to the nearest verb; a relative clause belongs to the nearest
noun, a subordinate clause to the main one; "and" joins two subjects, or two sentences behind a comma.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

from tf_transformer.data import demo_lexicon as lexicon
from tf_transformer.data.demo_lexicon import Noun, Verb
from tf_transformer.errors import UserError
from tf_transformer.parsing.tree import Leaf, Tree

SIZES = {"train": 5_000, "validation": 500, "test": 500}
MAX_WORDS = 30
_SEED = 5

# What one can have with one, or on one.
_COMPANIONS = tuple(noun for noun in lexicon.NOUNS if noun.group in ("animal", "clothes", "thing", "text", "young"))
_PLACES = lexicon.PLACE.nouns
# Verbs of one word with one plain object; others would need particles, prepositions and receivers.
_VERBS = tuple(
    verb
    for verb in lexicon.VERBS
    if " " not in verb.base and not verb.object.english and verb.extra in (None, lexicon.PLACE)
)


class DemoTrees:
    """One split of the built-in treebank; the same trees on every machine, and none in two splits.

    Args:
        split: "train" (5,000 trees), "validation" (500) or "test" (500).

    Raises:
        UserError: For another split.

    Example:
        >>> tree = next(iter(DemoTrees("train")))
        >>> tree.label, tree.words()[-1]
        ('S', '.')
        >>> len(DemoTrees("test"))
        500
    """

    def __init__(self, split: str):
        if split not in SIZES:
            raise UserError(f"the demo treebank has no split {split!r}: choose one of {', '.join(SIZES)}")
        self.split = split

    def __iter__(self) -> Iterator[Tree]:
        return iter(_splits()[self.split])

    def __len__(self) -> int:
        return SIZES[self.split]


@cache
def _splits() -> dict[str, list[Tree]]:
    writer = _Writer()
    distinct: dict[str, Tree] = {}
    while len(distinct) < sum(SIZES.values()):
        tree = writer.sentence()
        words = tree.words()
        if len(words) <= MAX_WORDS:
            distinct[" ".join(words)] = tree
    trees = iter(distinct.values())
    return {split: [next(trees) for _ in range(size)] for split, size in SIZES.items()}


class _Writer:
    """Draws sentences.

    All chance comes from `random()`: the one generator method whose sequence Python promises to keep.
    """

    def __init__(self) -> None:
        self.rng = random.Random(_SEED)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, items):
        return items[int(self.rng.random() * len(items))]

    def sentence(self) -> Tree:
        """A plain sentence, two that are joined, or one with a subordinate clause before or behind."""
        kind = self.rng.random()
        if kind < 0.5:
            parts = list(self.clause().children)
        elif kind < 0.65:
            parts = [self.clause(), Leaf(",", ","), Leaf("CC", "and"), self.clause()]
        elif kind < 0.8:
            parts = [self.subordinate(), Leaf(",", ","), *self.clause().children]
        else:
            subject, predicate = self.clause().children
            parts = [subject, Tree("VP", [*predicate.children, self.subordinate()])]
        tree = Tree("S", [*parts, Leaf(".", ".")])
        return _capitalised(tree)

    def subordinate(self) -> Tree:
        return Tree("SBAR", [Leaf("IN", self.pick(list(lexicon.CONJUNCTIONS))), self.clause()])

    def clause(self) -> Tree:
        """Somebody does something, is somehow, or says that something is so."""
        if self.chance(0.15):
            return self.report()
        if self.chance(0.15):
            noun = self.pick(lexicon.NOUNS)
            subject, plural = self.noun_phrase(noun)
            adjective = Tree("ADJP", [Leaf("JJ", self.pick(lexicon.ADJECTIVES[noun.group]))])
            be = Leaf("VBP", lexicon.BE.plural) if plural else Leaf("VBZ", lexicon.BE.third)
            return Tree("S", [subject, Tree("VP", [be, adjective])])
        verb = self.pick(_VERBS)
        subject, person = self.subject(self.pick(verb.subjects))
        return Tree("S", [subject, self.verb_phrase(verb, person)])

    def report(self) -> Tree:
        subject, person = self.subject(self.pick(lexicon.SPEAKERS))
        english, _ = self.pick(lexicon.SPEECH)
        content = Tree("SBAR", [Leaf("IN", "that"), self.clause()])
        return Tree("S", [subject, Tree("VP", [_finite(english, person), content])])

    def subject(self, noun: Noun | lexicon.Pronoun) -> tuple[Tree, str]:
        """The phrase, and the person that the verb agrees with."""
        if isinstance(noun, lexicon.Pronoun):
            return Tree("NP", [Leaf("PRP", noun.english)]), noun.person
        phrase, plural = self.noun_phrase(noun)
        if self.chance(0.1):
            other, _ = self.noun_phrase(self.pick(lexicon.PEOPLE))
            return Tree("NP", [phrase, Leaf("CC", "and"), other]), "plural"
        return phrase, "plural" if plural else "third"

    def noun_phrase(self, noun: Noun, depth: int = 0) -> tuple[Tree, bool]:
        """The phrase, and whether it is a plural; what belongs to the noun nests less and less."""
        plural = noun not in lexicon.ALWAYS_SINGULAR and self.chance(0.3)
        adjective = self.pick(lexicon.ADJECTIVES[noun.group]) if self.chance(0.35) else ""
        words = lexicon.NounPhrase(noun, "the" if plural else self.pick(["the", "the", "a"]), adjective, plural)
        texts = words.english().split()
        tags = ["DT", *(["JJ"] if adjective else []), "NNS" if plural else "NN"]
        phrase = Tree("NP", map(Leaf, tags, texts))
        if noun in _PLACES or not self.chance(0.35 / (1 + depth)):
            return phrase, plural
        if self.chance(0.5):
            companion, _ = self.noun_phrase(self.pick(_COMPANIONS), depth + 1)
            return Tree("NP", [phrase, Tree("PP", [Leaf("IN", "with"), companion])]), plural
        verbs = [verb for verb in _VERBS if noun in verb.subjects]
        if not verbs:
            return phrase, plural
        relative = self.verb_phrase(self.pick(verbs), "plural" if plural else "third", depth + 1)
        clause = Tree("SBAR", [Tree("WHNP", [Leaf("WDT", "that")]), Tree("S", [relative])])
        return Tree("NP", [phrase, clause]), plural

    def verb_phrase(self, verb: Verb, person: str, depth: int = 0) -> Tree:
        """The verb with its object, perhaps a place and a modal."""
        object_phrase, _ = self.noun_phrase(self.pick(verb.object.nouns), depth)
        rest: list[Tree | Leaf] = [object_phrase]
        # Behind a relative clause, a place would be taken for the clause's.
        if verb.extra and "that" not in object_phrase.words() and self.chance(0.3):
            place, _ = self.noun_phrase(self.pick(_PLACES))
            rest.append(Tree("PP", [Leaf("IN", "in"), place]))
        tense = self.rng.random()
        if tense < 0.5:
            return Tree("VP", [_finite(verb.english, person), *rest])
        if tense < 0.75:
            inner = Tree("VP", [Leaf("VBN", verb.english_participle), *rest])
            return Tree("VP", [_finite(lexicon.HAVE, person), inner])
        return Tree("VP", [Leaf("MD", self.pick(["can", "must"])), Tree("VP", [Leaf("VB", verb.base), *rest])])


def _finite(forms: lexicon.Finite, person: str) -> Leaf:
    return Leaf("VBZ" if person == "third" else "VBP", getattr(forms, person))


def _capitalised(part: Tree | Leaf) -> Tree | Leaf:
    """The same tree, whose first word begins with a capital letter."""
    if isinstance(part, Leaf):
        return part._replace(word=part.word[:1].upper() + part.word[1:])
    first, *others = part.children
    return Tree(part.label, [_capitalised(first), *others])
