"""The built-in demo corpus: English-German pairs made by a small seeded grammar.

It is a toy, but its German is real German: agreement of gender, number and case, verb-second main clauses,
verb-final subordinate clauses, separable verbs, modal verbs and the perfect with their closing infinitives
and participles. So words move, and what attention learns can be seen. Every sentence has one translation:
where German leaves the order free, it is time, receiver or place, object, goal.

What is held out. Two kinds of word combination make up a sentence, and each belongs to exactly one split:

- the core of a clause, (subject, verb, object), where the object is the verb's own noun with or without a
  preposition ("chase the cat", "sleep in the garden"); of each verb's cores a tenth is for test and a tenth
  for validation;
- (adjective, noun), before the noun or after "to be"; of each noun's adjectives one is for test and one for
  validation.

A sentence uses only combinations of its split, in each of its clauses. Thus no core and no adjective with its
noun in test was met in training, whatever the number, article, tense or order. What may recur: single words
(every one is in training), a verb with its object under another subject, and the second noun of a clause ("in
the park", "on the table", the receiver of a gift) or the one who knows, says or believes.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tf_transformer.data import demo_lexicon as lexicon
from tf_transformer.data.demo_lexicon import Noun, NounPhrase, Pronoun, Verb, inflect, join_words
from tf_transformer.errors import UserError

SIZES = {"train": 12_000, "validation": 300, "test": 300}
MIN_WORDS, MAX_WORDS = 4, 14
_SEEDS = {"train": 1, "validation": 2, "test": 3}
_SPLITTING_SEED = 4


class Clause(NamedTuple):
    """A clause in pieces: English in its one order, and German ready for each of its three orders.

    `end` is what closes a main clause (prefix, participle, infinitive, predicate); `final` is the whole verb
    at the end of a subordinate clause.
    """

    english: str
    subject: str
    finite: str
    middle: str
    end: str
    final: str
    english_time: str = ""
    time: str = ""

    def english_plain(self) -> str:
        return join_words([self.english, self.english_time])

    def english_time_first(self) -> str:
        return join_words([self.english_time, self.english])

    def subject_first(self) -> str:
        return join_words([self.subject, self.finite, self.time, self.middle, self.end])

    def time_first(self) -> str:
        return join_words([self.time, self.finite, self.subject, self.middle, self.end])

    def after_clause(self) -> str:
        """Verb-second still: the subordinate clause before it counts as the first place."""
        return join_words([self.finite, self.subject, self.time, self.middle, self.end])

    def verb_last(self) -> str:
        return join_words([self.subject, self.time, self.middle, self.final])


@cache
def _combinations() -> tuple[dict[str, dict[Verb, list]], dict[str, dict[Noun | Pronoun, list[str]]]]:
    """For each split: the (subject, object) pairs of each verb, and the adjectives of each noun."""
    rng = random.Random(_SPLITTING_SEED)
    cores = {split: {} for split in SIZES}
    for verb in lexicon.VERBS:
        pairs = [(subject, noun) for subject in verb.subjects for noun in verb.object.nouns if subject != noun]
        pairs.sort(key=lambda _: rng.random())
        held_out = max(2, len(pairs) // 10)
        cores["test"][verb] = pairs[:held_out]
        cores["validation"][verb] = pairs[held_out : 2 * held_out]
        cores["train"][verb] = pairs[2 * held_out :]

    adjectives = {split: {} for split in SIZES}
    left = Counter()
    for noun in (*lexicon.PRONOUNS, *lexicon.NOUNS):
        adjectives["train"][noun] = list(lexicon.ADJECTIVES[noun.group])
        left.update((adjective, noun.gender) for adjective in adjectives["train"][noun])
    for split in ("test", "validation"):
        for noun, words in adjectives["train"].items():
            # Training keeps it with at least two nouns of the gender, to have seen the endings.
            spare = [adjective for adjective in words if left[adjective, noun.gender] > 2]
            chosen = spare[int(rng.random() * len(spare))]
            words.remove(chosen)
            left[chosen, noun.gender] -= 1
            adjectives[split][noun] = [chosen]
    return cores, adjectives


class _Writer:
    """Draws the sentences of one split.

    All chance comes from `random()`: the one generator method whose sequence Python promises to keep.
    """

    def __init__(self, split: str):
        self.rng = random.Random(_SEEDS[split])
        cores, adjectives = _combinations()
        # Pronouns twice as often as nouns: the verb has a form of its own for "I".
        self.cores = {
            verb: pairs + [pair for pair in pairs if isinstance(pair[0], Pronoun)]
            for verb, pairs in cores[split].items()
        }
        self.adjectives = adjectives[split]
        states = [(noun, adjective) for noun, words in self.adjectives.items() for adjective in words]
        self.passing = [state for state in states if state[1] in lexicon.PASSING]
        self.lasting = [state for state in states if state[1] not in lexicon.PASSING]
        self.mentioned: list[Noun | Pronoun] = []  # in the sentence being written

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, items):
        return items[int(self.rng.random() * len(items))]

    def noun_phrase(self, noun: Noun) -> NounPhrase:
        self.mentioned.append(noun)
        adjective = self.pick(self.adjectives[noun]) if self.chance(0.4) else ""
        plural = noun not in lexicon.ALWAYS_SINGULAR and self.chance(0.25)
        determiners = ["the", "the"] if noun in lexicon.NEVER_MINE else ["the", "the", "my"]
        if not plural:
            determiners.append("a")
        elif adjective or noun not in lexicon.PEOPLE:  # "he invites men" says too little
            determiners.append("")
        return NounPhrase(noun, self.pick(determiners), adjective, plural)

    def subject(self, subject: Noun | Pronoun, known: bool = False) -> tuple[str, str, str]:
        """English, German and the person that the verb agrees with; a `known` one is "the" noun alone."""
        if isinstance(subject, Pronoun):
            self.mentioned.append(subject)
            return subject.english, subject.german, subject.person
        phrase = self.noun_phrase(subject)
        if known:
            phrase = phrase._replace(determiner="the", adjective="")
        return phrase.english(), phrase.german("nominative"), "plural" if phrase.plural else "third"

    def slot(self, slot: lexicon.Slot, noun: Noun) -> tuple[str, str]:
        phrase = self.noun_phrase(noun)
        german = join_words([slot.german, phrase.german(slot.case)])
        for apart, together in lexicon.CONTRACTIONS.items():
            if german.startswith(apart + " "):
                german = together + german.removeprefix(apart)
        return join_words([slot.english, phrase.english()]), german

    def clause(self, timed: bool, tense: str = "", passing: bool = False) -> Clause:
        """A clause in the given tense or any; a state that it tells of may have to be a `passing` one."""
        if self.chance(0.15):
            states = self.passing if timed or tense or passing else self.lasting
            clause, tense = self.predicate(states), "present"
        else:
            tense = tense or self.pick(["present", "present", "perfect", "modal"])
            clause = self.action(self.pick(lexicon.VERBS), tense)
        if timed:
            english_time, time = self.pick(lexicon.TIMES[tense])
            clause = clause._replace(english_time=english_time, time=time)
        return clause

    def predicate(self, states: list[tuple[Noun | Pronoun, str]]) -> Clause:
        """Somebody or something "is" an adjective, which German leaves uninflected."""
        subject, adjective = self.pick(states)
        english, german, person = self.subject(subject, known=True)
        finite, stem = getattr(lexicon.SEIN, person), lexicon.ADJECTIVE_STEMS[adjective]
        english = join_words([english, getattr(lexicon.BE, person), adjective])
        return Clause(english, german, finite, middle="", end=stem, final=f"{stem} {finite}")

    def action(self, verb: Verb, tense: str) -> Clause:
        subject, noun = self.pick(self.cores[verb])
        english, german, person = self.subject(subject)
        english_object, german_object = self.slot(verb.object, noun)
        middle = [german_object]
        english_rest = [english_object]
        if verb.extra and (verb.extra is not lexicon.PLACE or self.chance(0.3)):
            english_extra, german_extra = self.slot(verb.extra, self.pick(verb.extra.nouns))
            # German has receivers and places before the object, goals after; English only receivers before.
            middle.insert(0 if verb.extra.case == "dative" else 1, german_extra)
            english_rest.insert(1 if verb.extra.english else 0, english_extra)
        english_verb, finite, end, final = self.verb_forms(verb, tense, person)
        english = join_words([english, english_verb, *english_rest])
        return Clause(english, german, finite, join_words(middle), end, final)

    def verb_forms(self, verb: Verb, tense: str, person: str) -> tuple[str, str, str, str]:
        """The English verb; the German finite verb, what closes the main clause, and all of it verb-final."""

        def agree(forms: lexicon.Finite) -> str:
            return getattr(forms, person)

        if tense == "present":
            finite = agree(verb.german)
            return agree(verb.english), finite, verb.prefix, verb.prefix + finite
        if tense == "perfect":
            finite = agree(lexicon.SEIN if verb.moves else lexicon.HABEN)
            english, end = f"{agree(lexicon.HAVE)} {verb.english_participle}", verb.participle
        else:
            english_modal, german_modal = self.pick(lexicon.MODALS)
            finite = agree(german_modal)
            english, end = f"{agree(english_modal)} {verb.base}", verb.prefix + verb.infinitive
        return english, finite, end, f"{end} {finite}"

    def sentence(self) -> tuple[str, str]:
        """An English sentence and its German, not yet capitalised; drawn anew until it is a good one."""
        while True:
            self.mentioned.clear()
            english, german = self.draw()
            if self.is_clear(german):
                return english, german

    def is_clear(self, german: str) -> bool:
        """No noun comes twice, and no "he" or "she" may mean a girl or child of the other clause.

        German would waver there between "es", for the grammar, and "er" or "sie", for the sense.
        """
        nouns = [noun for noun in self.mentioned if isinstance(noun, Noun)]
        he_or_she = any(isinstance(word, Pronoun) and word.person == "third" for word in self.mentioned)
        neuter = any(noun in lexicon.PEOPLE and noun.gender == "n" for noun in nouns)
        return len(set(nouns)) == len(nouns) and not ("," in german and he_or_she and neuter)

    def draw(self) -> tuple[str, str]:
        """One of five kinds: plain, time first, with "that", with a subordinate clause first or last."""
        kind = self.rng.random()
        if kind < 0.22:
            clause = self.clause(timed=self.chance(0.4))
            return clause.english_plain(), clause.subject_first()
        if kind < 0.44:
            clause = self.clause(timed=True)
            return clause.english_time_first(), clause.time_first()
        if kind < 0.58:
            return self.report()
        conjunction = self.pick(list(lexicon.CONJUNCTIONS))
        tense = "present" if conjunction in lexicon.PRESENT_ONLY else ""
        main = self.clause(self.chance(0.3), tense, passing=True)
        reason = self.clause(not (tense or main.time) and self.chance(0.3), tense)
        english_reason = f"{conjunction} {reason.english_plain()}"
        german_reason = f"{lexicon.CONJUNCTIONS[conjunction]} {reason.verb_last()}"
        if kind < 0.78:
            return f"{english_reason}, {main.english_plain()}", f"{german_reason}, {main.after_clause()}"
        if main.time and self.chance(0.5):
            return f"{main.english_time_first()} {english_reason}", f"{main.time_first()}, {german_reason}"
        return f"{main.english_plain()} {english_reason}", f"{main.subject_first()}, {german_reason}"

    def report(self) -> tuple[str, str]:
        """Somebody knows, says or believes that something is so."""
        english, german, person = self.subject(self.pick(lexicon.SPEAKERS))
        english_verb, german_verb = self.pick(lexicon.SPEECH)
        content = self.clause(timed=self.chance(0.3))
        return (
            f"{english} {getattr(english_verb, person)} that {content.english_plain()}",
            f"{german} {getattr(german_verb, person)}, dass {content.verb_last()}",
        )


@cache
def _pairs(split: str) -> tuple[tuple[str, str], ...]:
    writer = _Writer(split)
    pairs: dict[str, str] = {}
    while len(pairs) < SIZES[split]:
        english, german = writer.sentence()
        if MIN_WORDS <= len(english.split()) <= MAX_WORDS:
            pairs[_capitalise(english) + "."] = _capitalise(german) + "."
    return tuple(pairs.items())


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


class DemoSource:
    """One split of the built-in English-German corpus; the same pairs on every machine.

    Args:
        split: "train" (12,000 pairs), "validation" (300) or "test" (300).

    Raises:
        UserError: For another split.

    Example:
        >>> from tf_transformer.data.demo import DemoSource
        >>> english, german = next(iter(DemoSource("train")))
        >>> len(DemoSource("test"))
        300
    """

    def __init__(self, split: str):
        if split not in SIZES:
            raise UserError(f"the demo corpus has no split {split!r}: choose one of {', '.join(SIZES)}")
        self.split = split

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(_pairs(self.split))

    def __len__(self) -> int:
        return SIZES[self.split]


def word_for_word(english: str) -> str:
    """Translates by dictionary alone: each word by its commonest German word, in the English order.

    This is the baseline that says how much of the corpus is more than looking up words. It has the best
    dictionary such a method can have: of all German forms of a word, the one most frequent in training.

    Args:
        english: A sentence of the corpus; unknown words stay as they are.

    Returns:
        The German words in English order, with the punctuation of the English.

    Example:
        >>> from tf_transformer.data.demo import word_for_word
        >>> word_for_word("The dog sleeps.")
        'Die Hund schläft.'
    """
    words = [_translate_word(word) for word in english.split()]
    return _capitalise(join_words(words))


def _translate_word(token: str) -> str:
    word = token.rstrip(".,")
    dictionary = _dictionary()
    return dictionary.get(word, dictionary.get(word.lower(), word)) + token[len(word) :]


@cache
def _dictionary() -> dict[str, str]:
    counts = Counter(word for _, german in _pairs("train") for word in re.findall(r"\w+", german))
    # sorted() and max() settle ties by the alphabet, so that the dictionary is the same in every process.
    return {english: max(sorted(forms), key=lambda form: counts[form]) for english, forms in _german_forms().items()}


def _german_forms() -> dict[str, set[str]]:
    """Every German form that an English word of the corpus may stand for."""
    forms: dict[str, set[str]] = {
        "the": {article for row in lexicon.THE.values() for article in row},
        "to": {""},  # "wants to": German has nothing there
        "for": {""},  # "looks for" is one word
        "up": {"ab", "auf"},
        "on": {"auf", "an"},
        "onto": {"auf"},
        "in": {"in", "im"},
        "into": {"in", "ins"},
        "with": {"mit"},
        "that": {"dass"},
        "every": {"jeden"},
        "day": {"Tag"},
        "evening": {"Abend"},
        "this": {"diese"},
        "week": {"Woche"},
    }
    for english, stem in {**lexicon.EIN_WORDS, "an": "ein"}.items():
        forms[english] = {stem + ending for row in lexicon.EIN_ENDINGS.values() for ending in row}
    for noun in lexicon.NOUNS:
        forms[noun.english] = {noun.german, noun.oblique}
        forms[noun.english_plural] = {noun.german_plural, noun.dative_plural}
    for adjective in lexicon.ADJECTIVE_STEMS:
        forms[adjective] = {inflect(adjective, ending) for ending in ("", "e", "en", "er", "es", "em")}
    for english, german in [
        (lexicon.HAVE, lexicon.HABEN),
        (lexicon.BE, lexicon.SEIN),
        *lexicon.MODALS,
        *lexicon.SPEECH,
    ]:
        for english_form, german_form in zip(english, german, strict=True):
            forms.setdefault(english_form.split()[0], set()).add(german_form)
    for verb in lexicon.VERBS:
        base, third, participle = (form.split()[0] for form in (verb.base, verb.english_third, verb.english_participle))
        for english, german in [(base, verb.german.first), (base, verb.infinitive), (third, verb.third)]:
            forms.setdefault(english, set()).update({german, verb.prefix + german})
        forms.setdefault(participle, set()).add(verb.participle)
    for pronoun in lexicon.PRONOUNS:
        forms[pronoun.english] = {pronoun.german}
    for times in lexicon.TIMES.values():
        forms.update({english: {german} for english, german in times if " " not in english})
    forms.update({english: {german} for english, german in lexicon.CONJUNCTIONS.items()})
    return forms
