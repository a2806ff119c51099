"""Recipes as YAML files: reading one with the recipes it extends, replacing settings, saving it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tf_transformer.errors import UserError
from tf_transformer.files.home import below_home
from tf_transformer.files.whole import written_whole
from tf_transformer.recipe.mistakes import explain, recipe_error, unknown_key
from tf_transformer.recipe.origin import left_to_origin, needs_origin, origin_run, with_origins
from tf_transformer.recipe.refusals import shown
from tf_transformer.recipe.settings import KEYS, SECTIONS, Recipe, preset_values
from tf_transformer.runs.directory import RunDirectory

# A recipe before it is checked, and where each of its settings was given, by dotted key.
Given = tuple[dict[str, Any], dict[str, str]]


def load_recipe(path: str | Path, overrides: Sequence[str] = (), run_path: str | Path | None = None) -> Recipe:
    """Reads and checks a recipe.

    A recipe whose top level has `extends: other.yaml`, a path relative to its own file, contains what differs from that
    one: its keys replace the other's, as overrides replace both. `model.preset` in it, or as an override, replaces all
    keys that the preset sets, unless they are given next to it.

    A recipe with `init_from` takes the keys of `model` and `tokenizer`, the languages and `data.tags` that neither it
    nor its `model.preset` gives from the recipe of the model that `init_from` names.

    Nothing in a recipe is run. It may name any file that you may read, as a corpus or after `init_from` or `extends`;
    what is written goes into the run's folder, `data.prepared` and, with `data.kind: tfds`, the datasets' folder.

    Args:
        path: the YAML file.
        overrides: settings that replace the file's, each "key=value" with a dotted key and a YAML value.
        run_path: the folder of its run, `runs/NAME` by default. A run that has started there knows what
            `init_from` gave, which need not exist any more.

    Returns:
        The recipe, with every setting resolved.

    Raises:
        UserError: a file can't be read, or a setting is wrong; the message is one line.

    Example:
        >>> load_recipe("train/recipes/demo.yaml", ["training.steps=2000"]).training.steps
        2000
        >>> load_recipe("train/recipes/wmt14_en_de_big.yaml").model.d_model
        1024
    """
    settings, sources = _layer(_read_with_base(Path(path)), _read_overrides(overrides))
    settings = _filled_from_origin(settings, sources.get("init_from", str(path)), run_path, Path(path))
    try:
        return Recipe.model_validate(settings)
    except ValidationError as error:
        raise explain(error, str(path), sources) from None


def save_recipe(recipe: Recipe, path: str | Path) -> None:
    """Writes a resolved recipe, every key present; `load_recipe` gives an equal one.

    Args:
        recipe: what to write.
        path: the file; an existing one is replaced as a whole.

    Raises:
        UserError: the file can't be written.

    Example:
        >>> from tempfile import mkdtemp
        >>> save_recipe(load_recipe("train/recipes/demo.yaml"), Path(mkdtemp()) / "recipe.yaml")
    """
    path = Path(path)
    text = yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False)
    with written_whole(path, "the recipe") as partial:
        partial.write_text(text, encoding="utf-8")


def _read_with_base(path: Path, extending: tuple[Path, ...] = ()) -> Given:
    """Reads a recipe, over the one it extends; `extending` are the files that led to it."""
    where = str(path)
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        state = "is empty" if raw is None else f"holds {shown(raw)}"
        raise recipe_error(where, f"the recipe {state}; `tf-transformer recipes` writes some to start from")
    extends = raw.pop("extends", None)
    given = raw, dict.fromkeys(_dotted(raw), where)
    if extends is None:
        return given
    if not isinstance(extends, str):
        rule = "the path of another recipe, relative to this one, such as base.yaml"
        raise recipe_error(where, f"extends is {shown(extends)}; it must be {rule}")
    base = path.parent / below_home(extends)  # which may be absolute
    if not os.path.isfile(base):  # unlike Path's, says no to names that can't be
        raise recipe_error(where, f"extends is {shown(extends)}; there is no file {base}")
    files = (*extending, path)
    if base.resolve() in (file.resolve() for file in files):
        circle = " extends ".join(str(file) for file in (*files, base))
        raise recipe_error(where, f"extends is {shown(extends)}, which is circular ({circle}); remove one of these")
    return _layer(_read_with_base(base, files), given)


def _filled_from_origin(
    settings: dict[str, Any], where: str, run_path: str | Path | None, path: Path
) -> dict[str, Any]:
    """Fills in what the recipe at `path` leaves to the model that it begins from."""
    model = settings.get("model")
    if isinstance(model, dict) and isinstance(settings.get("init_from"), str):
        # What a preset says is given, not left to that model.
        settings = _merge(preset_values(model.get("preset")), settings)
    left = left_to_origin(settings)
    if not left:
        return settings
    begun = RunDirectory(run_path or Path("runs") / str(settings.get("name")))
    if begun.is_unfinished() and (known := _recipe_of_training(begun, settings, path)):
        return with_origins(settings, left, known)
    try:
        run = origin_run(settings["init_from"])
    except UserError as error:
        with suppress(UserError):  # that of a finished run may be damaged
            if known := _recipe_of_training(begun, settings, path):
                return with_origins(settings, left, known)
        if needs_origin(left):
            raise recipe_error(where, str(error)) from None
        return settings  # a run's own recipe, from before some key was there
    return with_origins(settings, left, load_recipe(run.recipe))


def _recipe_of_training(begun: RunDirectory, settings: dict[str, Any], path: Path) -> Recipe | None:
    """The recipe of a training that has begun from the model that these settings, read from `path`, name."""
    if not os.path.isfile(begun.recipe) or begun.recipe.resolve() == path.resolve():
        return None  # it would be read to fill in itself
    recipe = load_recipe(begun.recipe)
    return recipe if recipe.init_from == settings["init_from"] else None


def _read_overrides(overrides: Sequence[str]) -> Given:
    """Reads what the command line sets as one small recipe."""
    raw: dict[str, Any] = {}
    sources = {}
    for override in overrides:
        key, value = _split_override(override)
        section, _, leaf = key.rpartition(".")
        (raw.setdefault(section, {}) if section else raw)[leaf] = value
        sources[key] = f"--set {override}"
    return raw, sources


def _layer(under: Given, over: Given) -> Given:
    """Puts settings over others; a preset among them brings all that it says, which lies right under them."""
    raw, sources = over
    model = raw.get("model")
    preset = model.get("preset") if isinstance(model, dict) else None
    raw = _merge(preset_values(preset), raw)
    from_preset = {key: sources["model.preset"] for key in _dotted(raw) if key not in sources}
    return _merge(under[0], raw), {**under[1], **from_preset, **sources}


def _merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Replaces settings, section by section and key by key; makes a new dictionary."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if key not in SECTIONS or below is None or not isinstance(value, dict | None):
            merged[key] = value
        # A section that is no mapping stays, to be reported when the whole recipe is checked.
        elif isinstance(below, dict):
            merged[key] = {**below, **(value or {})}
    return merged


def _dotted(raw: dict[str, Any]) -> Iterator[str]:
    """Names the settings."""
    for key, value in raw.items():
        if key in SECTIONS and isinstance(value, dict):
            yield from (f"{key}.{leaf}" for leaf in value)
        else:
            yield str(key)


class _Loader(yaml.SafeLoader):
    """YAML in which a key given twice is a mistake, instead of the second one winning."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in lines:
                problem = f"{key.value} was already given on line {lines[key.value]}; keep one of them"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            lines[key.value] = key.start_mark.line + 1
        return node


def read_yaml(path: Path, what: str = "recipe") -> Any:
    """Reads a YAML file that someone wrote: a key given twice is a mistake too.

    Args:
        path: the file.
        what: what it is called; the folder train/WHATs has the project's own.

    Raises:
        UserError: it can't be read; the message is one line.
    """
    try:
        return _parse(path.read_text(encoding="utf-8-sig"), str(path))
    except FileNotFoundError:
        problem = f"there is no such {what}; `tf-transformer recipes` writes the project's to train/{what}s"
    except UnicodeDecodeError as error:
        problem = f"byte {error.start + 1} is not UTF-8; save the {what} as UTF-8 text"
    except OSError as error:
        problem = f"the {what} can't be read: {error.strerror}"
    raise recipe_error(str(path), problem)


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    # ValueError: a value such as the date 2024-13-45; RecursionError: thousands of brackets
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or error
        advice = "; indent with spaces, not tabs" if "'\\t'" in str(problem) else ""
        raise recipe_error(where, f"{line}not valid YAML: {problem}{advice}") from None


def _split_override(override: str) -> tuple[str, Any]:
    where = f"--set {override}"
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise recipe_error(where, "an override must be key=value, such as training.steps=2000")
    if key in SECTIONS:
        raise recipe_error(where, f"{key} is a section; set one of {', '.join(SECTIONS[key].model_fields)} in it")
    if key == "extends":
        raise recipe_error(where, "extends can't be overridden; write a recipe that has it, or give the other recipe")
    if key not in KEYS:
        raise recipe_error(where, unknown_key(key))
    return key, _parse(text, where)
