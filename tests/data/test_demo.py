"""The demo corpus: its German, what it holds out, its determinism, and the baseline."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache

import pytest
import sacrebleu

from tests.data.reference_german import DECLENSION, VERB_FORMS, split_clauses, translate
from tf_transformer.data.demo import DemoSource, word_for_word
from tf_transformer.errors import UserError

SPLITS = ("train", "validation", "test")

# Translated by hand.
GOLDEN = """
The apple is good. | Der Apfel ist gut.
Every day I am tired. | Jeden Tag bin ich müde.
I give a girl a pear. | Ich gebe einem Mädchen eine Birne.
The girls listen to the old women. | Die Mädchen hören den alten Frauen zu.
The boy looks for the young men. | Der Junge sucht die jungen Männer.
The old friend sleeps in the quiet house. | Der alte Freund schläft im ruhigen Haus.
A dog jumps onto the big bench. | Ein Hund springt auf die große Bank.
We play with the clever boys. | Wir spielen mit den klugen Jungen.
I help the friendly children. | Ich helfe den freundlichen Kindern.
Clever teachers give the woman my picture. | Kluge Lehrerinnen geben der Frau mein Bild.
The friend picks up the neighbour every day. | Der Freund holt jeden Tag die Nachbarin ab.
She plays with my white cats every day. | Sie spielt jeden Tag mit meinen weißen Katzen.
He gives the neighbour the long newspaper every evening. | Er gibt jeden Abend der Nachbarin die lange Zeitung.
The neighbours look for my teacher in the house every evening. | Die Nachbarinnen suchen jeden Abend im Haus meine Lehrerin.
The cat has jumped onto a table. | Die Katze ist auf einen Tisch gesprungen.
They have eaten a fresh apple in the old kitchen. | Sie haben in der alten Küche einen frischen Apfel gegessen.
The men want to give the old woman the ball. | Die Männer wollen der alten Frau den Ball geben.
I want to give the girls my beautiful coats now. | Ich will jetzt den Mädchen meine schönen Mäntel geben.
Every day I open the small suitcase. | Jeden Tag mache ich den kleinen Koffer auf.
Every day the boy eats my good apples. | Jeden Tag isst der Junge meine guten Äpfel.
Sometimes a boy chases the white mice in a park. | Manchmal jagt ein Junge in einem Park die weißen Mäuse.
Now I want to pick up the teacher. | Jetzt will ich die Lehrerin abholen.
Tomorrow the tired girl can jump onto my bench. | Morgen kann das müde Mädchen auf meine Bank springen.
Today my friend has put a jacket on a small table. | Heute hat mein Freund eine Jacke auf einen kleinen Tisch gelegt.
This week he has shown the singers an interesting letter. | Diese Woche hat er den Sängerinnen einen interessanten Brief gezeigt.
This week my child has gone into the old kitchen. | Diese Woche ist mein Kind in die alte Küche gegangen.
He believes that the man turns on a computer. | Er glaubt, dass der Mann einen Computer anmacht.
The man knows that a woman has closed my suitcase today. | Der Mann weiß, dass eine Frau heute meinen Koffer zugemacht hat.
The girl knows that we can turn on a small lamp. | Das Mädchen weiß, dass wir eine kleine Lampe anmachen können.
The woman knows that we have gone into a quiet garden. | Die Frau weiß, dass wir in einen ruhigen Garten gegangen sind.
I repair a car when the friend listens to a neighbour. | Ich repariere ein Auto, wenn der Freund einer Nachbarin zuhört.
The boy visits my old doctor when she calls the singer. | Der Junge besucht meinen alten Arzt, wenn sie die Sängerin anruft.
Because the suitcase is white, he finds the key. | Weil der Koffer weiß ist, findet er den Schlüssel.
While the neighbours are hungry, the boy goes into the city. | Während die Nachbarinnen hungrig sind, geht der Junge in die Stadt.
While he opens the door, they see my beautiful bicycles sometimes. | Während er die Tür aufmacht, sehen sie manchmal meine schönen Fahrräder.
Although they must close a suitcase, I buy a black lamp. | Obwohl sie einen Koffer zumachen müssen, kaufe ich eine schwarze Lampe.
"""  # noqa: E501


@cache
def pairs(split: str) -> tuple[tuple[str, str], ...]:
    return tuple(DemoSource(split))


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def bleu(hypotheses: list[str]) -> float:
    return sacrebleu.corpus_bleu(hypotheses, [[german for _, german in pairs("test")]]).score


@cache
def combinations(split: str) -> tuple[frozenset, frozenset]:
    cores, adjectives = set(), set()
    for english, _ in pairs(split):
        for clause in split_clauses(english)[0]:
            cores |= {clause.core} - {None}
            adjectives |= set(clause.adjectives)
    return frozenset(cores), frozenset(adjectives)


@pytest.mark.parametrize("golden", GOLDEN.strip().splitlines())
def test_golden_pairs(golden):
    """Where German leaves the order of time and receiver free, the hand kept to the corpus's: time first."""
    english, german = golden.split(" | ")
    corpus = {english: german for split in SPLITS for english, german in pairs(split)}
    assert corpus[english] == german
    assert translate(english) == german  # the reference itself is held to the hand-made pairs


@pytest.mark.parametrize("split", SPLITS)
def test_all_german_agrees_with_the_independent_rules(split):
    wrong = [(english, german) for english, german in pairs(split) if translate(english) != german]
    assert not wrong, wrong[:3]


def test_every_cell_of_the_declension_tables_occurs():
    cells = Counter(
        cell for english, _ in pairs("train") for clause in split_clauses(english)[0] for cell in clause.cells
    )
    missing = [
        (determiner, case, gender)
        for determiner, case in DECLENSION
        for gender in "mfnp"
        if cells[determiner, case, gender] < 10
    ]
    assert not missing


def test_sizes_and_lengths():
    assert [len(DemoSource(split)) for split in SPLITS] == [12_000, 300, 300]
    for split in SPLITS:
        source = DemoSource(split)
        assert len(list(source)) == len(source)
        assert list(source) == list(source)
        assert all(4 <= len(english.split()) <= 14 for english, _ in source)
        assert all(text.endswith(".") and text[0].isupper() for pair in source for text in pair)


@pytest.mark.parametrize("side", [0, 1])
def test_sentences_are_distinct_within_and_between_splits(side):
    sentences = [pair[side] for split in SPLITS for pair in pairs(split)]
    assert len(set(sentences)) == len(sentences) == 12_600


@pytest.mark.parametrize("held_out", ["validation", "test"])
def test_word_combinations_are_disjoint(held_out):
    for kind in (0, 1):  # (subject, verb, object); (adjective, noun)
        others = {combination for split in SPLITS if split != held_out for combination in combinations(split)[kind]}
        assert not combinations(held_out)[kind] & others


def test_held_out_combinations_are_many():
    cores, adjectives = combinations("test")
    assert len(cores) >= 150
    assert len(adjectives) >= 40


@pytest.mark.parametrize("side", [0, 1])
def test_every_held_out_word_occurs_in_training(side):
    known = Counter(word for pair in pairs("train") for word in words_of(pair[side]))
    for split in ("validation", "test"):
        assert {word for pair in pairs(split) for word in words_of(pair[side]) if known[word] < 3} == set()


@pytest.mark.parametrize("split", SPLITS)
def test_each_phenomenon_has_a_substantial_share(split):
    counts = Counter()
    for english, german in pairs(split):
        clauses, conjunction, opens = split_clauses(english)
        verbs = [clause.core[1] for clause in clauses if clause.core]
        separable = [verb for verb in verbs if len(VERB_FORMS[verb][1]) == 4]
        counts["verb-final clause"] += bool(conjunction)
        counts["subordinate clause first"] += opens
        counts["time first"] += any(clause.time_first for clause in clauses)
        counts["separable verb"] += bool(separable)
        counts["separable verb, apart"] += bool(re.search(r" (auf|zu|an|ein|ab)(,|\.)", german))
        counts["closing participle or infinitive"] += any(" " in clause.final for clause in clauses)
        counts["adjective before a noun"] += any(clause.cells for clause in clauses)
    least = {
        "verb-final clause": 0.3, "subordinate clause first": 0.08, "time first": 0.25,
        "separable verb": 0.25,
        "separable verb, apart": 0.1, "closing participle or infinitive": 0.4,
        "adjective before a noun": 0.4,
    }  # fmt: skip
    shares = {name: counts[name] / len(pairs(split)) for name in least}
    assert all(shares[name] >= least[name] for name in least), shares


def test_word_for_word_is_under_40_bleu():
    score = bleu([word_for_word(english) for english, _ in pairs("test")])
    assert 5 < score < 40


@pytest.mark.thorough
def test_no_learnt_dictionary_reaches_40_bleu_either():
    """IBM model 1 learns its own dictionary from the training pairs, and may choose to drop a word."""
    corpus = [(words_of(english), re.findall(r"\w+", german)) for english, german in pairs("train")[:2000]]
    probability = defaultdict(lambda: 1.0)
    for _ in range(5):
        counts, totals = defaultdict(float), defaultdict(float)
        for english, german in corpus:
            for word in german:
                total = sum(probability[word, source] for source in english)
                for source in english:
                    share = probability[word, source] / total
                    counts[word, source] += share
                    totals[source] += share
        probability = {key: count / totals[key[1]] for key, count in counts.items()}
    dictionary = {}
    for (word, source), value in sorted(probability.items(), key=lambda item: item[1]):
        dictionary[source] = (word, value)
    hypotheses = []
    for english, _ in pairs("test"):
        best = [dictionary[word][0] for word in words_of(english)]
        hypotheses.append(" ".join(best) + ".")
    learnt = bleu(hypotheses)
    ours = bleu([word_for_word(english) for english, _ in pairs("test")])
    assert learnt < 40
    assert ours > learnt - 3, "the baseline's dictionary should not be a weak one"


def test_word_for_word_keeps_order_and_punctuation():
    assert word_for_word("I can find books.") == "Ich kann finden Bücher."
    result = word_for_word("Because he sleeps, the zebra eats.")
    assert re.fullmatch(r"Weil er schläft, \w+ zebra isst\.", result)
    assert word_for_word("") == ""


FINGERPRINT = """
import hashlib, sys, time
from tf_transformer.data.demo import DemoSource, word_for_word
digest = hashlib.sha256()
for split in ("train", "validation", "test"):
    for english, german in DemoSource(split):
        digest.update(f"{english}\\t{german}\\n".encode())
assert time.process_time() < 4
assert "tensorflow" not in sys.modules
baseline = " ".join(word_for_word(english) for english, _ in DemoSource("test"))
print(digest.hexdigest(), hashlib.sha256(baseline.encode()).hexdigest())
"""


def test_the_same_in_every_process_without_tensorflow():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", FINGERPRINT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "4711")
    }
    assert len(outputs) == 1
    digest = hashlib.sha256()
    for split in SPLITS:
        for english, german in pairs(split):
            digest.update(f"{english}\t{german}\n".encode())
    assert outputs.pop().split()[0] == digest.hexdigest() == PINNED


# Changing the corpus changes every published score of the demo: do it knowingly.
PINNED = "e5d9b6ec77d2a3ff3dea1364f984c4ad95a760bb8b3823342395ce9d32518bff"


@pytest.mark.parametrize("split", ["dev", "", None])
def test_an_unknown_split_is_refused_in_one_line(split):
    with pytest.raises(UserError, match="train, validation, test") as error:
        DemoSource(split)
    assert repr(split) in str(error.value)
    assert "\n" not in str(error.value)
