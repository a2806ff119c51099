"""A glossary: terms of the source language, each with the translation that it is to have."""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tf_transformer.errors import UserError, check_is_list
from tf_transformer.protection.finding import Finder
from tf_transformer.protection.patterns import WITHOUT_BLANKS
from tf_transformer.tokenizers.placeholders import CLOSING, OPENING

# They have a meaning in a mark: ⟦dog|Hund⟧.
_RESERVED = f"{OPENING}|{CLOSING}"

# Combining marks that end a picture or a key: a word may stand right behind it.
_OF_EMOJI = "\ufe0e\ufe0f\u20e3"

# In scripts without blanks a word may begin and end anywhere but for these. Behind the first no word begins: vowels of
# Thai and Lao, which stand in front of their letter, and the signs that stack the next letter in Burmese and Khmer.
_OF_NEXT_LETTER = "[\u0e40-\u0e44\u0ec0-\u0ec4\u1039\u17d2]"
# In front of the second none ends: vowels and other marks of the last letter, of which Unicode calls some letters.
_OF_LAST_LETTER = (
    "[\u0e30-\u0e3a\u0e45\u0e47-\u0e4e\u0eb0-\u0ebd\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060\u17b4-\u17d3\u17dd"
    "\u3099\u309a々ーぁぃぅぇぉゃゅょゎァィゥェォャュョヮ]"
)
# In any other script no letter stands beside a word. One of a script without blanks may: "iPhone手机".
_OF_WORD = rf"(?!{WITHOUT_BLANKS})\w"
_IS_WITHOUT_BLANKS = re.compile(WITHOUT_BLANKS).match
_BORDER_BEFORE = f"(?:(?={WITHOUT_BLANKS})(?<!{_OF_NEXT_LETTER})|(?!{WITHOUT_BLANKS})(?<!{_OF_WORD}))"
_BORDER_BEHIND = f"(?:(?<={WITHOUT_BLANKS})(?!{_OF_LAST_LETTER})|(?<!{WITHOUT_BLANKS})(?!{_OF_WORD}))"


class Glossary:
    """Marks terms in texts, so that they are translated as the glossary says.

    A term is found as whole words; in a script without spaces between words, such as Chinese and Thai, wherever its
    letters occur. One in lower case is found in any case, as at the beginning of a sentence; another only as it is
    written. Accents may be composed (NFC) or decomposed (NFD), in the term and in the text. Of two terms at one place
    the longer one counts. What is protected anyway, such as a link, has no terms.

    A term in a script without spaces whose translation is in another script gets spaces, so that its translation does:
    "一只狗" becomes "一只 ⟦狗|dog⟧".

    Args:
        terms: source term -> target term.

    Raises:
        UserError: there is no term, or one is empty, or has a ⟦, a ⟧ or a vertical bar, or occurs in both forms.

    Example:
        >>> glossary = Glossary({"dog": "Hund", "fire truck": "Feuerwehrauto"})
        >>> glossary.mark(["Dog and fire truck: see dog.example or www.dog.com."])
        ['⟦Dog|Hund⟧ and ⟦fire truck|Feuerwehrauto⟧: see ⟦dog|Hund⟧.example or www.dog.com.']
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        if not terms:
            raise UserError("the glossary has no terms; give at least one, with its translation")
        for term in [*terms, *terms.values()]:
            if not term.strip() or set(term) & set(_RESERVED):
                raise UserError(
                    f"{term!r} is not a valid glossary term; it must not be blank or contain {OPENING}, {CLOSING} or |"
                )
        self.terms: dict[str, str] = {}
        for term, other in terms.items():
            if _composed(term) in self.terms:
                raise UserError(f"{term!r} is in the glossary twice, composed and decomposed; give each term once")
            self.terms[_composed(term)] = other
        self._in_lower_case = {_key(term): other for term, other in self.terms.items() if term == term.lower()}
        self._as_written = {_key(term): other for term, other in self.terms.items() if term != term.lower()}
        # Decomposed, where "cafe" begins "café", the second is the longer one.
        longest_first = sorted(terms, key=lambda term: len(unicodedata.normalize("NFD", _key(term))), reverse=True)
        self._patterns = {_key(term): _words(term) for term in longest_first}
        found = "|".join(
            f"(?i:{words})" if term in self._in_lower_case else words for term, words in self._patterns.items()
        )
        self._finder = Finder(f"{_BORDER_BEFORE}(?:{found}){_BORDER_BEHIND}")

    @classmethod
    def read(cls, path: str | os.PathLike) -> Glossary:
        """Reads a file of lines `source term<TAB>target term`, UTF-8; empty lines are skipped.

        Raises:
            UserError: it can't be read, or a line is not such a pair, or two lines have the same term.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise UserError(f"{path}: the glossary can't be read ({error.strerror}); give a file of terms") from None
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: not valid UTF-8 at byte {error.start:,}; convert the glossary to UTF-8") from None
        terms: dict[str, str] = {}
        composed = set()
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            columns = [column.strip() for column in line.split("\t")]
            if len(columns) != 2 or not all(columns):
                raise UserError(f"{path}, line {number}: give a source term, a tab and its target term")
            if _composed(columns[0]) in composed:
                raise UserError(f"{path}, line {number}: {columns[0]!r} occurs twice; give each term once")
            composed.add(_composed(columns[0]))
            terms[columns[0]] = columns[1]
        try:
            return cls(terms)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    @property
    def fingerprint(self) -> str:
        """What distinguishes it from another glossary."""
        return hashlib.sha256(json.dumps(self.terms, sort_keys=True).encode()).hexdigest()

    def mark(self, texts: Sequence[str]) -> list[str]:
        """Marks the terms in texts, for a translation with the option `protect`.

        Raises:
            UserError: `texts` is one string.
        """
        check_is_list(texts, "texts")
        return [self._mark(text) for text in texts]

    def places(self, text: str) -> list[tuple[int, int]]:
        """Where terms begin and end in a text."""
        return [found.span() for found in self._finder.find(text) if _is_term(found)]

    def applied(self, translate: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
        """A function that marks texts before it gives them to one that translates."""
        return lambda texts: translate(self.mark(texts))

    def _mark(self, text: str) -> str:
        parts, done = [], 0
        for found, behind in pairwise([*self._finder.find(text), None]):
            if _is_term(found):
                parts += [text[done : found.start()], self._marked(found, behind)]
                done = found.end()
        return "".join([*parts, text[done:]])

    def _marked(self, found: re.Match, behind: re.Match | None) -> str:
        """A term with its mark; `behind` is what was found next."""
        term, (start, end) = found[0], found.span()
        words = _key(term)
        target = (
            self._as_written.get(words) or self._in_lower_case.get(_composed(words.lower())) or self._of_any_case(term)
        )
        mark = f"{OPENING}{term}|{target}{CLOSING}"
        if _lacks_blank(found.string[max(start - 1, 0) : start], term[0], target[0]):
            mark = " " + mark
        if _lacks_blank(found.string[end : end + 1], term[-1], target[-1]):
            is_next = behind is not None and behind.start() == end and _is_term(behind)
            mark += "" if is_next else " "  # another term may get one in front
        return mark

    def _of_any_case(self, words: str) -> str:
        """The target of a term whose letters `re` takes for these, and `lower` does not: "İ" for "i", "ſ" for "s"."""
        terms = self._in_lower_case.items()
        return next(target for term, target in terms if re.fullmatch(self._patterns[term], words, re.IGNORECASE))


def _is_term(found: re.Match) -> bool:
    """Whether a term was found, and neither what is protected nor another word."""
    return found.lastgroup == "term" and not _is_in_word(found)


def _is_in_word(found: re.Match) -> bool:
    """Whether a combining mark, which `re` takes for no part of a word, goes before or behind: कर is no word of करें.

    In front, one of a script without blanks, or of any other before a term of such a script, ends another word.
    """
    start, end = found.span()
    around = found.string[end : end + 1]
    if not _IS_WITHOUT_BLANKS(found[0]):
        around += re.sub(WITHOUT_BLANKS, "", found.string[max(start - 1, 0) : start])
    return any(unicodedata.category(each)[0] == "M" and each not in _OF_EMOJI for each in around)


def _lacks_blank(beside: str, end_of_term: str, end_of_target: str) -> bool:
    """Whether only the script of the source is why there is no blank between a letter and a term: 一只狗, a dog."""
    is_letter = beside != "" and unicodedata.category(beside)[0] in "LMN"
    return is_letter and any(map(_IS_WITHOUT_BLANKS, (beside, end_of_term))) and not _IS_WITHOUT_BLANKS(end_of_target)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _key(term: str) -> str:
    """By what a term is looked up, however its blanks and accents are written."""
    return " ".join(_composed(term).split())


def _words(term: str) -> str:
    """What matches a term across any blanks, each word as it is given, composed or decomposed."""
    forms = [
        dict.fromkeys(re.escape(form) for form in (word, _composed(word), unicodedata.normalize("NFD", word)))
        for word in term.split()
    ]
    return r"\s+".join(f"(?:{'|'.join(of_word)})" for of_word in forms)
