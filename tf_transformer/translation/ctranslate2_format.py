"""What the export for CTranslate2 writes and its engine reads beside the model: the tokenizers, and our settings."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.files.as_json import read_json

TOKENIZER = "tokenizer"  # the folder of the tokenizers' files, inside the model's
SETTINGS = "tf_transformer"  # the key of our own settings in the model's config.json


def import_ctranslate2() -> ModuleType:
    """Gives the library, which is an optional dependency.

    Raises:
        UserError: it isn't installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(
            f"CTranslate2 can't be imported ({error}); pip install 'tf_transformer[ctranslate2]'"
        ) from error
    return ctranslate2


def read_settings(folder: Path) -> tuple[int, DecodingOptions]:
    """What an export was told of its model: the most tokens that it takes, and the options that it translates with.

    Raises:
        UserError: its `config.json` can't be read, or does not tell them.
    """
    try:
        settings = read_json((folder / "config.json").read_text(encoding="utf-8"))[SETTINGS]
        # An earlier version wrote no options.
        return settings["max_length"], DecodingOptions(**settings.get("decoding", {}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder / 'config.json'}: expected {SETTINGS}: {{max_length: ...}} in it; export the model again"
        ) from error
