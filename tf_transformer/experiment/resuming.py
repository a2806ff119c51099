"""Resuming a training from its own run, or starting from the state of another."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tf_transformer.data.prepared.order import ORDER
from tf_transformer.errors import UserError, reason
from tf_transformer.files.as_json import read_object
from tf_transformer.files.whole import PARTIAL, folder_written_whole, written_whole
from tf_transformer.recipe import Recipe, load_recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.state import is_whole, saved_states, state_step

START = "start.json"  # beside the states

# What makes the variables and the ids that a state holds is in these sections, all but a few of their keys, and in
# `data.tags`.
SHAPES = ("model.", "tokenizer.", "data.tags")
SHAPELESS = ("model.preset", "model.dropout_rate", "model.attention_dropout_rate", "model.activation_dropout_rate")

# A training that goes on may have these otherwise: the place of its prepared data, and the sentences scored at once,
# where there was too little memory for them.
MAY_DIFFER = ("data.prepared", "evaluation.batch_size")


@dataclass(frozen=True)
class Beginning:
    """Where a training begins.

    Attributes:
        goes_on: whether it was broken off in its own folder, and goes on there.
        has_state: whether it goes on from a state there; it may have been broken off before its first.
        origin: the state of another run that is to be copied, since nothing or not all of it has been yet.
        origin_step: the steps that had been taken there, of a run that goes on too.
        given: the path that `origin` was found by.
        other_order: whether that run drew its batches in the order of another version, so that it would have had others
            from here on.
    """

    goes_on: bool
    has_state: bool
    origin: Path | None = None
    origin_step: int | None = None
    given: str | None = None
    other_order: bool = False


def find_beginning(recipe: Recipe, run: RunDirectory, resume: str | os.PathLike) -> Beginning:
    """Finds where a training begins; `resume` is that of `train`.

    Raises:
        UserError: the folder holds another run, or one that was begun with another recipe; or there is no such state.
    """
    from_another = resume not in ("auto", "never")
    given = _resolved(resume) if from_another else None
    goes_on, before = run.is_only_prepared(), None
    if run.is_unfinished():
        before = _read_start(run).get("origin")
        # The same command again, as whatever requeues jobs gives it, is to go on too.
        again = from_another and (_has_nothing(run) or bool(before and before["given"] == given))
        goes_on = goes_on or resume == "auto" or again
    if goes_on:
        check_same(recipe, run)
        if saved_states(run.training_state):  # the other run may be gone by now
            return Beginning(goes_on=True, has_state=True, origin_step=before["step"] if before else None)
        if before:
            given = before["given"]
    if from_another and not goes_on and run.path.resolve() in (Path(given), *Path(given).parents):
        raise UserError(f"--resume {resume} names this run itself; leave --resume out to resume it")
    origin = find_state(resume if from_another else given, recipe) if given else None
    if not goes_on:
        run.check_is_free()  # told now, not after the vocabulary is learned
    return Beginning(
        goes_on=goes_on,
        has_state=False,
        origin=origin,
        origin_step=state_step(origin) if origin else None,
        given=given,
        other_order=bool(origin) and _read_start(run_of(origin)).get("order") != ORDER,
    )


def _has_nothing(run: RunDirectory) -> bool:
    """Whether a training was broken off before it wrote anything down."""
    return not ((run.training_state / START).exists() or run.recipe.exists() or saved_states(run.training_state))


def check_same(recipe: Recipe, run: RunDirectory) -> None:
    """Raises a UserError where a run that would go on was begun with another recipe."""
    other = changed_since(recipe, run)
    if other:
        raise UserError(
            f"{run.path}: contains a training run that differs in {', '.join(other)}; to resume it, give its "
            "own recipe and settings; for a new run, give another folder with --run-dir"
        )


def changed_since(recipe: Recipe, run: RunDirectory) -> list[str]:
    """The keys of the settings that a run was begun with otherwise, but for those that it may."""
    if not run.recipe.is_file():  # broken off before it was written
        return []
    return [key for key in _differences(recipe, load_recipe(run.recipe)) if key not in MAY_DIFFER]


def save_start(corpus: dict[str, str], devices: int, beginning: Beginning, run: RunDirectory) -> None:
    """Writes down what a training begins with: which pairs, on how many devices, from which state of another run.

    To be called before recipe, tokenizer and states are written: from then on, the folder says what it is.
    """
    origin = {"given": beginning.given, "step": beginning.origin_step} if beginning.origin else None
    start = {"devices": devices, "corpus": corpus, "origin": origin, "order": ORDER}
    with written_whole(run.training_state / START, "what the training begins with") as partial:
        partial.write_text(json.dumps(start), encoding="utf-8")


def _read_start(run: RunDirectory) -> dict[str, Any]:
    """What `save_start` wrote; nothing where that is missing or damaged."""
    start = read_object(run.training_state / START)
    try:
        origin = start["origin"]
        sound = isinstance(start["devices"], int) and isinstance(start["corpus"], dict)
        sound = sound and (origin is None or {"given", "step"} <= origin.keys())
    except (KeyError, TypeError, AttributeError):
        return {}
    return start if sound else {}


def _resolved(path: str | os.PathLike) -> str:
    return str(Path(path).resolve())


def check_same_start(corpus: dict[str, str], corpus_of_also: dict[str, str], devices: int, run: RunDirectory) -> None:
    """Raises a UserError where a training that would go on was begun with other pairs, or on more or fewer devices.

    Args:
        corpus: a fingerprint for each split.
        corpus_of_also: one for each set of `evaluation.also`, which earlier versions did not write down.
        devices: how many share a batch, which decides how many rows it has.
        run: where the training was broken off.
    """
    start = _read_start(run)
    begin_again = f"start a new run from its state with --resume {run.path} and another --run-dir"
    if not start or not corpus.keys() <= start["corpus"].keys():
        raise UserError(
            f"{run.training_state / START}: missing or damaged, so it is unknown whether corpus and devices are the "
            f"same as before; {begin_again}"
        )
    keys = {split: f"data.{split}" for split in corpus} | {name: f"evaluation.also.{name}" for name in corpus_of_also}
    for name, now in {**corpus, **corpus_of_also}.items():
        before = start["corpus"].get(name, now)
        if before != now:
            raise UserError(
                f"{run.path}: the interrupted training had other pairs in {keys[name]} ({before}; now {now}); to "
                "resume it, restore them; for a new run, give another folder with --run-dir"
            )
    if start.get("order") != ORDER:
        raise UserError(
            f"{run.path}: the interrupted training drew its batches in the order of another version of this package; "
            f"finish it with that version, or {begin_again}"
        )
    if start["devices"] != devices:
        raise UserError(
            f"{run.path}: the interrupted training had {start['devices']} device(s), now there are {devices}, which "
            f"would change its batches; resume with the same number, or {begin_again}"
        )


def find_state(path: str | os.PathLike, recipe: Recipe) -> Path:
    """Finds the state that another run's training begins from.

    Args:
        path: a saved state, `RUN/training_state/step-...`, or a run's folder, whose newest state is taken.
        recipe: that of the training that begins; its model and its tokenizer must be those of the state, and it must
            have more steps.

    Raises:
        UserError: there is no state, or one of another model, or of too late a step.
    """
    path = Path(path)
    states = [path] if path.parent.name == "training_state" else saved_states(RunDirectory(path).training_state)
    if not states or not states[-1].is_dir():
        raise UserError(
            f"--resume {path}: contains no training state; give the folder of a run that has not finished, "
            "RUN/training_state/step-*, auto or never"
        )
    if not is_whole(states[-1]):
        raise UserError(f"--resume {states[-1]}: damaged; give another state, or the folder of another run")
    origin = run_of(states[-1])
    theirs = load_recipe(RunDirectory.open(origin.path).recipe)
    differences = _differences(recipe, theirs)
    other = [key for key in differences if key.startswith(SHAPES) and key not in SHAPELESS]
    here, there = recipe.flat(), theirs.flat()
    # A layer that drops nothing has no seed, so that there are other variables.
    for key in differences:
        if key.endswith("dropout_rate") and 0 in (here[key], there[key]):
            other.append(f"{key} ({there[key]} there, {here[key]} here)")
    # What an optimizer's variables are depends on these; their other values may differ.
    ours, before = recipe.training, theirs.training
    if (ours.ema is None) != (before.ema is None):
        other.append("training.ema")
    if ours.freeze != before.freeze:
        other.append("training.freeze")
    if (ours.precision == "mixed_float16") != (before.precision == "mixed_float16"):
        other.append("training.precision")
    if other:
        raise UserError(f"--resume {path}: that run differs in {', '.join(other)}; use the same values in the new run")
    step = state_step(states[-1])
    if step >= ours.steps:
        raise UserError(
            f"--resume {path}: that state is of step {step:,}; training.steps is {ours.steps:,} and must be larger"
        )
    if step % ours.steps_per_execution:
        raise UserError(
            f"--resume {path}: that state is of step {step:,}, not a multiple of training.steps_per_execution, "
            f"{ours.steps_per_execution}; change that setting, or give another state"
        )
    return states[-1]


def run_of(state: Path) -> RunDirectory:
    """The run that a state was saved by."""
    return RunDirectory(state.parents[1])


def copy_state(state: Path, run: RunDirectory) -> None:
    """Gives a new run the state, and of its run's checkpoints those that had been saved by then.

    The state comes last: where it lies, all that the training begins with is there. What an earlier call, broken off,
    left half copied is removed.

    Raises:
        UserError: it can't be copied; nothing half copied is left.
    """
    for left in (*run.checkpoints.glob(f"{PARTIAL}*"), *run.training_state.glob(f"{PARTIAL}*")):
        left.unlink() if left.is_file() else shutil.rmtree(left)
    for checkpoint in run_of(state).step_checkpoints():
        if checkpoint.stem <= state.name:  # both are called by `step_name`
            # One that the other run removes meanwhile would soon be removed here as well.
            with suppress(FileNotFoundError), checkpoint.open("rb") as there:
                place = run.checkpoints / checkpoint.name
                with written_whole(place, "the checkpoint of the other run") as partial, partial.open("wb") as copy:
                    shutil.copyfileobj(there, copy)
    try:
        with folder_written_whole(run.training_state / state.name) as partial:
            for file in state.iterdir():
                shutil.copy2(file, partial)
    except OSError as error:  # such as that the other run has replaced this state by a newer one
        raise UserError(
            f"--resume {state}: the state can't be copied to {run.training_state}: {reason(error)}; free disk space if "
            "it is full, and give the same command again"
        ) from None


def _differences(recipe: Recipe, other: Recipe) -> list[str]:
    """The keys of the settings that two recipes differ in."""
    ours, theirs = recipe.flat(), other.flat()
    return [key for key in ours if theirs[key] != ours[key]]
