"""Whether what is put into sentences survives their translation, where it comes out, and what that costs the rest.

python benchmarks/protected.py MODEL... --data FOLDER [--test test_2016_flickr] [--sentences 1000] [--seed 1]

FOLDER has the texts of a language pair, train.en and train.de, and a test set. Links, mail addresses, placeholders,
tags, quantities and emoji are put behind words of its sentences. BLEU of the rest is that of the translations without
what was put in. The right place is known where a word with such a thing behind it has one translation in the training
text, and that is in the translation: it must stand behind it there.

Then things take the place of words that have one translation in the training text, which is in the reference: such a
word is replaced in both, and BLEU is that of whole translations. A glossary of these words and their translations is
used as well.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tf_transformer.data.placeholders import SAMPLE
from tf_transformer.data.word_pairs import WORD, learn_word_pairs
from tf_transformer.evaluation.scores import score_translations

KINDS = {
    "links": ("https://example.com/a?b=1", "www.example.org", "http://test.example/page.html#part"),
    "mail addresses": ("jane.doe@example.com", "info@mail.example.org"),
    "placeholders": ("{name}", "{{user.id}}", "${total}", "%s"),
    "tags": (("<b>", "</b>"), ("<i>", "</i>"), ('<a href="x.html">', "</a>"), ("<br/>",)),
    "quantities": ("5 km", "3.5 kg", "20 °C", "10%", "$250", "60 km/h"),
    "emoji": ("😀", "👩🏽‍🚒", "🇩🇪", "❤️"),
}
CHANCES = {1: 0.5, 2: 0.3, 3: 0.2}  # of how many are put into a sentence


class Changed(NamedTuple):
    """A sentence with spans put in.

    Attributes:
        text: the sentence.
        spans: what was put in, in order, each with its kind.
        behind: the word that each stands behind.
    """

    text: str
    spans: list[tuple[str, str]]
    behind: list[str]


def put_in(sentence: str, chance: random.Random) -> Changed:
    """Puts one to three things behind words of a sentence; a pair of tags around a word counts as one.

    Example:
        >>> put_in("A dog runs.", random.Random(1)).text
        'A info@mail.example.org dog runs.'
    """
    words = list(WORD.finditer(sentence))
    (number,) = chance.choices(list(CHANCES), CHANCES.values())
    chosen = sorted(chance.sample(range(len(words)), min(number, len(words))))
    text, at, spans, behind = "", 0, [], []
    for place in chosen:
        kind = chance.choice(list(KINDS))
        thing = chance.choice(KINDS[kind])
        start, end = words[place].span()
        if isinstance(thing, tuple) and len(thing) == 2:
            text += sentence[at:start] + thing[0] + sentence[start:end] + thing[1]
            spans += [(thing[0], kind), (thing[1], kind)]
            behind += ["", words[place][0]]
        else:
            thing = thing[0] if isinstance(thing, tuple) else thing
            text += sentence[at:end] + " " + thing
            spans.append((thing, kind))
            behind.append(words[place][0])
        at = end
    return Changed(text + sentence[at:], spans, behind)


def replaced(sentence: str, reference: str, word_pairs: dict[str, str], chance: random.Random) -> list[str] | None:
    """The sentence and its reference with a thing in place of a word and its translation, then with the word's
    translation marked as a term; None where there is no such word.
    """
    sides = [list(WORD.finditer(text)) for text in (sentence, reference)]
    once = [{m[0]: m for m in side if [n[0] for n in side].count(m[0]) == 1} for side in sides]
    known = [m for word, m in once[0].items() if word_pairs.get(word) in once[1]]
    if not known:
        return None
    word = chance.choice(known)
    thing = chance.choice([each for kind in KINDS.values() for each in kind if isinstance(each, str)])
    other = once[1][word_pairs[word[0]]]
    return [
        sentence[: word.start()] + thing + sentence[word.end() :],
        reference[: other.start()] + thing + reference[other.end() :],
        f"{sentence[: word.start()]}⟦{word[0]}|{other[0]}⟧{sentence[word.end() :]}",
    ]


def survivors(changed: Changed, translation: str) -> Iterator[bool]:
    """For each span whether it is there as often as it was put in."""
    texts = [span for span, _ in changed.spans]
    for span in texts:
        # "http://..." is no part of another here, but a tag may be: </b> has no <b> in it.
        yield translation.count(span) == texts.count(span)


def without(changed: Changed, translation: str) -> str:
    """The translation without what was put in."""
    for span, _ in changed.spans:
        translation = translation.replace(span, " ", 1)
    return " ".join(translation.split())


def in_place(changed: Changed, translation: str, word_pairs: dict[str, str]) -> Iterator[bool]:
    """Of each span whose place is known whether it stands there."""
    texts = [span for span, _ in changed.spans]
    for number, (span, word) in enumerate(zip(texts, changed.behind, strict=True)):
        known = word_pairs.get(word)
        if not known or texts.count(span) > 1 or len(re.findall(rf"\b{re.escape(known)}\b", translation)) != 1:
            continue
        others = without(Changed("", [each for i, each in enumerate(changed.spans) if i != number], []), translation)
        yield re.search(rf"\b{re.escape(known)} ?{re.escape(span)}", others) is not None


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def main() -> None:
    from tf_transformer.translation.loading import load_translate
    from tf_transformer.translation.texts import translate_texts

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--test", default="test_2016_flickr")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unprotected", action="store_true", help="also translate without protection")
    parser.add_argument("--show", type=int, default=0, help="number of translations to print")
    arguments = parser.parse_args()

    sources, references = (lines_of(arguments.data / f"{arguments.test}.{side}") for side in ("en", "de"))
    chosen = sorted(random.Random(arguments.seed).sample(range(len(sources)), min(arguments.sentences, len(sources))))
    sources, references = [sources[i] for i in chosen], [references[i] for i in chosen]
    changed = [
        put_in(source, random.Random(f"{arguments.seed} {i}")) for i, source in zip(chosen, sources, strict=True)
    ]
    training = zip(*(lines_of(arguments.data / f"train.{side}") for side in ("en", "de")), strict=True)
    word_pairs = learn_word_pairs(islice(training, SAMPLE))
    print(f"{len(changed):,} sentences with {sum(len(each.spans) for each in changed):,} spans")

    cases = zip(sources, references, strict=True)
    cases = [(replaced(*pair, word_pairs, random.Random(f"{i}")), *pair) for i, pair in enumerate(cases)]
    cases = [(*case, *pair) for case, *pair in cases if case]

    ways = [False, True] if arguments.unprotected else [True]
    for model in arguments.models:
        translate = load_translate(model)
        plain = [each.text for each in translate_texts(translate, sources)]
        before = score_translations(plain, references).bleu
        for protect in ways:
            translate = load_translate(model, {"protect": protect})
            texts = [each.text for each in translate_texts(translate, [each.text for each in changed])]
            pairs = list(zip(changed, texts, strict=True))
            survived = [each for pair in pairs for each in survivors(*pair)]
            placed = [each for pair in pairs for each in in_place(*pair, word_pairs)]
            bleu = score_translations([without(*pair) for pair in pairs], references).bleu
            print(
                f"{model}, {'protected' if protect else 'as they are'}: {sum(survived) / len(survived):.1%} survive, "
                f"{sum(placed) / max(len(placed), 1):.1%} of {len(placed):,} in the right place; "
                f"BLEU of the rest {bleu:.2f}, of the untouched sentences {before:.2f}",
                flush=True,
            )
            with_thing, expected, with_term, source, reference = map(list, zip(*cases, strict=True))
            found = [
                [each.text for each in translate_texts(translate, each)] for each in (with_thing, with_term, source)
            ]
            in_place_of, of_terms, untouched = (
                score_translations(texts, wanted).bleu
                for texts, wanted in zip(found, (expected, reference, reference), strict=True)
            )
            print(
                f"  {len(cases):,} sentences in which one replaces a word: BLEU of the whole {in_place_of:.2f}; "
                f"with the word as a term {of_terms:.2f}, of the untouched sentences {untouched:.2f}",
                flush=True,
            )
            lost = [(each, text) for each, text in pairs if not all(survivors(each, text))]
            for each, text in lost + pairs[: arguments.show]:
                print(f"  {each.text}\n  {text}\n")


if __name__ == "__main__":
    main()
