"""Shows how many pairs have been prepared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text


class _Pairs(ProgressColumn):
    """How many pairs, and how many a second."""

    def render(self, task: Task) -> Text:
        speed = f", {task.speed:,.0f} a second" if task.speed else ""
        return Text(f"{int(task.completed):,} pairs{speed}")


@contextmanager
def pairs_bar(what: str, console: Console) -> Iterator[Callable[[int], None]]:
    """Shows a bar, on a terminal; gives a function to call with the number of pairs that have been done.

    How many there will be is known only at their end.

    Example:
        >>> with pairs_bar("preparing", Console()) as advance:
        ...     advance(20_000)
    """
    columns = TextColumn("{task.description}"), BarColumn(), _Pairs(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda pairs: progress.update(task, advance=pairs)
