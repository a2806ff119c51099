"""Prints results as JSON, for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tf_transformer.files.as_json import as_json


def print_json(content: Any) -> None:
    """Prints it with indented lines. Infinite numbers and NaN, which JSON lacks, become `null`.

    Example:
        >>> print_json({"perplexity": float("inf")})
        {
          "perplexity": null
        }
    """
    print(as_json(_finite(content), allow_nan=False))


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
