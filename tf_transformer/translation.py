"""Translating many texts with a run or a SavedModel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tf_transformer.errors import UserError
from tf_transformer.run_directory import RunDirectory, load_model

# What `Translator.translate` is: strings (batch,) -> {"translation", "score", "truncated"}, each (batch,)
Translate = Callable[[Any], dict[str, Any]]


class Translation(NamedTuple):
    """A text's translation, its log-probability, and whether the text was cut to the model's positions."""

    text: str
    score: float
    truncated: bool


def load_translate(path: str | os.PathLike) -> Translate:
    """Loads what translates.

    Args:
        path: a run's folder, or a SavedModel's (`savedmodels/NAME/VERSION`).

    Returns:
        A function from strings (batch,) to a dict of "translation", "score" and "truncated", each (batch,).

    Raises:
        UserError: neither of the two is there, or it is damaged.
    """
    path = Path(path)
    if (path / "saved_model.pb").is_file():
        return _load_saved_model(path)
    if not (path / "recipe.yaml").is_file():
        versions = [p.parent.name for p in path.glob("*/saved_model.pb") if p.parent.name.isdecimal()]
        hint = f"; give one of its versions, such as {path / max(versions, key=int)}" if versions else ""
        missing = "" if path.exists() else " (no such folder)"
        raise UserError(f"{path}: neither a run nor a SavedModel{missing}{hint or '; give the folder of one'}")
    from tf_transformer.export.translator import Translator
    from tf_transformer.recipe import load_recipe

    run = RunDirectory.open(path)
    evaluation = load_recipe(run.recipe).evaluation
    return Translator(load_model(path), run.load_tokenizers(), evaluation.extra_length).translate


def _load_saved_model(path: Path) -> Translate:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its ops are in the graph

    try:
        loaded = tf.saved_model.load(str(path))
    except Exception as error:  # whatever a damaged file makes TensorFlow raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{path}: the SavedModel can't be loaded ({reason}); export it again") from error
    if "translate" not in getattr(loaded, "signatures", {}):
        raise UserError(f"{path}: a SavedModel without the signature translate; use one that `export` made")
    # The loaded object owns the variables: it must stay alive as long as its signature is in use.
    return lambda texts: loaded.signatures["translate"](text=tf.constant(texts, dtype=tf.string))


def translate_texts(translate: Translate, texts: Sequence[str], batch_size: int = 64) -> Iterator[Translation]:
    """Translates texts in batches of like length.

    Args:
        translate: as `load_translate` gives it.
        texts: any number of texts.
        batch_size: texts at once.

    Returns:
        Their translations, in the order of `texts`.
    """
    import tensorflow as tf

    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    translations: dict[int, Translation] = {}
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        output = translate(tf.constant([texts[i] for i in batch], dtype=tf.string))
        columns = (output[key].numpy() for key in ("translation", "score", "truncated"))
        for i, text, score, truncated in zip(batch, *columns, strict=True):
            translations[i] = Translation(text.decode("utf-8", errors="replace"), float(score), bool(truncated))
    return (translations[i] for i in range(len(texts)))
