"""Trains the runs of a sweep one after another, each in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from tf_transformer.distributed.launcher import COMMAND, signals_as_exceptions
from tf_transformer.errors import Preempted, UserError
from tf_transformer.experiment.resuming import check_same
from tf_transformer.recipe import Recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.sweep.results import Scores, in_words
from tf_transformer.sweep.settings import Run

LAST_LINES = 3  # of a run that failed, to be shown
# How a training ends that SIGTERM has stopped; in the latter way before it heeds the signal, as it starts.
STOPPED = os.EX_TEMPFAIL, -signal.SIGTERM

# Settings of `data` that change no pair.
BATCHING = ("data.batch_tokens", "data.max_length", "data.max_ratio", "data.prepared")


def run_sweep(
    runs: Sequence[Run],
    tell: Callable[[str], Any] = lambda line: None,
    keep: Callable[[Scores], Any] = lambda scores: None,
) -> dict[tuple[str, int], dict[str, Any]]:
    """Trains the runs that are not finished, and reads the scores of all.

    Each run is the command `train` in its own process, so that runs do not affect each other. Its output is written to
    `NAME.log` next to its folder. After an interruption (Ctrl-C or a kill) the same call resumes.

    Args:
        runs: the runs, as `load_sweep` returns them.
        tell: called with one line at the start and at the end of each run.
        keep: called after each run with the scores of all runs that have ended.

    Returns:
        The scores of each run's own training, by row and seed.

    Raises:
        UserError: a run's folder holds a run of another recipe, its training failed, or what the runs have in common
            has changed in the meantime: the recipe, the pairs, the model that they begin with.
        Preempted: a run was stopped, and can be resumed.

    Example:
        >>> run_sweep([])
        {}
    """
    recipes = {run.name: run.load() for run in runs}
    # All are looked at before the first begins.
    ended = {run.name: _is_ended(run, recipes[run.name]) for run in runs}
    scores, firsts = {}, {}

    def add(run: Run) -> None:
        _check_same_data(run, recipes[run.name], firsts)
        scores[run.row, run.seed] = _own_scores(RunDirectory(run.path))

    for run in runs:
        if ended[run.name]:
            add(run)
    for number, run in enumerate(runs, start=1):
        if not ended[run.name]:
            tell(f"{number} of {len(runs)}: {run.name} ...")
            _check_same_recipe(run, recipes[run.name])
            _train(run)
            check_same(recipes[run.name], RunDirectory(run.path))  # the training has read the recipe again
            add(run)
            keep(scores)
        done = " (already finished)" if ended[run.name] else ""
        tell(f"{number} of {len(runs)}: {run.name}: {in_words(scores[run.row, run.seed])}{done}")
    return scores


def _own_scores(run: RunDirectory) -> dict[str, Any]:
    """What a run's training scored at its end, whatever `evaluate` has scored before and since."""
    own = [scores for scores in run.read_scores() if "training_seconds" in scores]
    if not own:
        raise UserError(f"{run.scores}: missing or damaged; to train this run again, move {run.path} away")
    return own[0]


def _check_same_recipe(run: Run, recipe: Recipe) -> None:
    """Raises a UserError where a run would have another recipe than it had when the sweep began."""
    if run.load() != recipe:
        raise UserError(
            f"{run.recipe}: changed since the sweep began, or a recipe that it extends was; undo the change and give "
            "the same command again, or start another sweep with --run-dir"
        )


def _check_same_data(run: Run, recipe: Recipe, firsts: dict[str, tuple[Run, Any]]) -> None:
    """Raises a UserError where a run had other pairs, or began with another model, than one of the same settings.

    Args:
        run: a run that has ended.
        recipe: its recipe.
        firsts: by what decides them, the checksums of the runs before, and the first run that has them; this run's are
            added.
    """
    known, flat = RunDirectory(run.path).read_training(), recipe.flat()
    keys = [key for key in flat if key.startswith(("data.", "evaluation.also")) and key not in BATCHING]
    checksums = {
        f"other pairs: {[(key, flat[key]) for key in keys]}": known.get("corpus"),
        f"another model of init_from: {flat['init_from']}": (known.get("fine_tuned_from") or {}).get("sha256"),
    }
    for settings, checksum in checksums.items():
        if checksum is None:  # an earlier version did not write it down
            continue
        first, others = firsts.setdefault(settings, (run, checksum))
        if checksum != others:
            what = settings.partition(":")[0]
            raise UserError(
                f"{run.path}: trained with {what} than {first.path}, though their settings are the same, so that they "
                "can't be compared; restore what was changed, move away the runs that were trained with it, and give "
                "the same command again"
            )


def _is_ended(run: Run, recipe: Recipe) -> bool:
    """Whether a run was trained to its end; raises a UserError where its folder holds another."""
    directory = RunDirectory(run.path)
    check_same(recipe, directory)
    return directory.scores.is_file() and not directory.is_unfinished()


def _train(run: Run) -> None:
    words = ["train", str(run.recipe), "--run-dir", str(run.path)]
    words += [word for override in run.overrides for word in ("--set", override)]
    log = run.path.with_name(f"{run.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a", encoding="utf-8") as told, signals_as_exceptions():
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            process_group=0,  # Ctrl-C goes to the sweep alone: a second signal would end the training at once
        )
        try:
            status = process.wait()
        except BaseException as told_to_end:
            process.terminate()  # it saves its state
            process.wait()
            if not isinstance(told_to_end, SystemExit):
                raise
            status = os.EX_TEMPFAIL  # the training's own may be lost, where it ended as the signal came
        finally:
            process.kill()  # it has ended, unless a second signal has come
            process.wait()
    if status:
        # A library or the system may have written what is not UTF-8, such as a file's name.
        last = " / ".join(log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-LAST_LINES:])
        if status in STOPPED:
            why = f" ({last})" if last else ""
            raise Preempted(f"{run.name} was stopped{why}; to continue, give the same command again")
        raise UserError(f"{run.name} ended with status {status} ({last}); fix that, and give the same command again")
