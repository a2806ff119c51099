"""JSON and text that can be written as UTF-8, whatever names of files are in it; and reading JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def as_json(content: Any) -> str:
    r"""JSON with indented lines, in which infinite numbers and NaN are `null`.

    Of a path that is not UTF-8, the bytes that are not come back when it is read.

    Example:
        >>> print(as_json({"größe": "T\udcfcr"}))
        {
          "größe": "T\udcfcr"
        }
        >>> json.loads(as_json("T\udcfcr")) == "T\udcfcr"
        True
    """
    return escaped(json.dumps(finite(content), indent=2, ensure_ascii=False, allow_nan=False))


def finite(content: Any) -> Any:
    """The content with None in place of infinite numbers and NaN, which JSON lacks.

    Example:
        >>> finite({"perplexity": float("inf"), "counts": (1, 2)})
        {'perplexity': None, 'counts': [1, 2]}
    """
    if isinstance(content, Mapping):
        return {name: finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def escaped(text: str) -> str:
    r"""A text with `\udcfc` in place of the byte FC, and so on: Python has such bytes of paths as half characters."""
    return text.encode("utf-8", "backslashreplace").decode()


def read_json(data: str | bytes) -> Any:
    """What JSON holds.

    Raises:
        ValueError: it is no JSON, or nested so deeply that Python can't read it.

    Example:
        >>> read_json(b'{"a": [1]}')
        {'a': [1]}
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if the file is missing or damaged, or holds something else.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "numbers.json"
        >>> _ = path.write_text('{"one": 1}')
        >>> read_object(path), read_object(path.with_name("none.json"))
        ({'one': 1}, {})
    """
    try:
        content = read_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
