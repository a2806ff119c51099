"""Exports a trained model as a package of Argos Translate, a program that translates without a network.

LibreTranslate, a server, installs the same packages. A package is a zip file of one folder: `metadata.json`, the model
for CTranslate2 in `model`, the SentencePiece model that splits texts and joins translations, and a page about it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.export.ctranslate2 import check_model, quantized, transformer_spec
from tf_transformer.export.destinations import free_package
from tf_transformer.files.whole import written_new
from tf_transformer.languages import UNKNOWN_LANGUAGE, language_name, short_code
from tf_transformer.layers.positions import positional_encoding
from tf_transformer.model_card.facts import Facts, facts_of_model
from tf_transformer.model_card.page import as_markdown
from tf_transformer.models.sequence_model import NEVER
from tf_transformer.tokenizers import MarianTokenizer, SentencePieceTokenizer, TokenizerPair
from tf_transformer.tokenizers.base import END_ID, PAD_ID

if TYPE_CHECKING:
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.models.transformer import Transformer
    from tf_transformer.tokenizers import Tokenizer

VERSION = "1.0"
# Argos Translate has CTranslate2 cut sentences here; a model with fewer positions would fail on them.
POSITIONS = 1024

_CODE = re.compile("[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")


def package_languages(*codes: str) -> list[str]:
    """The codes of a package's two languages as Argos Translate writes them: of two letters where there is one.

    Raises:
        UserError: one is not known, or can't be a code.

    Example:
        >>> from tf_transformer.export.argos import package_languages
        >>> package_languages("eng", "de")
        ['en', 'de']
    """
    for side, code in zip(("source", "target"), codes, strict=True):
        if code == UNKNOWN_LANGUAGE:
            raise UserError(f"the model's {side} language is not known; give its code, as in --{side}-language en")
        if not _CODE.fullmatch(code):
            raise UserError(f"the {side} language is {code[:40]!r}; give the code of a language, such as en or pt-BR")
    return [short_code(code) for code in codes]


def export_argos(
    model: SequenceModel,
    tokenizers: TokenizerPair,
    destination: str | os.PathLike,
    languages: Sequence[str],
    quantization: str | None = None,
    tag: str | None = None,
    facts: Facts | None = None,
) -> Path:
    """Writes a package for Argos Translate.

    Args:
        model: a built Transformer.
        tokenizers: the tokenizers it was trained with, of SentencePiece.
        destination: the file to make; its name ends in `.argosmodel`.
        languages: the codes of source and target.
        quantization: how the matrices are stored, such as "int8" or "float16"; float32 unless given.
        tag: what a multilingual model needs before each text, such as `>>deu<<`.
        facts: of a run, for the package's page; those of the model itself unless given.

    Returns:
        The file written.

    Raises:
        UserError: Argos Translate does not support the model, CTranslate2 isn't installed, or the file is
            already there or can't be written.

    Example:
        >>> import tempfile, zipfile
        >>> import tf_transformer as tt
        >>> from tf_transformer.export.argos import export_argos
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund"), ("a cat", "eine Katze")], vocab_size=290)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=290, target_vocab_size=290, max_length=64)
        >>> model.build(((None, None), (None, None)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     package = export_argos(model, tokenizers, f"{folder}/en_de.argosmodel", ("en", "de"))
        ...     sorted(zipfile.ZipFile(package).namelist())[0]
        'translate-en_de-1_0/README.md'
    """
    path, languages = free_package(destination), package_languages(*languages)
    check_model(model, tokenizers)
    metadata, splitting = _metadata(languages), _sentencepiece_model(tokenizers)
    _check_tag(tokenizers.source, tag)
    spec = quantized(_spec(model, tokenizers, tag), quantization)
    facts = facts or facts_of_model(model, DecodingOptions())
    page = as_markdown(facts, use="To use it, install it in Argos Translate.")
    root = f"translate-{'_'.join(languages)}-{VERSION.replace('.', '_')}"
    with suppress(OSError):  # told when the file is written
        path.parent.mkdir(parents=True, exist_ok=True)
    with written_new(path, "the package") as partial, tempfile.TemporaryDirectory(dir=path.parent) as folder:
        spec.save(folder)
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as package:
            package.writestr(f"{root}/metadata.json", json.dumps(metadata, indent=2) + "\n")
            package.writestr(f"{root}/README.md", page)
            package.writestr(f"{root}/sentencepiece.model", splitting)
            for file in sorted(Path(folder).iterdir()):
                package.write(file, f"{root}/model/{file.name}")
    return path


def _metadata(languages: Sequence[str]) -> dict[str, Any]:
    source, target = languages
    return {
        "package_version": VERSION,
        "argos_version": "1.11",  # it was tried with this one; none is asked for
        "from_code": source,
        "from_name": language_name(source),
        "to_code": target,
        "to_name": language_name(target),
    }


def _sentencepiece_model(tokenizers: TokenizerPair) -> bytes:
    """The one model that a package can have, which splits texts, and joins translations too.

    Raises:
        UserError: there is none, or it would join the target's pieces otherwise than the target's own.
    """
    from sentencepiece import SentencePieceProcessor

    source, target = (_model_of(tokenizer, tokenizers.kind) for tokenizer in (tokenizers.source, tokenizers.target))
    if source != target:
        pieces = tokenizers.target.pieces(list(range(END_ID + 1, tokenizers.target.vocab_size)))
        joining, own = (SentencePieceProcessor(model_proto=model) for model in (source, target))
        # The first piece loses its blank: so another stands before each.
        misread = [piece for piece in pieces if _joined(joining, pieces[-1], piece) != _joined(own, pieces[-1], piece)]
        if misread:
            raise UserError(
                "Argos Translate joins a translation's pieces with the source's SentencePiece model, which decodes "
                f"{len(misread)} of the target's pieces differently, such as {misread[0]!r}; export this as a "
                "SavedModel"
            )
    return source


def _joined(processor: Any, *pieces: str) -> str:
    return processor.decode_pieces(list(pieces)).replace("▁", " ")


def _model_of(tokenizer: Tokenizer, kind: str) -> bytes:
    if isinstance(tokenizer, MarianTokenizer):
        return tokenizer.sentencepiece_model
    if isinstance(tokenizer, SentencePieceTokenizer):
        return tokenizer.to_bytes()
    raise UserError(
        f"Argos Translate splits text with SentencePiece, and this model's tokenizer is of kind {kind}; train one with "
        "tokenizer.kind bpe or unigram, or export this as a SavedModel"
    )


def _check_tag(tokenizer: Tokenizer, tag: str | None) -> None:
    tags = tokenizer.tags
    told = ", ".join(tags[:5]) + (f" and {len(tags) - 5} more" if len(tags) > 5 else "")
    if tags and tag not in tags:
        raise UserError(
            f"this is a multilingual model, and a package translates into one language; give its tag, as in "
            f"--tag '{tags[0]}'; its tags: {told}"
        )
    if tag and not tags:
        raise UserError(f"--tag is {tag}, but the model has no tags; leave it out")


def _spec(model: Transformer, tokenizers: TokenizerPair, tag: str | None) -> Any:
    """The model in CTranslate2's terms, which does all by itself that the engine of this package does beside it."""
    spec = transformer_spec(model, tokenizers)
    spec.config.add_source_eos = True
    if tag:
        spec.config.add_source_bos, spec.config.bos_token = True, tag
    if not model.output_bias:
        spec.decoder.projection.bias = np.zeros(tokenizers.target.vocab_size, "float32")
    spec.decoder.projection.bias[PAD_ID] = NEVER  # the engine leaves it out of what may be said; Argos Translate can't
    for stack in spec.encoder, spec.decoder:
        encodings = stack.position_encodings
        encodings.encodings = _positions(encodings.encodings, model.position)
    return spec


def _positions(table: np.ndarray, kind: str) -> np.ndarray:
    """The positions and, up to `POSITIONS`, more: further sinusoids; of learned ones the last again."""
    length, depth = table.shape
    more = max(POSITIONS - length, 0)
    if kind == "learned":
        return np.pad(table, ((0, more), (0, 0)), mode="edge")
    return np.concatenate([table, positional_encoding(length + more, depth, kind == "sinusoidal_halves")[length:]])
