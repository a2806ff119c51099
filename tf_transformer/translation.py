"""Translating many texts with a run, a SavedModel or another engine's model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tf_transformer.checksums import check_checksums
from tf_transformer.errors import UserError
from tf_transformer.run_directory import RunDirectory, load_model

if TYPE_CHECKING:
    from tf_transformer.decoding.options import DecodingOptions
    from tf_transformer.export.translator import Translator

# What `Translator.translate` is: strings (batch,) -> {"translation", "score", "truncated"}, each (batch,), or the first
# two (batch, hypotheses) where several were asked for
Translate = Callable[[Any], dict[str, Any]]

ENGINES = ("tensorflow", "ctranslate2")


class Translation(NamedTuple):
    """A text's translation, its score, whether the text was cut to the model's positions, and the other hypotheses.

    `others` holds text and score of each further one that was asked for, best first.
    """

    text: str
    score: float
    truncated: bool
    others: tuple[tuple[str, float], ...] = ()


def load_translate(
    path: str | os.PathLike, changes: Mapping[str, Any] | None = None, engine: str = "tensorflow"
) -> Translate:
    """Loads what translates.

    Args:
        path: a run's folder, a SavedModel's (`savedmodels/NAME/VERSION`), or one that `export --format` made.
        changes: options in place of the run's recipe's or the export's own; see `DecodingOptions`.
        engine: "tensorflow", or "ctranslate2" for a model in its format.

    Returns:
        A function from strings (batch,) to a dict of "translation", "score" and "truncated", each (batch,); with
        `num_hypotheses` among the changes the first two are (batch, num_hypotheses).

    Raises:
        UserError: nothing of the kind is there, it is damaged, or an option can't be.
    """
    path, changes = Path(path), dict(changes or {})
    if engine not in ENGINES:
        raise UserError(f"engine is {engine}; choose from {', '.join(ENGINES)}")
    if engine == "ctranslate2":
        from tf_transformer.export.ctranslate2_engine import load_ctranslate2

        return load_ctranslate2(path, changes)
    if is_saved_model(path):
        return _load_saved_model(path, changes)
    translator = load_translator(path, changes)
    if "num_hypotheses" in changes:
        return lambda texts: translator.translate(texts, num_hypotheses=translator.options.num_hypotheses)
    return translator.translate


def is_saved_model(path: Path) -> bool:
    """Whether a folder is a SavedModel."""
    return (path / "saved_model.pb").is_file()


def load_translator(path: Path, changes: Mapping[str, Any]) -> Translator:
    """Loads a run's model and tokenizers, with the options of its recipe but for the changes.

    Raises:
        UserError: no run is there, it is damaged, or an option can't be.
    """
    if (path / "model.bin").is_file():
        raise UserError(f"{path}: a CTranslate2 model; translate and evaluate take it with --engine ctranslate2")
    if not (path / "recipe.yaml").is_file():
        versions = [p.parent.name for p in path.glob("*/saved_model.pb") if p.parent.name.isdecimal()]
        hint = f"; give one of its versions, such as {path / max(versions, key=int)}" if versions else ""
        missing = "" if path.exists() else " (no such folder)"
        raise UserError(f"{path}: neither a run nor a SavedModel{missing}{hint or '; give the folder of one'}")
    from tf_transformer.export.translator import Translator
    from tf_transformer.recipe import load_recipe

    run = RunDirectory.open(path)
    options = load_recipe(run.recipe).evaluation.decoding_options().changed(**changes)
    return Translator(load_model(path), run.load_tokenizers(), options)


def load_signature(path: Path, name: str) -> Callable[..., dict[str, Any]]:
    """Loads one of a SavedModel's signatures.

    Raises:
        UserError: it is damaged, or has no such signature.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its ops are in the graph

    check_checksums(path, "export it again")
    try:
        loaded = tf.saved_model.load(str(path))
    except Exception as error:  # whatever a damaged file makes TensorFlow raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{path}: the SavedModel can't be loaded ({reason}); export it again") from error
    if name not in getattr(loaded, "signatures", {}):
        raise UserError(f"{path}: a SavedModel without the signature {name}; export it anew, with this version")
    # The loaded object owns the variables: it must stay alive as long as its signature is in use.
    return lambda **inputs: loaded.signatures[name](**inputs)


def _load_saved_model(path: Path, changes: dict[str, Any]) -> Translate:
    import tensorflow as tf

    signature = load_signature(path, "translate_with_options" if changes else "translate")
    if not changes:
        return lambda texts: signature(text=tf.constant(texts, dtype=tf.string))

    from tf_transformer.export.signature_options import with_options

    return with_options(
        lambda texts, prefix, tensors: signature(text=texts, prefix=prefix, **tensors),
        _exported_options(path).changed(**changes),
        several="num_hypotheses" in changes,
    )


def _exported_options(path: Path) -> DecodingOptions:
    from tf_transformer.decoding.options import DecodingOptions
    from tf_transformer.export.saved_model import OPTIONS_FILE

    file = path / "assets.extra" / OPTIONS_FILE
    try:
        return DecodingOptions(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{file}: not the options of an export ({error}); export the model again") from None


def translate_texts(
    translate: Translate, texts: Sequence[str], batch_size: int = 64, streams: int = 1
) -> Iterator[Translation]:
    """Translates texts in batches of like length.

    Args:
        translate: as `load_translate` gives it.
        texts: any number of texts.
        batch_size: texts at once.
        streams: batches at once, each in a thread of its own.

    Returns:
        Their translations, in the order of `texts`.
    """
    import tensorflow as tf

    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    translations: dict[int, Translation] = {}

    def run(batch: list[int]) -> list[Any]:
        output = translate(tf.constant([texts[i] for i in batch], dtype=tf.string))
        return [output[key].numpy() for key in ("translation", "score", "truncated")]

    with ThreadPoolExecutor(streams) as threads:
        for batch, columns in zip(batches, threads.map(run, batches), strict=True):
            for i, *row in zip(batch, *columns, strict=True):
                translations[i] = _translation(*row)
    return (translations[i] for i in range(len(texts)))


def _translation(text: Any, score: Any, truncated: Any) -> Translation:
    if isinstance(text, bytes):
        text, score = [text], [score]
    first, *others = [(t.decode("utf-8", errors="replace"), float(s)) for t, s in zip(text, score, strict=True)]
    # Where there are fewer hypotheses than were asked for, the rest has score -inf.
    return Translation(*first, bool(truncated), tuple(other for other in others if other[1] > -float("inf")))
