"""Exports a run's best checkpoint, or those of several runs as an ensemble."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tf_transformer.errors import UserError
from tf_transformer.export.argos import export_argos, package_languages
from tf_transformer.export.ctranslate2 import export_ctranslate2
from tf_transformer.export.destinations import free_folder, free_package, version_folder
from tf_transformer.export.saved_model import export_saved_model
from tf_transformer.marian import export_marian
from tf_transformer.model_card.facts import facts_of_ensemble, facts_of_run
from tf_transformer.recipe import load_recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.ensemble import load_models
from tf_transformer.runs.loading import load_model
from tf_transformer.translation.ctranslate2_format import import_ctranslate2
from tf_transformer.translation.making import make_translator


def export_run(
    run: RunDirectory | Sequence[RunDirectory],
    destination: str | os.PathLike,
    changes: Mapping[str, Any] | None = None,
    half: bool = False,
    compiled: bool = True,
) -> Path:
    """Exports a run's best checkpoint as a SavedModel, which works in float32 whatever the model was trained in.

    Args:
        run: the run directory; for an ensemble those of its models, which must have the same tokenizer.
        destination: see `export_saved_model`.
        changes: decoding options in place of the (first) recipe's; they are the SavedModel's defaults.
        half: whether the weights are written as float16.
        compiled: whether XLA may compile the search of the SavedModel; see `Translator.warm_up`.

    Returns:
        The folder written.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> from tf_transformer.recipe import save_recipe
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=280, target_vocab_size=280, max_length=64)
        >>> model.build(((None, None), (None, None)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = RunDirectory.create(f"{folder}/runs/small")  # a training leaves the same there
        ...     save_recipe(tt.load_recipe("train/recipes/demo.yaml"), run.recipe)
        ...     tokenizers.save(run.tokenizer)
        ...     model.save(run.best)
        ...     export_run(run, f"{folder}/savedmodels/small").name
        '1'
    """
    version_folder(destination)  # refused before anything is loaded
    runs = [run] if isinstance(run, RunDirectory) else run
    options = load_recipe(runs[0].recipe).evaluation.decoding_options().changed(**(changes or {}))
    translator = make_translator(*load_models(runs), options, half, compiled)
    facts = facts_of_run(runs[0], options) if len(runs) == 1 else facts_of_ensemble(runs, options)
    return export_saved_model(translator, destination, facts)


def export_run_ctranslate2(run: RunDirectory, destination: str | os.PathLike, quantization: str | None = None) -> Path:
    """Exports a run's best checkpoint for CTranslate2; see `export_ctranslate2`.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> from tf_transformer.recipe import save_recipe
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=280, target_vocab_size=280, max_length=64)
        >>> model.build(((None, None), (None, None)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = RunDirectory.create(f"{folder}/runs/small")  # a training leaves the same there
        ...     save_recipe(tt.load_recipe("train/recipes/demo.yaml"), run.recipe)
        ...     tokenizers.save(run.tokenizer)
        ...     model.save(run.best)
        ...     folder = export_run_ctranslate2(run, f"{folder}/ct2")
        ...     (folder / "model.bin").is_file()
        True
    """
    import_ctranslate2()
    folder = free_folder(destination)  # refused before anything is loaded
    options = load_recipe(run.recipe).evaluation.decoding_options()
    model, tokenizers = load_model(run.best_checkpoint()), run.load_tokenizers()
    return export_ctranslate2(model, tokenizers, folder, quantization, options, facts_of_run(run))


def export_run_argos(
    run: RunDirectory,
    destination: str | os.PathLike,
    quantization: str | None = None,
    languages: tuple[str | None, str | None] = (None, None),
    tag: str | None = None,
) -> Path:
    """Exports a run's best checkpoint as a package of Argos Translate; see `export_argos`.

    Args:
        run: the run directory.
        destination: the file to make.
        quantization: how the matrices are stored.
        languages: the codes of source and target; None for the recipe's.
        tag: for a multilingual model, the tag of the language to translate into.

    Example:
        >>> from tf_transformer.runs.directory import RunDirectory
        >>> export_run_argos(RunDirectory.open("runs/none"), "none.argosmodel")
        Traceback (most recent call last):
        tf_transformer.errors.UserError: runs/none: not a run (it has no recipe.yaml); give a folder that `train` wrote
    """
    import_ctranslate2()
    path = free_package(destination)  # refused before anything is loaded
    facts = facts_of_run(run)
    if facts["task"] == "parsing":
        raise UserError(f"{run.path}: a parser, but Argos Translate only translates; export it as a SavedModel")
    own = facts["source_language"], facts["target_language"]
    codes = package_languages(*(given or code for given, code in zip(languages, own, strict=True)))
    facts |= {"source_language": codes[0], "target_language": codes[1]}
    model, tokenizers = load_model(run.best_checkpoint()), run.load_tokenizers()
    return export_argos(model, tokenizers, path, codes, quantization, tag, facts)


def export_run_marian(run: RunDirectory, destination: str | os.PathLike) -> Path:
    """Exports a run's best checkpoint as a MarianMT folder of the transformers library; see `export_marian`.

    Example:
        >>> from tf_transformer.runs.directory import RunDirectory
        >>> export_run_marian(RunDirectory.open("runs/none"), "marian/none")
        Traceback (most recent call last):
        tf_transformer.errors.UserError: runs/none: not a run (it has no recipe.yaml); give a folder that `train` wrote
    """
    folder = free_folder(destination)  # refused before anything is loaded
    recipe = load_recipe(run.recipe)
    model, tokenizers = load_model(run.best_checkpoint(), "float32"), run.load_tokenizers()
    languages = recipe.data.source_language, recipe.data.target_language
    return export_marian(model, tokenizers, folder, recipe.evaluation.decoding_options(), languages)
