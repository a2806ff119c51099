"""Lines on a console that tells how a training goes on."""

from __future__ import annotations

from rich.console import Console


def tell(console: Console, line: str) -> None:
    """Prints a line as it is: a path or a text in it may look like Rich's markup, and no number is coloured."""
    console.print(line, highlight=False, markup=False)
