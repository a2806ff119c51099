"""A sweep's YAML file: a recipe, the settings that vary, the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator

from tf_transformer.errors import UserError
from tf_transformer.files.home import below_home
from tf_transformer.recipe import Recipe, load_recipe
from tf_transformer.recipe.reading import read_yaml
from tf_transformer.recipe.settings import FolderName

Settings = dict[str, Any]


class Sweep(BaseModel):
    """A sweep, as in its file.

    Example:
        >>> rows = {"base": {}, "more_dropout": {"model.dropout_rate": 0.3}}
        >>> Sweep(name="dropout", recipe="train/recipes/demo.yaml", rows=rows, seeds=[1, 2]).seeds
        [1, 2]
    """

    model_config = {"extra": "forbid", "strict": True, "frozen": True}

    name: FolderName = Field(description="name of the sweep's folder")
    recipe: str = Field(description="the recipe, a path relative to this file")
    set: Settings = Field({}, description="settings of every run, by dotted key")
    rows: dict[FolderName, Settings | None] = Field(
        min_length=1, description="what varies: the name and settings of each row; the first is the base"
    )
    seeds: list[int] = Field(min_length=1, description="the seeds that each row is trained with")

    @field_validator("seeds")
    @classmethod
    def _check_seeds(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed occurs twice; give each once")
        return seeds


class Run(NamedTuple):
    """One training of a sweep.

    Attributes:
        row: the row's name.
        seed: the seed.
        recipe: the recipe's file.
        overrides: what replaces its settings, as `--set` takes it.
        path: the run's folder.
    """

    row: str
    seed: int
    recipe: Path
    overrides: list[str]
    path: Path

    @property
    def name(self) -> str:
        """What the run is called: its row and its seed."""
        return self.path.name

    def load(self) -> Recipe:
        """The recipe with all that replaces its settings."""
        return load_recipe(self.recipe, self.overrides, self.path)


def load_sweep(
    path: str | Path, overrides: Sequence[str] = (), folder: str | Path | None = None
) -> tuple[Sweep, list[Run]]:
    """Reads and checks a sweep with all its runs' recipes.

    Args:
        path: the YAML file.
        overrides: settings of every run, each "key=value" with a dotted key and a YAML value; they replace the
            recipe's and those in the file's `set`, not what its rows vary.
        folder: the folder of the runs' folders, `runs/NAME` by default.

    Returns:
        The sweep; and its runs, the first seed of all rows before the second, so that a table starts early.

    Raises:
        UserError: the file can't be read, or a setting is wrong; the message is one line.

    Example:
        >>> sweep, runs = load_sweep("train/sweeps/dropout_demo.yaml")
        >>> [run.name for run in runs[:3]], runs[1].load().model.dropout_rate
        (['dropout10-seed1', 'dropout0-seed1', 'dropout20-seed1'], 0.0)
    """
    path = Path(path)
    try:
        sweep = Sweep.model_validate(read_yaml(path, "sweep"))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the file"
        known = ", ".join(Sweep.model_fields)
        raise UserError(f"{path}: {key}: {first['msg']}; a sweep has the keys {known}") from None
    given = {"set": sweep.set, **{f"row {row}": settings or {} for row, settings in sweep.rows.items()}}
    given["--set"] = [override.partition("=")[0].strip() for override in overrides]
    for place, keys in given.items():
        if "seed" in keys:
            raise UserError(f"{path}: {place} has a seed; list the seeds of a sweep under its key seeds")
    recipe = path.parent / below_home(sweep.recipe)  # which may be absolute
    folder = Path(folder or Path("runs") / sweep.name)
    runs = []
    for seed in sweep.seeds:
        for row, settings in sweep.rows.items():
            varied = {**(settings or {}), "seed": seed}
            settings_of_run = [*_written(sweep.set), *overrides, *_written(varied)]
            runs.append(Run(row, seed, recipe, settings_of_run, folder / f"{row}-seed{seed}"))
    for run in runs:
        try:
            run.load()
        except UserError as error:
            raise UserError(f"{path}, row {run.row}: {error}") from None
    return sweep, runs


def _written(settings: Settings) -> list[str]:
    """Settings as overrides, each value in one line."""
    values = (
        yaml.safe_dump(value, default_flow_style=True, width=float("inf")).removesuffix("\n...\n").strip()
        for value in settings.values()
    )
    return [f"{key}={value}" for key, value in zip(settings, values, strict=True)]
