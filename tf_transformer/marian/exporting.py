"""Writes a model as a MarianMT folder, which the transformers library loads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.export.destinations import free_folder
from tf_transformer.files.whole import folder_written_new
from tf_transformer.layers.arguments import NORM_EPSILON
from tf_transformer.marian.config import DEFAULTS
from tf_transformer.marian.folder import (
    CONFIG,
    GENERATION,
    SAFE_WEIGHTS,
    SOURCE_MODEL,
    TARGET_MODEL,
    TARGET_VOCABULARY,
    TOKENIZER,
    VOCABULARY,
)
from tf_transformer.tokenizers import MarianTokenizer, SentencePieceTokenizer, TokenizerPair

if TYPE_CHECKING:
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.models.transformer import Transformer

# What MarianMT's class has no setting for, and what it computes with, or what can be made that.
FIXED = {
    "norm_first": (False,),
    "position": ("sinusoidal_halves", "sinusoidal"),
    "norm_epsilon": (1e-5, NORM_EPSILON),  # PyTorch's, and ours, which moves logits by less than 1e-4
    "key_dim": (None,),
    "value_dim": (None,),
    "window": (None,),
    "next_word": (None,),
    "tree_state": (None,),
}


# The kinds of tokenizer that are a SentencePiece model and ids for its pieces.
KINDS = ("marian", "bpe", "unigram")


def export_marian(
    model: SequenceModel,
    tokenizers: TokenizerPair,
    destination: str | os.PathLike,
    options: DecodingOptions | None = None,
    languages: tuple[str, str] | None = None,
) -> Path:
    """Writes a folder that `transformers.MarianMTModel` and `MarianTokenizer` load.

    Args:
        model: a built Transformer with the settings of MarianMT.
        tokenizers: its tokenizers, of SentencePiece or those of an imported model.
        destination: the folder to make.
        options: how translations are searched for.
        languages: the codes of the two languages.

    Returns:
        The folder written.

    Raises:
        UserError: MarianMT does not support the model, with every reason; or the folder is not empty or can't be
            written.

    Example:
        >>> import tf_transformer as tt
        >>> from tf_transformer.marian import export_marian
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund"), ("a cat", "eine Katze")], vocab_size=290)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=290, target_vocab_size=290, norm_first=True)
        >>> export_marian(model, tokenizers, "/tmp/marian")
        Traceback (most recent call last):
        tf_transformer.errors.UserError: the model can't be exported for MarianMT: model.norm_first is True, not False
    """
    from safetensors.numpy import save_file

    from tf_transformer.marian.weights import get_weights

    misfits = list(_misfits(model, tokenizers))
    if misfits:
        raise UserError(f"the model can't be exported for MarianMT: {'; '.join(misfits)}")
    folder = free_folder(destination)
    options = options or DecodingOptions()
    source, target = _as_marian(tokenizers.source), _as_marian(tokenizers.target)
    imported = source is tokenizers.source
    with folder_written_new(folder, "the MarianMT model") as partial:
        config = _config(model, source, target)
        _write_json(partial / CONFIG, config)
        _write_json(partial / GENERATION, _generation(config, options, model.max_length))
        (partial / SOURCE_MODEL).write_bytes(source.sentencepiece_model)
        (partial / TARGET_MODEL).write_bytes(target.sentencepiece_model)
        _write_json(partial / VOCABULARY, _ids(source))
        separate = source.vocabulary != target.vocabulary
        if separate:
            _write_json(partial / TARGET_VOCABULARY, _ids(target))
        _write_json(partial / TOKENIZER, _tokenizer(source, separate, languages, model.max_length))
        weights = get_weights(model, source.marian_ids, target.marian_ids, imported)
        save_file(weights, partial / SAFE_WEIGHTS, {"format": "pt"})
    return folder


def _misfits(model: SequenceModel, tokenizers: TokenizerPair) -> Iterator[str]:
    """Every reason why MarianMT's classes would not compute the same."""
    from tf_transformer.models.transformer import Transformer

    for kind in dict.fromkeys((tokenizers.kind, tokenizers.target_kind)):
        if kind not in KINDS:
            yield f"its tokenizer is of kind {kind}, not {', '.join(KINDS)}"
    if not isinstance(model, Transformer):
        yield f"it is a {type(model).__name__}, not a Transformer"
        return
    for key, values in FIXED.items():
        if getattr(model, key) not in values:
            yield f"model.{key} is {getattr(model, key)}, not {' or '.join(map(str, values))}"


def _as_marian(tokenizer: MarianTokenizer | SentencePieceTokenizer) -> MarianTokenizer:
    """A tokenizer with the same pieces and ids, which calls them as MarianMT's does."""
    if isinstance(tokenizer, MarianTokenizer):
        return tokenizer
    padding, unknown, _, end, *pieces = tokenizer.pieces(list(range(tokenizer.vocab_size)))
    special = {"end": end, "unknown": unknown, "padding": padding}
    return MarianTokenizer(tokenizer.to_bytes(), [*special.values(), *pieces], **special)


def _config(model: Transformer, source: MarianTokenizer, target: MarianTokenizer) -> dict[str, Any]:
    padding, _, _, end = source.marian_ids[:4]
    layers = model.num_layers, len(model.decoder.layers)
    known = {
        "vocab_size": len(source.vocabulary),
        "decoder_vocab_size": len(target.vocabulary),
        "max_position_embeddings": model.max_length,
        "encoder_layers": layers[0],
        "decoder_layers": layers[1],
        **{f"{side}_ffn_dim": model.dff for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": model.num_heads for side in ("encoder", "decoder")},
        "activation_function": model.activation,
        "d_model": model.d_model,
        "dropout": model.dropout_rate,
        "attention_dropout": model.attention_dropout_rate,
        "activation_dropout": model.activation_dropout_rate,
        "scale_embedding": model.scale_embeddings,
        "share_encoder_decoder_embeddings": model.share_embeddings == "all",
        "tie_word_embeddings": model.share_embeddings != "none",
        "pad_token_id": padding,
        "decoder_start_token_id": padding,
        "eos_token_id": end,
        "forced_eos_token_id": end,
    }
    first = {"architectures": ["MarianMTModel"], "model_type": "marian", "is_encoder_decoder": True}
    return {**first, **{key: known[key] for key in DEFAULTS}}


def _generation(config: dict[str, Any], options: DecodingOptions, positions: int) -> dict[str, Any]:
    """The search as far as the library has it; its score is `log P / length^length_penalty`."""
    ids = {
        key: config[key] for key in ("pad_token_id", "decoder_start_token_id", "eos_token_id", "forced_eos_token_id")
    }
    return {
        **ids,
        "bad_words_ids": [[config["pad_token_id"]]],
        "max_length": positions,
        "num_beams": options.beam_size,
        "length_penalty": options.alpha,
        "no_repeat_ngram_size": options.no_repeat_ngram_size,
    }


def _tokenizer(
    source: MarianTokenizer, separate: bool, languages: tuple[str, str] | None, positions: int
) -> dict[str, Any]:
    end, unknown, padding = source.special_pieces
    source_language, target_language = languages or (None, None)
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": source_language,
        "target_lang": target_language,
        "eos_token": end,
        "unk_token": unknown,
        "pad_token": padding,
        "model_max_length": positions,
        "separate_vocabs": separate,
    }


def _ids(tokenizer: MarianTokenizer) -> dict[str, int]:
    return {piece: place for place, piece in enumerate(tokenizer.vocabulary)}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
