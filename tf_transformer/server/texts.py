"""Texts of a request: split into sentences, which are translated, and joined again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from tf_transformer.server.batching import TooMany
from tf_transformer.server.markup import escaped, html_parts, in_one_line, is_inline, unescaped, unescaped_beside_tags
from tf_transformer.server.models import ServedModel
from tf_transformer.server.requests import Refusal
from tf_transformer.server.versions import Version
from tf_transformer.translation.paragraphs import join_sentences, split_text
from tf_transformer.translation.texts import Translation

T = TypeVar("T")

# To split or join so many takes about a millisecond; all other requests would wait for more.
_CHARACTERS_AT_ONCE = 4_000


class _Part(NamedTuple):
    """A tag as it is, or what lies between two tags: sentences, and what stands between them.

    `read` is what the model reads of each sentence. `own` is the markup in them, which comes out as it is: tags inside
    of a sentence, and entities.
    """

    is_tag: bool
    pieces: list[str]
    read: Sequence[str] = ()
    own: frozenset[str] = frozenset()


class Translated(NamedTuple):
    """A text's translation, and other translations, best first."""

    text: str
    others: list[str]


async def translate_documents(
    model: ServedModel,
    version: Version,
    texts: Sequence[str],
    markup: bool = False,
    alternatives: int = 0,
    protect: bool = False,
) -> list[Translated]:
    """Translates texts of any length, the sentences of all of them together.

    Args:
        model: what translates.
        version: its version that does.
        texts: plain texts, or with `markup` pieces of HTML, whose tags stay where they are.
        markup: whether they are HTML.
        alternatives: how many other translations are wanted for each, of which there may be fewer.
        protect: whether links, placeholders and the like come out as they are. Of HTML, tags inside of a sentence then
            do not part it.

    Raises:
        Refusal: a sentence is longer than the model takes.
        TooMany: they have more sentences than may wait.
    """
    splitting = texts, version.languages[0], version.language_tags, markup, protect, model.batcher.limits.queue
    documents = await without_blocking(sum(map(len, texts)), _documents, *splitting)
    sentences = [sentence for document in documents for part in document for sentence in part.read]
    options: dict[str, Any] = {"num_hypotheses": alternatives + 1} if alternatives else {}
    if protect:
        options["protect"] = True
    results = iter(await model.translate(version, sentences, **options) if sentences else [])
    characters = (alternatives + 1) * sum(map(len, texts))
    return await without_blocking(characters, _joined, documents, results, markup, alternatives)


async def without_blocking(characters: int, work: Callable[..., T], *arguments: Any) -> T:
    """Calls what splits, joins or writes so many characters, in a thread if other requests would wait for it.

    Args:
        characters: of all texts, or bytes of arrays.
        work: what is called.
        *arguments: what with.
    """
    if characters <= _CHARACTERS_AT_ONCE:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)


def _documents(
    texts: Sequence[str], language: str, tags: Sequence[str], markup: bool, protect: bool, most: int
) -> list[list[_Part]]:
    """Splits texts, as far as they have no more sentences than may wait."""
    documents: list[list[_Part]] = []
    sentences = 0
    for text in texts:
        documents.append([])
        for part in _parts(text, language, tags, markup, protect):
            documents[-1].append(part)
            sentences += len(part.pieces) // 2
            if sentences > most:
                raise TooMany
    return documents


def _parts(text: str, language: str, tags: Sequence[str], markup: bool, protect: bool) -> Iterator[_Part]:
    if not markup:
        split = split_text(text, language, tags=tags)
        yield _Part(False, split.pieces, split.read)
        return
    joined, own, leading = "", set(), ""
    for is_tag, part in chain(html_parts(text), [(True, "")]):
        if not is_tag:
            plain, entities = unescaped_beside_tags(part) if protect else (unescaped(part), set())
            joined += plain
            own |= entities
        elif protect and is_inline(part):  # it parts no sentence
            tag = in_one_line(part)
            joined += tag
            own.add(tag)
        else:
            if joined:
                split = split_text(joined, language, tags=tags, begun=leading)
                leading = split.tags
                yield _Part(False, split.pieces, split.read, frozenset(own))
            joined, own = "", set()
            if part:
                yield _Part(True, [part])


def _joined(
    documents: list[list[_Part]], results: Iterator[Translation], markup: bool, alternatives: int
) -> list[Translated]:
    return [_translated(document, results, markup, alternatives) for document in documents]


def _translated(document: list[_Part], results: Iterator[Translation], markup: bool, alternatives: int) -> Translated:
    """Joins a document's translations; the n-th alternative has each sentence's n-th, or its last."""
    chosen = []
    for part in document:
        chosen.append([next(results) for _ in part.pieces[1::2]])
        for sentence, result in zip(part.pieces[1::2], chosen[-1], strict=True):
            if result.truncated:
                raise Refusal(400, f"a sentence of {len(sentence):,} characters is too long for the model")

    def joined(rank: int) -> str:
        parts = []
        for part, translations in zip(document, chosen, strict=True):
            text = join_sentences(part.pieces, [_ranked(translation, rank) for translation in translations])
            parts.append(escaped(text, part.own) if markup and not part.is_tag else text)
        return "".join(parts)

    best = joined(0)
    others = dict.fromkeys(joined(rank) for rank in range(1, alternatives + 1))
    others.pop(best, None)
    return Translated(best, list(others))


def _ranked(translation: Translation, rank: int) -> str:
    texts = [translation.text, *(text for text, _ in translation.others)]
    return texts[min(rank, len(texts) - 1)]
