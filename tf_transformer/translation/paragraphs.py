"""Long texts: split into sentences, translated, and joined again with their spaces and line breaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple

from tf_transformer.errors import check_is_list
from tf_transformer.languages import short_code
from tf_transformer.protection.patterns import MARKED
from tf_transformer.tokenizers.language_tags import tag_at

if TYPE_CHECKING:
    from tf_transformer.protection.glossary import Glossary
    from tf_transformer.translation.texts import Translation

# What is between two sentences: spaces, line breaks, characters of no width.
_BLANKS = re.compile(r"[\s\u200b\u2060\ufeff]*")

# sentencex 1.0.32 fails on a no-break space after a single letter, and on half of a surrogate pair (JSON can hold it).
_BLANKS_BUT_SPACE = re.compile(r"[^\S ]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# What a user has marked for the option `protect` is not parted, whatever full stops are in it: ⟦e.g.|z. B.⟧
_MARK = re.compile(MARKED)

# sentencex takes time that grows with the square of the number of unclosed quotes.
_WINDOW = 5_000

# These write ordinals with a full stop, after which sentencex splits: "am 3. Mai".
_WITH_ORDINALS = re.compile("bs|cs|da|de|et|eu|fi|fo|hr|hu|is|lb|lv|nb|nn|no|pl|sk|sl|sr|tr")
_ORDINAL = re.compile(r"\b\d{1,2}\.\s*\Z")

# The end of a sentence in a script that writes no spaces: a full stop of full width, Chinese or Japanese letters, and
# what marks may come behind them.
_END_WITHOUT_BLANK = re.compile(r"[。！？．｡\u3005-\u3007\u3040-\u30ff\u3400-\u9fff]")
_MARKS = re.compile(r"[^\w\s]*")


class SplitText(NamedTuple):
    """A text in sentences, and what a model reads of each.

    Attributes:
        pieces: as `split_sentences` gives them, without the text's leading language tags.
        read: for each sentence what the model reads: the sentence, with the tags in front.
        tags: the tags that hold for the sentences, such as `>>deu<<`; empty for none.
        length: of the text's own tags with the spaces behind them, which are missing in `pieces`.
    """

    pieces: list[str]
    read: list[str]
    tags: str
    length: int


class Paragraph(NamedTuple):
    """A text that was translated sentence by sentence.

    Attributes:
        text: the translation, with the spaces and line breaks of the source.
        sources: the sentences.
        sentences: their translations.

    Example:
        >>> from tf_transformer.translation.texts import Translation
        >>> Paragraph("Ein Hund.", ["A dog."], [Translation("Ein Hund.", -0.25, truncated=False)]).truncated
        False
    """

    text: str
    sources: list[str]
    sentences: list[Translation]

    @property
    def truncated(self) -> bool:
        """Whether a sentence was cut to the model's positions."""
        return any(sentence.truncated for sentence in self.sentences)


def split_sentences(text: str, language: str | None = None, glossary: Glossary | None = None) -> list[str]:
    r"""Splits a text into its sentences and what stands between them.

    A line break ends a sentence, whatever comes before it. Within a line the library sentencex finds the ends of
    sentences. A piece without a letter or a digit, such as a row of dashes, is no sentence.

    Args:
        text: any text, of one line or many.
        language: the code of its language: "de", "de-AT". English rules hold for one that sentencex does not know.
        glossary: one in whose terms no sentence ends, but for a line break: "Who Cares? Tour".

    Returns:
        An odd number of pieces, which together are the text. Every second is a sentence, without spaces around it; the
        others, which may be empty, are what comes before the first, between two, and after the last.

    Example:
        >>> split_sentences("Dr. Li came.  She left.\r\n")
        ['', 'Dr. Li came.', '  ', 'She left.', '\r\n']
        >>> split_sentences("Er kam am 3. Mai. Sie auch.", "de")[1::2]
        ['Er kam am 3. Mai.', 'Sie auch.']
        >>> split_sentences("--- ")
        ['--- ']
    """
    code = short_code(re.split("[-_]", language or "")[0].lower())
    pieces = [""]
    for line in text.splitlines(keepends=True):
        ends = _ends(line, code)
        if glossary:
            inside = {place for begin, end in glossary.places(line) for place in range(begin + 1, end)}
            ends = [end for end in ends if end not in inside]
        for start, end in zip([0, *ends], ends, strict=False):
            before, sentence, after = _parted(line[start:end])
            if re.search(r"[^\W_]", sentence):
                pieces[-1] += before
                pieces += [sentence, after]
            else:
                pieces[-1] += line[start:end]
    return pieces


def split_text(
    text: str,
    language: str | None = None,
    glossary: Glossary | None = None,
    tags: Collection[str] = (),
    begun: str = "",
) -> SplitText:
    """Splits a text into sentences, each of which a multilingual model reads with the text's leading language tags.

    A sentence that begins with a tag itself gets no other.

    Args:
        text: as `split_sentences` takes it.
        language: as `split_sentences` takes it.
        glossary: as `split_sentences` takes it.
        tags: all tags that the model knows; none for a model that needs none, to which `>>deu<<` is text.
        begun: the tags that hold where the text has none: it is part of a longer one, which began with them.

    Example:
        >>> split = split_text(">>deu<< A man. A dog.", tags=[">>deu<<", ">>nld<<"])
        >>> split.pieces
        ['', 'A man.', ' ', 'A dog.', '']
        >>> split.read
        ['>>deu<< A man.', '>>deu<< A dog.']
    """
    start, leading, end = _leading_tags(text, tags)
    leading = leading or begun
    pieces = split_sentences(text[:start] + text[end:], language, glossary)
    read = [
        sentence if not leading or tag_at(sentence, 0, tags) else f"{leading} {sentence}" for sentence in pieces[1::2]
    ]
    return SplitText(pieces, read, leading, end - start)


def join_sentences(pieces: Sequence[str], translations: Iterable[str]) -> str:
    r"""Puts translations in the places of the sentences.

    A line break inside a translation becomes a space, so that the text has as many lines as before. Where sentences
    follow each other without a space, as in Chinese, a space comes after a translation that does not end in Chinese or
    Japanese. Not so between ASCII characters, which may be parts of a name or of code: sentencex splits "ASP.NET".

    Args:
        pieces: as `split_sentences` gives them.
        translations: one for each sentence, in order.

    Example:
        >>> join_sentences(["\t", "A man.", "\n\n", "A dog.", ""], ["Ein Mann.", "Ein Hund."])
        '\tEin Mann.\n\nEin Hund.'
        >>> join_sentences(["", "你好。", "", "再见。", ""], ["Hello.", "Goodbye."])
        'Hello. Goodbye.'
    """
    translations = [" ".join(translation.splitlines()) for translation in translations]
    joined = [pieces[0]]
    for translation, behind in zip(translations, behind_translations(pieces, translations), strict=True):
        joined += [translation, behind]
    return "".join(joined)


def behind_translations(pieces: Sequence[str], translations: Sequence[str]) -> list[str]:
    """What `join_sentences` puts behind each translation."""
    behind = []
    next_ones = [*pieces[3::2], ""]
    for sentence, after, following, translation in zip(
        pieces[1::2], pieces[2::2], next_ones[: len(pieces) // 2], translations, strict=True
    ):
        adjoin = following and not after
        ended = adjoin and (_needs_no_blank(sentence) or not (sentence[-1] + following[0]).isascii())
        behind.append(" " if ended and not _needs_no_blank(translation) else after)
    return behind


def translate_paragraphs(
    translate: Callable[[list[str]], Iterable[Translation]],
    texts: Sequence[str],
    language: str | None = None,
    glossary: Glossary | None = None,
    tags: Collection[str] = (),
) -> Iterator[Paragraph]:
    """Translates texts of any number of sentences; the sentences of all of them are translated together.

    Args:
        translate: gives the translations of a list of sentences, in order, as `translate_texts` does.
        texts: any number of texts.
        language: the code of their language; see `split_sentences`.
        glossary: the terms that `translate` marks; see `split_sentences`.
        tags: the language tags that the model knows; see `split_text`.

    Returns:
        The translated texts, in order.

    Raises:
        UserError: `texts` is one string.

    Example:
        >>> from tf_transformer.translation.texts import Translation
        >>> def shout(sentences):
        ...     return [Translation(sentence.upper(), 0.0, False) for sentence in sentences]
        >>> [paragraph.text for paragraph in translate_paragraphs(shout, ["One.  Two.", ""])]
        ['ONE.  TWO.', '']
    """
    check_is_list(texts, "texts")
    split_texts = [split_text(text, language, glossary, tags) for text in texts]
    translations = iter(translate([sentence for split in split_texts for sentence in split.read]))
    for pieces, *_ in split_texts:
        own = list(islice(translations, len(pieces) // 2))
        yield Paragraph(join_sentences(pieces, (translation.text for translation in own)), list(pieces[1::2]), own)


def _needs_no_blank(text: str) -> bool:
    """Whether what follows a text needs no space before it: the text ends as in a script that writes none."""
    # Backwards: some ends are marks too, and to try the marks behind each of a row takes the square of its length.
    marks = _MARKS.match(text[::-1]).end()
    return _END_WITHOUT_BLANK.search(text, max(len(text) - marks - 1, 0)) is not None


def _leading_tags(text: str, tags: Collection[str]) -> tuple[int, str, int]:
    """Where a text's leading tags begin, behind spaces; the tags; and where the spaces behind them end."""
    start = end = _BLANKS.match(text).end()
    leading = ""
    while tag := tag_at(text, end, tags):
        leading = text[start : end + len(tag)]
        end = _BLANKS.match(text, end + len(tag)).end()
    return start, leading, end


def _parted(text: str) -> tuple[str, str, str]:
    """A text's spaces at the beginning, what is between, and its spaces at the end."""
    start = _BLANKS.match(text).end()
    # Backwards: to look for the end of each run of spaces inside takes the square of its length.
    end = len(text) - _BLANKS.match(text[start:][::-1]).end()
    return text[:start], text[start:end], text[end:]


def _ends(line: str, language: str) -> list[int]:
    """Where the sentences of a line end."""
    from sentencex import segment

    # Character for character, so that the lengths of the pieces hold for the line itself.
    plain = _LONE_SURROGATE.sub("x", _BLANKS_BUT_SPACE.sub(" ", line))
    plain = _MARK.sub(lambda mark: "x" * len(mark[0]), plain)
    ends: list[int] = []
    start = 0
    while start < len(plain):
        at_end = start + _WINDOW >= len(plain)
        lengths = map(len, segment(language, plain[start : start + _WINDOW]))
        *inner, last = list(accumulate(lengths, initial=start))[1:]
        ends += [*inner, last] if at_end else inner
        # The last sentence of a window may go on beyond it.
        start = inner[-1] if inner and not at_end else last
    if _WITH_ORDINALS.fullmatch(language):
        starts = [0, *ends]
        ends = [
            end
            for start, end in zip(starts, ends, strict=False)
            if end == len(plain) or not _ORDINAL.search(plain, start, end)
        ]
    return ends
