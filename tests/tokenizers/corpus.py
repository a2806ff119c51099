"""A small corpus for the tests of tokenizers: 240 pairs with German umlauts and both cases."""

from itertools import product

_SUBJECTS = [("The girl", "Das Mädchen"), ("A small dog", "Ein kleiner Hund"), ("My brother", "Mein Bruder")]
_VERBS = [("sees", "sieht"), ("buys", "kauft"), ("loves", "liebt"), ("forgets", "vergisst")]
_OBJECTS = [
    ("the green apples", "die grünen Äpfel"),
    ("a house", "ein Haus"),
    ("the potatoes", "die Kartoffeln"),
    ("his keys", "seine Schlüssel"),
    ("some bread", "etwas Brot"),
]
_ENDS = [(".", "."), (" today.", " heute."), (", too.", " auch."), ("!", "!")]

PAIRS = [
    (f"{subject[0]} {verb[0]} {object_[0]}{end[0]}", f"{subject[1]} {verb[1]} {object_[1]}{end[1]}")
    for subject, verb, object_, end in product(_SUBJECTS, _VERBS, _OBJECTS, _ENDS)
]
