"""Texts of a request: split into sentences, translated, joined again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tf_transformer.server.models import ServedModel
from tf_transformer.server.requests import Refusal


class Translated(NamedTuple):
    """A text's translation and its alternatives, best first."""

    text: str
    others: list[str]


async def translate_texts(model: ServedModel, texts: Sequence[str], html: bool, alternatives: int) -> list[Translated]:
    """Translates texts of any length.

    Args:
        model: what translates.
        texts: plain texts, or with `html` pieces of HTML.
        html: whether marks are kept and only what stands between them is translated.
        alternatives: how many others are wanted for each.

    Raises:
        Refusal: a sentence is longer than the model takes.
    """
    options = {"num_hypotheses": alternatives + 1} if alternatives else {}
    results = await model.translate(texts, **options)
    if any(result.truncated for result in results):
        raise Refusal(400, "a sentence is longer than the model takes; split it")
    return [Translated(result.text, [text for text, _ in result.others]) for result in results]
