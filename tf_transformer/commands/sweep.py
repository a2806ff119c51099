"""The command `sweep`: train a recipe with several settings and seeds, and compare the results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from tf_transformer.commands.app import app
from tf_transformer.commands.options import JSON_OPTION
from tf_transformer.files.whole import written_whole
from tf_transformer.terminal.ctrl_c import sigterm_preempts
from tf_transformer.terminal.json_output import print_json
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.process import quiet_tensorflow
from tf_transformer.training.freed_memory import keep_freed_memory

if TYPE_CHECKING:
    from tf_transformer.sweep.results import Row, Scores

SWEEP_SET_OPTION = typer.Option(
    "--set", help="Replace a setting in all runs: --set data.root=FOLDER. Repeatable.", metavar="KEY=VALUE"
)


@app.command()
@sigterm_preempts()
def sweep(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="SWEEP", help="Sweep to run: a YAML file such as train/sweeps/table3.yaml.", show_default=False
        ),
    ],
    overrides: Annotated[list[str] | None, SWEEP_SET_OPTION] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option("--run-dir", help="Folder to write the runs to.", show_default="runs/NAME, the sweep's name"),
    ] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Trains a recipe with several settings and seeds, and compares the results.

    If it is interrupted, the same command resumes it.
    """
    from tf_transformer.sweep.results import PICTURE, TABLE, as_csv, check_results, compare
    from tf_transformer.sweep.settings import load_sweep

    loaded, runs = load_sweep(file, overrides or [], run_dir)
    folder = runs[0].path.parent
    check_results(folder, list(loaded.rows))  # told now, not after hours of training
    keep_freed_memory()
    with quiet_tensorflow():
        from tf_transformer.sweep.picture import plot_rows
        from tf_transformer.sweep.running import run_sweep

    def write_table(scores: Scores) -> list[Row]:
        rows = compare(scores, list(loaded.rows))
        with written_whole(folder / TABLE, "the table") as partial:
            partial.write_text(as_csv(rows), encoding="utf-8")
        return rows

    rows = write_table(run_sweep(runs, notes.print, write_table))
    with written_whole(folder / PICTURE, "the plot") as partial:
        plot_rows(rows, partial)
    if as_json:
        print_json([row._asdict() for row in rows])
    else:
        for figure in dict.fromkeys(row.figure for row in rows):
            _show([row for row in rows if row.figure == figure])
    notes.print(f"table: {folder / TABLE}, plot: {folder / PICTURE}; tensorboard --logdir {folder}")


def _show(rows: list[Row]) -> None:
    from tf_transformer.sweep.results import digits_of

    figure = rows[0].figure
    digits = digits_of(figure)

    def number(value: float | None, sign: str = "") -> str:
        return "" if value is None else f"{value:{sign}.{digits}f}"

    columns = {
        "seeds": [str(len(row.values)) for row in rows],
        "mean": [number(row.mean) for row in rows],
        "deviation": [number(row.deviation) for row in rows],
        "difference": [number(row.difference, "+") for row in rows],
        "its deviation": [number(row.difference_deviation) for row in rows],
    }
    told = {name: cells for name, cells in columns.items() if any(cells)}  # of one seed there are no deviations
    table = Table(figure, *(Column(name, justify="right") for name in told), box=None)
    for row, *cells in zip((row.row for row in rows), *told.values(), strict=True):
        table.add_row(row, *cells)
    Console(width=100).print(table)
