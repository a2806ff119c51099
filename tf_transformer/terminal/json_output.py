"""Prints results as JSON, for programs."""

from __future__ import annotations

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
    print(as_json(content))
