"""Explains what is wrong with a recipe, in one line."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from tf_transformer.errors import UserError
from tf_transformer.recipe.data_settings import NoiseSettings, SourceSettings
from tf_transformer.recipe.refusals import shown
from tf_transformer.recipe.settings import KEYS, SECTIONS, Recipe


def explain(error: ValidationError, where: str, sources: dict[str, str]) -> UserError:
    """Puts what pydantic found into one line.

    Args:
        error: what it found.
        where: the recipe's path.
        sources: where each setting was given, by dotted key, for the start of the line.
    """
    # A mistyped key comes first: often it is also the reason why another is missing.
    first, *others = sorted(error.errors(), key=lambda mistake: mistake["type"] not in _UNKNOWN)
    parts = [*first["loc"], first["ctx"]["key"]] if first["type"] == "refused" else first["loc"]
    key = ".".join(str(part) for part in parts)
    problem = unknown_key(key) if first["type"] in _UNKNOWN else f"{key} {_problem(first, key)}"
    more = f" (and {len(others)} more)" if others else ""
    setting = ".".join(key.split(".")[:2])  # of a source of several, data.train
    return recipe_error(sources.get(setting, where), problem + more)


def unknown_key(key: str) -> str:
    """Says that there is no such key, with the nearest one or else all of its section."""
    section, _, leaf = key.rpartition(".")
    fields = list(_fields(section)) + (["extends"] if not section else [])
    start = f"{section}." if section in SECTIONS or section.startswith(_SOURCE) else ""

    def like(share: float) -> list[str]:
        return [start + name for name in difflib.get_close_matches(leaf, fields, n=1, cutoff=share)]

    # A key that is there under another section is meant rather than one here that is somewhat like it.
    nearest = like(0.8) or [known for known in KEYS if known.rpartition(".")[2] == leaf] or like(0.55)
    advice = f"did you mean {nearest[0]}?" if nearest else f"choose from {', '.join(fields)}"
    return f"unknown key {key}; {advice}"


def _fields(section: str) -> dict[str, FieldInfo]:
    """The keys of a section, or of one source of several, `data.train.0`, or of its noise, `data.train.0.noise`."""
    if section.startswith(_SOURCE):
        return (NoiseSettings if section.endswith(".noise") else SourceSettings).model_fields
    return SECTIONS.get(section, Recipe).model_fields


def recipe_error(where: str, problem: str) -> UserError:
    """Makes the one line, whatever a file's name or a value may hold."""
    return UserError("".join(c if c.isprintable() else " " for c in f"{where}: {problem}"))


_SOURCE = "data.train."

_UNKNOWN = ("extra_forbidden", "invalid_key")

# What is allowed, where pydantic's own words are not plain enough.
_ALLOWED = {
    "bool_type": "it must be true or false",
    "float_type": "it must be a number, with no quotes and with a point before any exponent (1.0e-4)",
    "int_type": "it must be a whole number, with no point and no quotes",
    "model_type": "it must be a section, with its keys indented under it",
    "string_pattern_mismatch": "it must be letters, digits, _, - and single dots between, to name a folder",
    "string_too_short": "it must not be empty",
    "string_type": "it must be text; put it in quotes",
    "tuple_type": "it must be a list, in brackets: [one, two]",
}


def _problem(mistake: Any, key: str) -> str:
    section, _, leaf = key.rpartition(".")
    if mistake["type"] == "refused":
        return mistake["msg"]
    if mistake["type"] == "missing":
        return f"is missing; it sets {_fields(section)[leaf].description}"
    in_pydantics_words = mistake["msg"].replace("Input should be", "it must be")
    return f"is {shown(mistake['input'])}; {_ALLOWED.get(mistake['type'], in_pydantics_words)}"
