"""How a setting is refused: its key, and its value as YAML writes it."""

from __future__ import annotations

from typing import Any, NoReturn

import yaml
from pydantic_core import PydanticCustomError


class _Dumper(yaml.Dumper):
    """Writes a tuple, which settings make of a list, as the list that it was."""


_Dumper.add_representer(tuple, yaml.Dumper.represent_list)


def refuse(key: str, problem: str) -> NoReturn:
    """Reports a mistake in `key`, a dotted name seen from the model that checks it."""
    raise PydanticCustomError("refused", "{problem}", {"key": key, "problem": problem})


def shown(value: Any) -> str:
    """Shows a value the way YAML writes it, cut where it is long."""
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=float("inf"))
    text = text.removesuffix("...\n").strip()
    return text if len(text) <= 80 else text[:77] + "..."
