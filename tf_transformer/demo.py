"""The demo: trains, scores and exports a small model, and translates with the export in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tf_transformer.data.demo import DemoSource
from tf_transformer.errors import UserError, WorkerLost
from tf_transformer.evaluation.table import shown
from tf_transformer.experiment import export_run, train
from tf_transformer.experiment.resuming import check_same
from tf_transformer.inspection.pictures import plot_inspection
from tf_transformer.inspection.sentence import inspect, load_attend
from tf_transformer.recipe import Recipe
from tf_transformer.runs.directory import RunDirectory

# What a user types to translate with the export: nothing of this package is needed.
# The loaded object keeps its variables alive, so it must have a name.
LOADING = """\
import tensorflow as tf, tensorflow_text
translator = tf.saved_model.load({path!r})
"""
_TRANSLATING = """
import json, sys
texts = json.load(sys.stdin)
output = translator.translate(tf.constant(texts))
json.dump([text.decode() for text in output["translation"].numpy()], sys.stdout)
"""
SAMPLES = 3


def run_demo(recipe: Recipe, runs: Path, savedmodels: Path, console: Console) -> RunDirectory:
    """Runs the demo from its recipe.

    An earlier demo is left as it is: the run then goes to `demo-2` and so on, the export to the next version. One whose
    training was interrupted is resumed.

    Args:
        recipe: `train/recipes/demo.yaml`.
        runs: the folder of runs.
        savedmodels: the folder of exports.
        console: where it tells what it does.

    Returns:
        The run directory.
    """
    began = time.perf_counter()
    run = train(recipe, _folder_to_train_in(recipe, runs / recipe.name), console)
    console.print(f"exporting {run.best_checkpoint()}")
    exported = export_run(run, savedmodels / recipe.name)

    console.print(f"translating with {exported} in a new process")
    samples = _samples()
    translations = translate_in_new_process(exported, [source for source, _ in samples])
    (inspection,) = inspect(load_attend(exported), [samples[0][0]])
    picture = plot_inspection(inspection, run.path / "attention.png")

    scores = json.loads(run.scores.read_text(encoding="utf-8"))
    _show_figures(scores, time.perf_counter() - began, console)
    console.print("\nTranslated by the SavedModel in a new process:\n")
    for (source, reference), translation in zip(samples, translations, strict=True):
        console.print(f"  {source}\n  {translation}")
        if translation != reference:
            console.print(f"  (should be: {reference})")
        console.print()
    console.print(f"attention picture: {picture}")
    console.print(f"interactive attention: tensorboard --logdir {run.path}   (tab Attention)")
    console.print(f"SavedModel:        {exported}")
    console.print(f"server and page:   tf-transformer serve {exported.parent}")
    console.print("\nTo translate with it from Python, call translator.translate([...]):\n")
    console.print(LOADING.format(path=str(exported)))
    return run


def _show_figures(scores: Mapping[str, Any], seconds: float, console: Console) -> None:
    table = Table("held-out test sentences", "", box=None, header_style="bold")
    table.add_row("loss", shown(scores["loss"], 3))
    table.add_row("perplexity", f"{shown(scores['perplexity'], 3)} per token")
    table.add_row("BLEU", f"{scores['bleu']:.2f}")
    table.add_row("seconds", f"{seconds:.0f}, of which training {scores['training_seconds']:.0f}")
    console.print()
    console.print(table)
    console.print(f"signature of BLEU: {scores['signature']}", soft_wrap=True)  # in a cell it would be folded


def translate_in_new_process(exported: Path, texts: list[str]) -> list[str]:
    """Translates with a SavedModel in a process that imports only tensorflow and tensorflow_text."""
    process = subprocess.run(
        [sys.executable, "-c", LOADING.format(path=str(exported)) + _TRANSLATING],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        reason = (process.stderr.strip() or f"exit status {process.returncode}").splitlines()[-1]
        raise UserError(f"{exported}: the SavedModel does not translate in a new process ({reason}); export it again")
    return json.loads(process.stdout)


def _samples() -> list[tuple[str, str]]:
    """Test sentences of some length, whose word order moves."""
    return sorted(DemoSource("test"), key=lambda pair: len(pair[0]))[-SAMPLES:]


def _folder_to_train_in(recipe: Recipe, folder: Path) -> Path:
    """The first of `demo`, `demo-2` and so on that is free or holds this training, interrupted."""
    number = 1
    found = folder
    while found.exists():
        run = RunDirectory(found)
        if run.is_unfinished():
            # Not another recipe's, and not one that another process is training.
            with suppress(UserError, WorkerLost), run.locked():
                check_same(recipe, run)
                return found
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found
