"""Loads what translates: a run, a SavedModel or another engine's model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.errors import UserError, check_is_list, reason
from tf_transformer.files.as_json import read_json
from tf_transformer.files.checksums import check_checksums
from tf_transformer.files.model_formats import OPTIONS_FILE, is_ctranslate2, is_saved_model, numbered_versions
from tf_transformer.model_card.files import task
from tf_transformer.runs.directory import RunDirectory, is_run
from tf_transformer.translation.texts import Translate

if TYPE_CHECKING:
    from tf_transformer.decoding.options import DecodingOptions
    from tf_transformer.translation.translator import Translator

# What loads a SavedModel's signature: its folder, the name -> a function of the inputs, None if there is none
LoadSignature = Callable[[Path, str], Callable[..., dict[str, Any]] | None]

ENGINES = ("tensorflow", "ctranslate2")

NO_ENSEMBLE_IN_CTRANSLATE2 = (
    "CTranslate2 has no ensembles; give one model, or leave out ctranslate2: a SavedModel can hold an ensemble"
)


def load_translate(
    path: str | os.PathLike | Sequence[str | os.PathLike],
    changes: Mapping[str, Any] | None = None,
    engine: str = "tensorflow",
    load: LoadSignature | None = None,
) -> Translate:
    """Loads what translates.

    Args:
        path: a run's folder, one of its checkpoints, a SavedModel's folder (`savedmodels/NAME/VERSION`), or one that
            `export --format` made; several runs or checkpoints for an ensemble.
        changes: options in place of the run's recipe's or the export's own; see `DecodingOptions`.
        engine: "tensorflow", or "ctranslate2" for a model in its format.
        load: what loads a SavedModel's signature; TensorFlow for Python unless given.

    Returns:
        A function from strings (batch,) to a dict of "translation", "score" and "truncated", each (batch,); with
        `num_hypotheses` among the changes the first two are (batch, num_hypotheses). They are tensors, or what `load`
        has a signature give.

    Raises:
        UserError: nothing of the kind is there, it is damaged, or an option is invalid.

    Example:
        >>> load_translate("runs/nothing")
        Traceback (most recent call last):
        tf_transformer.errors.UserError: runs/nothing: neither a run nor a SavedModel (no such folder); give ...
    """
    paths, changes = paths_of(path), dict(changes or {})
    _check_engine(engine)
    if engine == "ctranslate2":
        from tf_transformer.translation.ctranslate2_engine import load_ctranslate2

        if len(paths) > 1:
            raise UserError(NO_ENSEMBLE_IN_CTRANSLATE2)
        return load_ctranslate2(paths[0], changes)
    if len(paths) == 1 and is_saved_model(paths[0]):
        return _load_saved_model(paths[0], changes, load)
    translator = load_translator(paths, **changes)
    if "num_hypotheses" in changes:
        return lambda texts: translator.translate(texts, num_hypotheses=translator.options.num_hypotheses)
    return translator.translate


def paths_of(path: str | os.PathLike | Sequence[str | os.PathLike]) -> list[Path]:
    """The path of a model, or those of an ensemble's.

    Raises:
        UserError: there is none.
    """
    if not isinstance(path, str | os.PathLike) and not path:
        raise UserError("no model is given: the list is empty")
    return [Path(path)] if isinstance(path, str | os.PathLike) else [Path(each) for each in path]


def load_translator(path: str | os.PathLike | Sequence[str | os.PathLike], **options: Any) -> Translator:
    """Loads what a training run made, ready to translate: the model, its tokenizers and its recipe's decoding options.

    The model computes in float32, whatever it was trained in. Several make an `Ensemble`, with the first one's options.

    Args:
        path: a run's folder, whose best checkpoint is taken, or one of its checkpoints
            (`runs/NAME/checkpoints/step-00000420.keras`); or a list of them, whose tokenizers must be the same.
        **options: in place of the recipe's; see `DecodingOptions`.

    Returns:
        A `Translator`; of a run that learned to parse a `Parser`. What `translate` and the other signatures of a
        SavedModel do, `tf.saved_model.load` loads.

    Raises:
        UserError: no run is there, it is damaged, the tokenizers of several differ, or an option is invalid.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> from tf_transformer.recipe import save_recipe
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=280, target_vocab_size=280, max_length=64)
        >>> model.build(((None, None), (None, None)))
        >>> with tempfile.TemporaryDirectory() as folder:  # a training run leaves the same there
        ...     run = RunDirectory.create(f"{folder}/runs/small")
        ...     save_recipe(tt.load_recipe("train/recipes/demo.yaml"), run.recipe)
        ...     tokenizers.save(run.tokenizer)
        ...     model.save(run.best)
        ...     translator = tt.load_translator(f"{folder}/runs/small", beam_size=2, extra_length=5)
        >>> translator.translate(["a dog", ""])["translation"].shape
        TensorShape([2])
    """
    paths = paths_of(path)
    for each in paths:
        if not is_run(each):
            raise UserError(_no_run(each, several=len(paths) > 1))
    from tf_transformer.recipe import load_recipe
    from tf_transformer.runs.ensemble import load_models
    from tf_transformer.translation.making import make_translator

    runs = [RunDirectory.of_model(each) for each in paths]
    decoding = load_recipe(runs[0].recipe).evaluation.decoding_options().changed(**options)
    return make_translator(*load_models(runs), decoding)


def check_are_models(paths: Sequence[Path], engine: str = "tensorflow") -> None:
    """Raises a UserError for what is no translation model, or can't be in an ensemble.

    Nothing is loaded that takes time.

    Args:
        paths: a run, one of its checkpoints or a SavedModel; or several runs or checkpoints.
        engine: what is to run them.
    """
    _check_engine(engine)
    several = len(paths) > 1
    if engine != "tensorflow":
        if several:
            raise UserError(NO_ENSEMBLE_IN_CTRANSLATE2)
        return
    for path in paths:
        if is_run(path):
            RunDirectory.of_model(path).best_checkpoint()  # told now if there is none
        elif not is_saved_model(path):
            raise UserError(_no_run(path))
    for path in paths:
        if several and is_saved_model(path):
            raise UserError(_no_run(path, several))
        if task(path) == "parsing":
            raise UserError(
                f"{path}: a parser, not a translation model; to parse, run tf-transformer parse; to score it, give "
                "--trees FILE to evaluate"
            )


def _check_engine(engine: str) -> None:
    if engine not in ENGINES:
        raise UserError(f"engine is {engine}; choose from {', '.join(ENGINES)}")


def _no_run(path: Path, several: bool = False) -> str:
    """Says what is at a path that is not a run, of a model alone or of an ensemble."""
    if several and is_saved_model(path):
        return (
            f"{path}: a SavedModel, but an ensemble is made from runs or their checkpoints; give the run that it was "
            "exported from, or export the ensemble: tf-transformer export RUN RUN DEST"
        )
    if is_saved_model(path):
        return f"{path}: a SavedModel, not a run; load it with tf.saved_model.load"
    if is_ctranslate2(path):
        return f"{path}: a CTranslate2 model; use translate or evaluate with --engine ctranslate2"
    versions = numbered_versions(path)
    hint = f"; give one of its versions, such as {versions[max(versions)]}" if versions else ""
    missing = "" if path.exists() else " (no such folder)"
    return f"{path}: neither a run nor a SavedModel{missing}{hint or '; give the folder of one'}"


def load_signature(path: Path, name: str, load: LoadSignature | None = None) -> Callable[..., dict[str, Any]]:
    """Loads one of a SavedModel's signatures.

    Args:
        path: the SavedModel's folder.
        name: the signature's name.
        load: what loads it; TensorFlow for Python unless given.

    Raises:
        UserError: it is damaged, or has no such signature.
    """
    signature = _loaded(path, lambda: (load or _load_with_tensorflow)(path, name))
    if signature is None:
        raise UserError(f"{path}: a SavedModel without the signature {name}; export it again with this version")
    return signature


def load_function(
    path: str | os.PathLike | Sequence[str | os.PathLike], name: str, load: LoadSignature | None = None
) -> Callable[..., dict[str, Any]]:
    """Loads what a SavedModel's signature does, or a `Translator`'s function of that name for runs.

    Args:
        path: a run's folder or one of its checkpoints, or a SavedModel's folder; several of the former for an ensemble.
        name: the signature's name; its inputs are given by theirs.
        load: what loads a SavedModel's signature; TensorFlow for Python unless given.

    Raises:
        UserError: nothing of the kind is there, or it is damaged.
    """
    paths = paths_of(path)
    if len(paths) == 1 and is_saved_model(paths[0]):
        return load_signature(paths[0], name, load)
    return load_translator(paths).functions[name]


def load_saved_model(path: Path) -> Any:
    """Loads a SavedModel. The object owns its variables: it must stay alive as long as a signature of it is in use.

    Raises:
        UserError: it is damaged.
    """
    return _loaded(path, lambda: _load_object(path))


def _loaded(path: Path, load: Callable[[], Any]) -> Any:
    check_checksums(path, "export it again")
    try:
        return load()
    except Exception as error:  # whatever a damaged file makes TensorFlow raise
        raise UserError(f"{path}: the SavedModel can't be loaded ({reason(error)}); export it again") from error


def _load_object(path: Path) -> Any:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its ops are in the graph

    return tf.saved_model.load(str(path))


def _load_with_tensorflow(path: Path, name: str) -> Callable[..., dict[str, Any]] | None:
    loaded = _load_object(path)
    if name not in getattr(loaded, "signatures", {}):
        return None
    # The loaded object owns the variables: it must stay alive as long as its signature is in use.
    return lambda **inputs: loaded.signatures[name](**inputs)


def _load_saved_model(path: Path, changes: dict[str, Any], load: LoadSignature | None) -> Translate:
    from tf_transformer.translation.signature_options import OPTION_TYPES, with_options

    if _are_its_own(path, changes):
        signature = load_signature(path, "translate", load)
        return lambda texts: signature(text=_checked(texts))
    signature = load_signature(path, "translate_with_options", load)
    known, own = _options_of_export(path)
    options = own.changed(**changes)
    for name in sorted({field.name for field in fields(options)} - set(OPTION_TYPES)):
        if getattr(options, name) != getattr(own, name):
            raise UserError(f"{name} of an export can't be changed; export the run again with another")
    return with_options(
        lambda texts, prefix, values: signature(text=texts, prefix=prefix, **values),
        options,
        several="num_hypotheses" in changes,
        known=known,
    )


def _are_its_own(path: Path, changes: dict[str, Any]) -> bool:
    """Whether an export has these options already: then `translate`, which is loaded sooner, has less to do."""
    if not changes or "num_hypotheses" in changes:
        return not changes
    try:
        own = own_options(path)
    except UserError:  # told where they are needed
        return False
    return own.changed(**changes) == own


def _checked(texts: Any) -> Any:
    check_is_list(texts, "texts")
    return texts


def own_options(path: Path) -> DecodingOptions:
    """The options that a run, or one of its checkpoints, or an export translates with unless told otherwise.

    Raises:
        UserError: an export's are missing or damaged.
    """
    from tf_transformer.recipe import load_recipe

    if is_ctranslate2(path):
        from tf_transformer.translation.ctranslate2_format import read_settings

        return read_settings(path)[1]
    if not is_saved_model(path):
        return load_recipe(RunDirectory.of_model(path).recipe).evaluation.decoding_options()
    return _options_of_export(path)[1]


def known_options(path: Path) -> set[str]:
    """The options that a SavedModel's signature takes: what it was exported with tells all that there were.

    Raises:
        UserError: these are missing or damaged.
    """
    return set(_options_of_export(path)[0])


def _options_of_export(path: Path) -> tuple[dict[str, Any], DecodingOptions]:
    from tf_transformer.decoding.options import DecodingOptions

    file = path / "assets.extra" / OPTIONS_FILE
    try:
        written = read_json(file.read_text(encoding="utf-8"))
        return written, DecodingOptions(**written)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{file}: can't be read as the options of an export ({error}); export the model again"
        ) from None
