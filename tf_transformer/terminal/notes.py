"""What a command tells beside its output."""

from __future__ import annotations

from rich.console import Console

notes = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
