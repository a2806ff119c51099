"""Makes a run's folder of a MarianMT model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tf_transformer.errors import UserError
from tf_transformer.export.destinations import free_folder
from tf_transformer.files.checksums import digest
from tf_transformer.files.whole import folder_written_new
from tf_transformer.languages import UNKNOWN_LANGUAGE, short_code
from tf_transformer.marian.config import model_arguments
from tf_transformer.marian.folder import MarianFolder, read_config
from tf_transformer.model_card.facts import facts_of_run, versions
from tf_transformer.model_card.page import as_markdown
from tf_transformer.recipe import Recipe, save_recipe
from tf_transformer.recipe.mistakes import explain
from tf_transformer.runs.directory import RunDirectory

README = "README.md"


def import_marian(
    folder: str | os.PathLike,
    run: str | os.PathLike,
    source_language: str | None = None,
    target_language: str | None = None,
) -> RunDirectory:
    """Reads a MarianMT model, as OPUS-MT's come in the transformers library, into a new run's folder.

    Nothing in the folder is run, and PyTorch is not needed. The run is like that of a training run: it translates, is
    evaluated, inspected, exported and served like any other.

    Args:
        folder: has `config.json`, `vocab.json`, `source.spm`, `target.spm` and `model.safetensors` or
            `pytorch_model.bin`; `generation_config.json` and `tokenizer_config.json` are read if they are there.
        run: the run's folder to make.
        source_language: code of the language translated from, if `tokenizer_config.json` does not have it.
        target_language: the same of the language translated into.

    Returns:
        The run.

    Raises:
        UserError: a file is missing or damaged, the model is not supported, or `run` is already there.

    Example:
        >>> from tf_transformer.marian import import_marian
        >>> import_marian("opus-mt-en-de", "runs/opus-mt-en-de")
        Traceback (most recent call last):
        tf_transformer.errors.UserError: opus-mt-en-de: no config.json there; ...
    """
    from tf_transformer.marian.weights import set_weights
    from tf_transformer.models.transformer import Transformer

    check_import(folder, run)
    path = RunDirectory(run).path
    read = MarianFolder.read(Path(folder))
    # Of the two codes that a language may have these files name either; other programs expect the shorter one.
    told = (short_code(code or UNKNOWN_LANGUAGE) for code in read.languages)
    languages = [given or own for given, own in zip((source_language, target_language), told, strict=True)]
    tokenizers = read.tokenizers
    recipe = _recipe(read, path.absolute().name, languages)
    source, target = tokenizers.source, tokenizers.target
    model = Transformer(**recipe.model.arguments(source.vocab_size, target.vocab_size))
    model.build(((None, None), (None, None)))
    try:
        weights = read.read_weights()
        set_weights(model, weights, source.marian_ids, target.marian_ids, padding_counts=not read.renormalizes)
    except UserError as error:
        named = str(error) if str(error).startswith(str(read.path)) else f"{read.weights_file}: {error}"
        raise UserError(named) from None
    with folder_written_new(path, "the run", advice="choose another folder") as partial_folder:
        partial = RunDirectory(partial_folder)
        partial.checkpoints.mkdir()
        save_recipe(recipe, partial.recipe)
        tokenizers.save(partial.tokenizer)
        model.save(partial.best)
        origin = {"format": "MarianMT", "name": read.path.absolute().name, "weights": digest(read.weights_file)}
        partial.write_training({"parameters": model.count_params(), "imported": origin, "versions": versions()})
        if (read.path / README).is_file():
            shutil.copyfile(read.path / README, partial.path / f"origin_{README}")
        partial.card.write_text(as_markdown(facts_of_run(partial)), encoding="utf-8")
    return RunDirectory.open(path)


def check_import(folder: str | os.PathLike, run: str | os.PathLike) -> None:
    """Raises a UserError where files are missing or something lies, before anything is loaded that takes time.

    Args:
        folder: as `import_marian` takes it.
        run: the run's folder to make.
    """
    free_folder(run)
    read_config(Path(folder))


def _recipe(read: MarianFolder, name: str, languages: Sequence[str]) -> Recipe:
    """A recipe that says of the model what can be said."""
    arguments = model_arguments(read.config)
    settings: dict[str, Any] = {
        "name": name,
        "data": {
            "kind": "none",
            "source_language": languages[0],
            "target_language": languages[1],
            "max_length": min(128, arguments["max_length"]),
        },
        "tokenizer": {
            "kind": "marian",
            "vocab_size": read.tokenizers.source.vocab_size,
            "joint": read.config["share_encoder_decoder_embeddings"],
        },
        "model": arguments,
        # Of its training nothing is known; these two must be there.
        "training": {"steps": 1, "validate_every": 1},
        "evaluation": read.evaluation,
    }
    try:
        return Recipe.model_validate(settings)
    except ValidationError as error:
        raise explain(error, f"{name} (imported from {read.path})", {}) from None
