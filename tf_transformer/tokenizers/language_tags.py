"""The language tags of multilingual models, such as `>>deu<<`, with which a text begins. Needs no TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from tf_transformer.files.as_json import read_json

MARIAN_SUFFIX = ".marian.json"  # how the name of the file ends that has the vocabulary of a MarianMT model

_TAG = re.compile("(?s)>>.*?<<")


def tags_in(vocabulary: Iterable[str]) -> list[str]:
    """The pieces of a vocabulary that are language tags; none of most models'."""
    return [piece for piece in vocabulary if _TAG.fullmatch(piece)]


def tag_at(text: str, place: int, tags: Collection[str]) -> str:
    """The tag that stands at a place of a text, empty if none does.

    Example:
        >>> tag_at(">>deu<< A dog.", 0, [">>deu<<"]), tag_at(">>x<< A dog.", 0, [">>deu<<"])
        ('>>deu<<', '')
    """
    found = _TAG.match(text, place)
    return found[0] if found and found[0] in tags else ""


def read_tags(folder: Path) -> list[str]:
    """The tags of the source language's tokenizer that was saved in a folder; none if it can't be read."""
    for side in ("source", "joint"):
        try:
            return tags_in(read_json((folder / f"{side}{MARIAN_SUFFIX}").read_bytes())["vocabulary"])
        except (OSError, ValueError, KeyError, TypeError):  # of another kind, or damaged, which is told on loading it
            continue
    return []
