"""Where a training goes on from: its own run, or a state of another."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from tf_transformer.errors import UserError
from tf_transformer.recipe import Recipe, load_recipe
from tf_transformer.run_directory import RunDirectory
from tf_transformer.training.state import is_whole, saved_states

START = "start.json"  # beside the states

# What makes the variables and the ids that a state holds.
SHAPES = ("model.", "tokenizer.")


def check_same(recipe: Recipe, run: RunDirectory) -> None:
    """Raises a UserError where a run that would go on was begun with another recipe."""
    if not run.recipe.is_file():  # broken off before it was written
        return
    other = _differences(recipe, load_recipe(run.recipe))
    if other:
        raise UserError(
            f"{run.path}: a training that was broken off lies here, which differs in {', '.join(other)}; give its own "
            "recipe and settings to go on with it, or another folder with --run-dir"
        )


def save_start(corpus: dict[str, str], devices: int, run: RunDirectory) -> None:
    """Writes down which pairs, and on how many devices, a training began with, for `check_same_start`."""
    (run.training_state / START).write_text(json.dumps({"devices": devices, "corpus": corpus}), encoding="utf-8")


def check_same_start(corpus: dict[str, str], devices: int, run: RunDirectory) -> None:
    """Raises a UserError where a training that would go on was begun with other pairs, or on more or fewer devices.

    Args:
        corpus: a fingerprint for each split.
        devices: how many share a batch, which decides how many rows it has.
        run: where the training was broken off.
    """
    file = run.training_state / START
    begin_anew = f"begin a new one from its state with --resume {run.path} and another --run-dir"
    try:
        start = json.loads(file.read_bytes())
        pairs = {split: start["corpus"][split] for split in corpus}
        devices_before = start["devices"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{file}: missing or damaged, so that nothing tells whether this training goes on with what it began with; "
            f"{begin_anew}"
        ) from None
    for split, now in corpus.items():
        if pairs[split] != now:
            raise UserError(
                f"{run.path}: the training that was broken off here had other pairs in data.{split} ({pairs[split]}; "
                f"now {now}); put those back to go on with it, or give another folder with --run-dir"
            )
    if devices_before != devices:
        raise UserError(
            f"{run.path}: the training that was broken off here had {devices_before} device(s), here are {devices}, "
            f"with which its batches would be others; go on with as many, or {begin_anew}"
        )


def find_state(path: str | os.PathLike, recipe: Recipe) -> Path:
    """Finds the state that another run's training begins from.

    Args:
        path: a saved state, `RUN/training_state/step-...`, or a run's folder, whose newest state is taken.
        recipe: that of the training that begins; its model and its tokenizer must be those of the state.

    Raises:
        UserError: there is no state, or one of another model.
    """
    path = Path(path)
    states = [path] if path.parent.name == "training_state" else saved_states(RunDirectory(path).training_state)
    if not states or not states[-1].is_dir():
        raise UserError(
            f"--resume {path}: no state of a training is here; give a run's folder whose training has not ended, or "
            "one of RUN/training_state/step-*; or auto or never"
        )
    if not is_whole(states[-1]):
        raise UserError(f"--resume {states[-1]}: damaged; give another state, or the folder of another run")
    origin = run_of(states[-1])
    theirs = load_recipe(RunDirectory.open(origin.path).recipe)
    other = [key for key in _differences(recipe, theirs) if key.startswith(SHAPES)]
    # What an optimizer's variables are depends on these; their other values may differ.
    ours, before = recipe.training, theirs.training
    if (ours.ema is None) != (before.ema is None):
        other.append("training.ema")
    if (ours.precision == "mixed_float16") != (before.precision == "mixed_float16"):
        other.append("training.precision")
    if other:
        raise UserError(f"--resume {path}: that run differs in {', '.join(other)}; give this one the same")
    return states[-1]


def run_of(state: Path) -> RunDirectory:
    """The run that a state was saved by."""
    return RunDirectory(state.parents[1])


def copy_state(state: Path, run: RunDirectory) -> None:
    """Gives a new run the state, and of its run's checkpoints those that had been saved by then."""
    shutil.copytree(state, run.training_state / state.name)
    for checkpoint in run_of(state).step_checkpoints():
        if checkpoint.stem <= state.name:  # both are called by their step
            shutil.copy2(checkpoint, run.checkpoints)


def _differences(recipe: Recipe, other: Recipe) -> list[str]:
    """The keys of the settings that two recipes differ in."""
    ours, theirs = recipe.flat(), other.flat()
    return [key for key in ours if theirs[key] != ours[key]]
