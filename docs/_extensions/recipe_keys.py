"""Documents the keys of a recipe as tables, generated from the models that validate them."""

from __future__ import annotations

from typing import Any

from tf_transformer.recipe.refusals import shown
from tf_transformer.recipe.settings import SECTIONS, TOP_KEYS, Recipe

TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
# JSON Schema's names of limits, and the words for them.
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
}


def as_markdown() -> str:
    """A table for the keys outside of any section, and one for each section."""
    schema = Recipe.model_json_schema()
    parts = [_table({key: schema["properties"][key] for key in TOP_KEYS}, "")]
    for section, model in SECTIONS.items():
        purpose = (model.__doc__ or "").strip().splitlines()[0]
        parts += [f"## {section}", purpose, _table(schema["$defs"][model.__name__]["properties"], f"{section}.")]
    return "\n\n".join(parts)


def _table(properties: dict[str, dict[str, Any]], prefix: str) -> str:
    rows = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    for key, about in properties.items():
        default = f"`{shown(about['default'])}`" if "default" in about else "required"
        rows.append(f"| `{prefix}{key}` | {_value(about)} | {default} | {about['description']} |")
    return "\n".join(rows)


def _value(about: dict[str, Any]) -> str:
    """The allowed values of a key, in words."""
    if "anyOf" in about:
        return " or ".join(_value(each) for each in about["anyOf"])
    if "enum" in about:
        return ", ".join(f"`{each}`" for each in about["enum"])
    if about["type"] == "null":
        return "`null`"
    if about["type"] == "object":
        return "a mapping"
    if "prefixItems" in about:
        return f"a list of {len(about['prefixItems'])} whole numbers"
    if about["type"] == "array":
        return "a list of sources" if "$ref" in about["items"] else "a list of texts"
    limits = [words.format(about[limit]) for limit, words in LIMITS.items() if limit in about]
    return ", ".join([TYPES[about["type"]], *limits])
