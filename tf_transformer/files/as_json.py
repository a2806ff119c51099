"""JSON and text that can be written as UTF-8, whatever names of files are in it."""

from __future__ import annotations

import json
from typing import Any


def as_json(content: Any, allow_nan: bool = True) -> str:
    r"""JSON with indented lines. Of a path that is not UTF-8, the bytes that are not come back when it is read.

    Example:
        >>> print(as_json({"größe": "T\udcfcr"}))
        {
          "größe": "T\udcfcr"
        }
        >>> json.loads(as_json("T\udcfcr")) == "T\udcfcr"
        True
    """
    return escaped(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=allow_nan))


def escaped(text: str) -> str:
    r"""A text with `\udcfc` in place of the byte FC, and so on: Python has such bytes of paths as half characters."""
    return text.encode("utf-8", "backslashreplace").decode()
