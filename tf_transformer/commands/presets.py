"""The command `presets`: list the paper's configurations."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

from rich.console import Console
from rich.table import Column, Table

from tf_transformer.commands.app import app
from tf_transformer.commands.options import JSON_OPTION
from tf_transformer.terminal.json_output import print_json
from tf_transformer.terminal.notes import notes


@app.command()
def presets(as_json: Annotated[bool, JSON_OPTION] = False) -> None:
    """Lists the paper's configurations with their exact sizes and the paper's own figures."""
    from tf_transformer.models.presets import PRESETS

    if as_json:
        rows = [{**dataclasses.asdict(preset), "parameters": preset.parameters} for preset in PRESETS.values()]
        print_json(rows)
        return
    ours = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "dropout", "smoothing", "steps", "parameters")
    table = Table("preset", *(Column(name, justify="right") for name in (*ours, "paper", "PPL", "BLEU")), box=None)
    for name, preset in PRESETS.items():
        model = preset.model
        width = model["d_model"] // model["num_heads"]
        sizes = [model["num_layers"], model["d_model"], model["dff"], model["num_heads"]]
        widths = [model["key_dim"] or width, model["value_dim"] or width]
        training = [model["dropout_rate"], preset.label_smoothing, f"{preset.steps // 1000}K"]
        paper = [f"{preset.paper_millions} M" if preset.paper_millions else "", f"{preset.perplexity:.2f}", preset.bleu]
        table.add_row(name, *map(str, [*sizes, *widths, *training, f"{preset.parameters:,}", *paper]))
    Console(width=None if sys.stdout and sys.stdout.isatty() else 120).print(table)
    notes.print(
        "The last three columns are the paper's figures: parameters (rounded, and up to 4 M off the exact number for\n"
        "its vocabulary of 37,000), perplexity per subword, and BLEU on newstest2013, English to German."
    )
