"""What the layers ask of their arguments."""

from __future__ import annotations

from typing import Any


def check_sizes(**sizes: Any) -> None:
    """Refuses sizes that are not positive integers."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}")


def check_dropout_rate(dropout_rate: float) -> None:
    """Refuses a rate that drops less than nothing, or everything."""
    if not 0 <= dropout_rate < 1:
        raise ValueError(f"dropout_rate must be in [0, 1), got {dropout_rate!r}")
