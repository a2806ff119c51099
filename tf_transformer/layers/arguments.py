"""What the layers ask of their arguments."""

from __future__ import annotations

from typing import Any


def check_sizes(**sizes: Any) -> None:
    """Refuses sizes that are not positive integers."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}")


def check_rates(**rates: float) -> None:
    """Refuses rates of dropout that drop less than nothing, or everything."""
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise ValueError(f"{name} must be in [0, 1), got {rate!r}")
