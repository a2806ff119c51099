"""What a fine-tuning recipe leaves to the recipe of the model that it begins from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.errors import UserError
from tf_transformer.files.home import below_home
from tf_transformer.files.model_formats import is_ctranslate2, is_saved_model
from tf_transformer.recipe.settings import SECTIONS
from tf_transformer.runs.directory import RunDirectory

if TYPE_CHECKING:
    from tf_transformer.recipe.settings import Recipe

# These keys are the origin's wherever the recipe says nothing. Of two sections all keys but one each: how the origin's
# sizes were given, and what it did with the tokenizer of its own origin.
FILLED = {
    "model": [key for key in SECTIONS["model"].model_fields if key != "preset"],
    "tokenizer": [key for key in SECTIONS["tokenizer"].model_fields if key != "keep"],
    "data": ["source_language", "target_language", "tags"],
}


def origin_run(path: str | Path) -> RunDirectory:
    """The run that `init_from` names; its `best_checkpoint` is the model.

    Raises:
        UserError: there is no such run; the message begins with the key.
    """
    path = below_home(path)
    if is_saved_model(path) or is_ctranslate2(path):
        raise UserError(
            f"init_from is {path}, an exported model, which can't be trained further; give the run it was exported from"
        )
    try:
        return RunDirectory.of_model(path)
    except UserError as error:
        raise UserError(f"init_from is {path}; {error}") from None


def left_to_origin(settings: dict[str, Any]) -> dict[str, list[str]]:
    """The keys that settings, not checked yet, leave to the recipe of their `init_from`, by section."""
    left = {}
    for section, keys in FILLED.items() if isinstance(settings.get("init_from"), str) else ():
        given = settings.get(section) or {}
        if isinstance(given, dict):
            left[section] = [key for key in keys if key not in given]
    return {section: keys for section, keys in left.items() if keys}


def needs_origin(left: dict[str, list[str]]) -> bool:
    """Whether some of these keys have no default."""
    return any(SECTIONS[section].model_fields[key].is_required() for section in left for key in left[section])


def with_origins(settings: dict[str, Any], left: dict[str, list[str]], origin: Recipe) -> dict[str, Any]:
    """Fills in what `left_to_origin` found."""
    filled = dict(settings)
    for section, keys in left.items():
        theirs = getattr(origin, section).model_dump()
        filled[section] = {**(settings.get(section) or {}), **{key: theirs[key] for key in keys}}
    return filled
