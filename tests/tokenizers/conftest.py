"""A small corpus, and the tokenizers learned from it: 240 pairs with German umlauts and both cases."""

from itertools import product

import pytest

from tf_transformer.tokenizers import TokenizerPair, train_tokenizers

SUBJECTS = [("The girl", "Das Mädchen"), ("A small dog", "Ein kleiner Hund"), ("My brother", "Mein Bruder")]
VERBS = [("sees", "sieht"), ("buys", "kauft"), ("loves", "liebt"), ("forgets", "vergisst")]
OBJECTS = [
    ("the green apples", "die grünen Äpfel"),
    ("a house", "ein Haus"),
    ("the potatoes", "die Kartoffeln"),
    ("his keys", "seine Schlüssel"),
    ("some bread", "etwas Brot"),
]
ENDS = [(".", "."), (" today.", " heute."), (", too.", " auch."), ("!", "!")]

# Sizes that this corpus allows: for one vocabulary of both sides, and for one of each.
JOINT_SIZES = {"bpe": 400, "unigram": 320, "wordpiece": 110}
SEPARATE_SIZES = {"bpe": 400, "unigram": 300, "wordpiece": 75}


@pytest.fixture(scope="session")
def pairs() -> list[tuple[str, str]]:
    return [
        (" ".join(part[0] for part in parts) + end[0], " ".join(part[1] for part in parts) + end[1])
        for *parts, end in product(SUBJECTS, VERBS, OBJECTS, ENDS)
    ]


@pytest.fixture(scope="session")
def joint_pairs(pairs) -> dict[str, TokenizerPair]:
    """Pairs with one vocabulary, by kind."""
    return {kind: train_tokenizers(pairs, kind, size) for kind, size in JOINT_SIZES.items()}


@pytest.fixture(params=list(JOINT_SIZES))
def kind(request) -> str:
    return request.param


@pytest.fixture
def pair(joint_pairs, kind) -> TokenizerPair:
    return joint_pairs[kind]
