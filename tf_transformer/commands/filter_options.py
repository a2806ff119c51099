"""The options of the filters in `data/text_filters.py`, and what is printed of them; for several commands."""

from __future__ import annotations

from typing import Any

import typer

from tf_transformer.terminal.json_output import print_json

UNIT_OPTION = typer.Option(
    metavar="words|characters",
    help="Unit of lengths and repetitions: words (separated by spaces) or characters.",
)
FEWEST_OPTION = typer.Option(min=1, help="Drop pairs with fewer words (or characters) on a side.")
MOST_OPTION = typer.Option(min=1, help="Drop pairs with more words (or characters) on a side.")
RATIO_OPTION = typer.Option(min=1, help="Drop pairs with a side more than this many times as long as the other.")
OVERLAP_OPTION = typer.Option(
    min=0,
    max=1,
    help="Drop copies: pairs whose sides share more than this fraction of the longer side's words; 1 keeps them.",
)
REPEATS_OPTION = typer.Option(
    min=1,
    help="Drop pairs in which up to four words (or characters) occur more than this many times in a row.",
)
SOURCE_SCRIPT_OPTION = typer.Option(
    metavar="SCRIPT",
    help="Script of the source, such as Latin, Cyrillic or Han+Hiragana+Katakana; others are dropped.",
)
TARGET_SCRIPT_OPTION = typer.Option(metavar="SCRIPT", help="Script of the target.")
SCRIPT_SHARE_OPTION = typer.Option(
    min=0, max=1, help="Smallest fraction of a side's letters that must be in its script."
)
DUPLICATES_OPTION = typer.Option("--duplicates", help="Keep duplicate pairs.")


def show_filtered(found: dict[str, Any], as_json: bool) -> None:
    """Prints how many pairs were kept, and how many were dropped for each reason; as JSON all that was found."""
    from tf_transformer.data.text_filters import REASONS

    if as_json:
        print_json(found)
        return
    for reason, count in found["dropped"].items():
        print(f"{count:>12,} {reason:15} {REASONS[reason]}")
    print(f"{found['kept']:>12,} kept of {found['pairs']:,} ({found['kept'] / found['pairs']:.1%})")
