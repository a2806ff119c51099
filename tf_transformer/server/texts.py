"""Texts of a request: split into sentences, which are translated, and joined again."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from tf_transformer.server.batching import TooMany
from tf_transformer.server.models import ServedModel
from tf_transformer.server.requests import Refusal
from tf_transformer.translation.paragraphs import join, split
from tf_transformer.translation.texts import Translation

T = TypeVar("T")

# As browsers read them: a quote opens a value only behind =, and > is part of a tag only in such a value. With `*+` a
# value that is never closed is not tried in other ways, which could take long.
_TAG = re.compile(r"""<[a-zA-Z/!?](?:[^>=]|=\s*(?:"[^"]*"|'[^']*'|[^\s>"'][^\s>]*|(?=>)))*+>""")
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)", re.DOTALL)
_INLINE = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|br|cite|code|data|del|dfn|em|font|i|img|ins|kbd|mark|q|s|samp|small|span|strong|sub|sup|time|u|var|"
    r"wbr)\b",
    re.IGNORECASE,
)
# What `html.unescape` takes for an entity.
_ENTITY = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)")
_ENTITY_OF_MARKUP = re.compile("&(?:lt|gt|amp);")
# What stands in these is no text.
_CLOSED = re.compile(r"<(script|style|textarea)\b", re.IGNORECASE)

# To split so many takes about a millisecond; all other requests would wait for more.
_CHARACTERS_AT_ONCE = 4_000


class _Part(NamedTuple):
    """A tag as it is, or what lies between two tags: sentences, and what stands between them.

    `own` is the markup in them, which comes out as it is: tags inside of a sentence, and entities.
    """

    is_tag: bool
    pieces: list[str]
    own: frozenset[str] = frozenset()


class Translated(NamedTuple):
    """A text's translation, and other translations, best first."""

    text: str
    others: list[str]


async def translate_texts(
    model: ServedModel, texts: Sequence[str], markup: bool = False, alternatives: int = 0, protect: bool = False
) -> list[Translated]:
    """Translates texts of any length, the sentences of all of them together.

    Args:
        model: what translates.
        texts: plain texts, or with `markup` pieces of HTML, whose tags stay where they are.
        markup: whether they are HTML.
        alternatives: how many other translations are wanted for each, of which there may be fewer.
        protect: whether links, placeholders and the like come out as they are. Of HTML, tags inside of a sentence then
            do not part it.

    Raises:
        Refusal: a sentence is longer than the model takes.
        TooMany: they have more sentences than may wait.
    """
    splitting = texts, model.version.languages[0], markup, protect, model.batcher.limits.queue
    documents = await without_blocking(sum(map(len, texts)), _documents, *splitting)
    sentences = [sentence for document in documents for part in document for sentence in part.pieces[1::2]]
    options: dict[str, Any] = {"num_hypotheses": alternatives + 1} if alternatives else {}
    if protect:
        options["protect"] = True
    results = iter(await model.translate(sentences, **options) if sentences else [])
    return [_translated(document, results, markup, alternatives) for document in documents]


async def without_blocking(characters: int, work: Callable[..., T], *arguments: Any) -> T:
    """Calls what splits so many characters, in a thread if other requests would wait for it.

    Args:
        characters: of all texts.
        work: what is called.
        *arguments: what with.
    """
    if characters <= _CHARACTERS_AT_ONCE:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)


def _documents(texts: Sequence[str], language: str, markup: bool, protect: bool, most: int) -> list[list[_Part]]:
    """Splits texts, as far as they have no more sentences than may wait."""
    documents: list[list[_Part]] = []
    sentences = 0
    for text in texts:
        documents.append([])
        for part in _parts(text, language, markup, protect):
            documents[-1].append(part)
            sentences += len(part.pieces) // 2
            if sentences > most:
                raise TooMany
    return documents


def _parts(text: str, language: str, markup: bool, protect: bool) -> Iterator[_Part]:
    if not markup:
        yield _Part(False, split(text, language))
        return
    joined, own = "", set()
    for is_tag, part in chain(html_parts(text), [(True, "")]):
        if not is_tag:
            plain = html.unescape(_ENTITY.sub(_kept, part) if protect else part)
            joined += plain
            own.update(_ENTITY_OF_MARKUP.findall(plain) if protect else ())
        elif protect and _INLINE.match(part):  # it parts no sentence
            joined += part
            own.add(part)
        else:
            if joined:
                yield _Part(False, split(joined, language), frozenset(own))
            joined, own = "", set()
            if part:
                yield _Part(True, [part])


def _kept(entity: re.Match) -> str:
    """Of an entity that stands for a character of markup what `html.unescape` makes `&lt;`, `&gt;` or `&amp;` of.

    It stays that where tags are part of a sentence: else <b> and &lt;b&gt; would look the same there.
    """
    plain = html.unescape(entity[0])
    return html.escape(html.escape(plain, quote=False), quote=False) if plain != entity[0] else entity[0]


def html_parts(text: str) -> Iterator[tuple[bool, str]]:
    """Splits HTML into tags and text, in order; comments, scripts and styles count as tags.

    Example:
        >>> list(html_parts("<p>A <b>dog</b>"))
        [(True, '<p>'), (False, 'A '), (True, '<b>'), (False, 'dog'), (True, '</b>')]
    """
    start = position = 0
    while (position := text.find("<", position)) >= 0:
        if not re.match(r"<[a-zA-Z/!?]", text[position : position + 2]):
            position += 1  # less than
            continue
        if position > start:
            yield False, text[start:position]
        end = _end_of_tag(text, position)
        yield True, text[position:end]
        start = position = end
    if start < len(text):
        yield False, text[start:]


def _end_of_tag(text: str, position: int) -> int:
    """Where a tag, a comment or an element without text ends; what is never closed goes on to the end of the text."""
    if text.startswith("<!--", position):
        comment = _COMMENT.match(text, position)
        return comment.end() if comment else len(text)
    tag = _TAG.match(text, position)
    if tag and (element := _CLOSED.match(text, position)):
        closing = re.compile(rf"</{element[1]}\s*>", re.IGNORECASE).search(text, tag.end())
        return closing.end() if closing else len(text)
    return tag.end() if tag else len(text)


def _translated(document: list[_Part], results: Iterator[Translation], markup: bool, alternatives: int) -> Translated:
    """Joins a document's translations; the n-th alternative has each sentence's n-th, or its last."""
    chosen = []
    for part in document:
        chosen.append([next(results) for _ in part.pieces[1::2]])
        for sentence, result in zip(part.pieces[1::2], chosen[-1], strict=True):
            if result.truncated:
                raise Refusal(400, f"a sentence of {len(sentence):,} characters is longer than the model takes")

    def joined(rank: int) -> str:
        parts = []
        for part, translations in zip(document, chosen, strict=True):
            text = join(part.pieces, [_ranked(translation, rank) for translation in translations])
            parts.append(_escaped(text, part.own) if markup and not part.is_tag else text)
        return "".join(parts)

    best = joined(0)
    others = dict.fromkeys(joined(rank) for rank in range(1, alternatives + 1))
    others.pop(best, None)
    return Translated(best, list(others))


def _escaped(text: str, own: Iterable[str]) -> str:
    """A translation as HTML, in which only what is the source's own is markup."""
    escaped = html.escape(text, quote=False)
    markup = {html.escape(each, quote=False): each for each in sorted(own, key=len, reverse=True)}
    if not markup:
        return escaped
    # All at once: what &amp;amp; has become must not be taken for the beginning of another entity.
    return re.sub("|".join(map(re.escape, markup)), lambda found: markup[found[0]], escaped)


def _ranked(translation: Translation, rank: int) -> str:
    texts = [translation.text, *(text for text, _ in translation.others)]
    return texts[min(rank, len(texts) - 1)]
