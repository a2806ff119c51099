"""Exports a trained model for CTranslate2, a library for fast decoding without TensorFlow on CPU and GPU."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.export.destinations import free_folder
from tf_transformer.files.checksums import write_checksums
from tf_transformer.files.whole import folder_written_new
from tf_transformer.model_card.facts import Facts, facts_of_model
from tf_transformer.model_card.files import write_card
from tf_transformer.translation.ctranslate2_format import SETTINGS, TOKENIZER, import_ctranslate2

if TYPE_CHECKING:
    from tf_transformer.layers import FeedForward, MultiHeadAttention
    from tf_transformer.layers.stack import Stack
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.tokenizers import TokenizerPair

USE = "To use it, run `tf-transformer translate FOLDER --engine ctranslate2` with the folder of the model."


def export_ctranslate2(
    model: SequenceModel,
    tokenizers: TokenizerPair,
    destination: str | os.PathLike,
    quantization: str | None = None,
    options: DecodingOptions | None = None,
    facts: Facts | None = None,
) -> Path:
    """Writes a folder with everything that CTranslate2 needs to translate: model, vocabularies and tokenizers.

    Args:
        model: a built Transformer.
        tokenizers: the tokenizers it was trained with.
        destination: the folder to make.
        quantization: how the matrices are stored, such as "int8" or "float16"; float32 unless given.
        options: how translations are searched for, unless a call says otherwise.
        facts: of a run, for the model card; those of the model itself unless given.

    Returns:
        The folder written.

    Raises:
        UserError: CTranslate2 isn't installed or does not know the quantization, the model is a parser's, or the
            folder is not empty or can't be written; or the model is not a Transformer.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> from tf_transformer.export.ctranslate2 import export_ctranslate2
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund"), ("a cat", "eine Katze")], vocab_size=290)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=290, target_vocab_size=290, max_length=64)
        >>> model.build(((None, None), (None, None)))
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     folder = export_ctranslate2(model, tokenizers, f"{directory}/int8", quantization="int8")
        ...     sorted(file.name for file in folder.iterdir() if file.suffix in (".bin", ".md"))
        ['model.bin', 'model_card.md']
    """
    check_model(model, tokenizers)
    folder = free_folder(destination)
    spec = quantized(transformer_spec(model, tokenizers), quantization)
    options = options or DecodingOptions()
    settings = {"max_length": model.max_length, "decoding": asdict(options)}
    spec.config.add_attribute(SETTINGS, settings)
    with folder_written_new(folder, "the CTranslate2 model") as partial:
        spec.save(str(partial))
        tokenizers.save(partial / TOKENIZER)
        write_checksums(partial)  # of all but the model card, which a person may add to
        write_card(partial, facts or facts_of_model(model, options, tags=tokenizers.source.tags), USE)
    return folder


def check_model(model: SequenceModel, tokenizers: TokenizerPair) -> None:
    """Checks that CTranslate2 can compute what a model does.

    Raises:
        UserError: it can't, with the reason.
    """
    from tf_transformer.models.transformer import Transformer

    if not isinstance(model, Transformer):
        raise UserError(f"CTranslate2 supports Transformers, not a {type(model).__name__}; export this as a SavedModel")
    if model.window is not None:
        raise UserError("CTranslate2 does not support attention with a window; export this as a SavedModel")
    for key in "next_word", "tree_state":
        if getattr(model, key) is not None:
            raise UserError(f"CTranslate2 does not support model.{key}; export this as a SavedModel")
    if tokenizers.for_parsing:
        raise UserError("CTranslate2 can't restrict its search to trees; export a parser as a SavedModel")


def quantized(spec: Any, quantization: str | None) -> Any:
    """Rounds a specification's matrices to a type; None leaves them as they are.

    Raises:
        UserError: CTranslate2 does not know the type, or can't make it here.
    """
    from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES

    if quantization not in (None, *ACCEPTED_MODEL_TYPES):
        raise UserError(f"quantization {quantization!r} is not known; choose one of {', '.join(ACCEPTED_MODEL_TYPES)}")
    spec.validate()
    try:
        spec.optimize(quantization)
    except RuntimeError as error:  # bfloat16 needs PyTorch, which NumPy has no such type without
        raise UserError(f"quantization {quantization!r}: {error}; install it, or choose float16 or int8") from error
    return spec


def transformer_spec(model: SequenceModel, tokenizers: TokenizerPair) -> Any:
    """Describes a model in CTranslate2's terms, a `ctranslate2.specs.TransformerSpec` with all its weights.

    Raises:
        UserError: CTranslate2 isn't installed.
    """
    specs = import_ctranslate2().specs
    layers = len(model.encoder.layers), len(model.decoder.layers)
    activations = specs.Activation
    activation = {"relu": activations.RELU, "gelu": activations.GELU, "swish": activations.SWISH}[model.activation]
    spec = specs.TransformerSpec.from_config(layers, model.num_heads, pre_norm=model.norm_first, activation=activation)
    _set_stack(spec.encoder, model.encoder)
    _set_stack(spec.decoder, model.decoder)
    for layer_spec, layer in zip(spec.decoder.layer, model.decoder.layers, strict=True):
        _set_attention(layer_spec.attention, layer.cross_attention)
        _set_norm(layer_spec.attention.layer_norm, layer.cross_attention_residual.norm)
    if model.share_embeddings == "none":
        spec.decoder.projection.weight = _array(model.projection.kernel).T
    else:
        spec.decoder.projection.weight = _array(model.decoder.embedding.embeddings)
    if model.output_bias:
        spec.decoder.projection.bias = _array(model.bias)

    source, target = (
        tokenizer.pieces(list(range(tokenizer.vocab_size))) for tokenizer in (tokenizers.source, tokenizers.target)
    )
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    _, spec.config.unk_token, start, spec.config.eos_token = target[:4]
    spec.config.bos_token = spec.config.decoder_start_token = start
    spec.config.layer_norm_epsilon = model.encoder.layers[0].feed_forward_residual.norm.epsilon
    return spec


def _set_stack(spec: Any, stack: Stack) -> None:
    """Sets what encoder and decoder have in common."""
    embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    embeddings.weight = _array(stack.embedding.embeddings)
    spec.scale_embeddings = stack.embedding.scaled
    # Explicit: the sinusoids that CTranslate2 works out itself are those in halves.
    spec.position_encodings.encodings = _array(stack.position_encoding.table)
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        _set_attention(layer_spec.self_attention, layer.self_attention)
        _set_norm(layer_spec.self_attention.layer_norm, layer.self_attention_residual.norm)
        _set_feed_forward(layer_spec.ffn, layer.feed_forward)
        _set_norm(layer_spec.ffn.layer_norm, layer.feed_forward_residual.norm)
    if stack.norm_first:
        _set_norm(spec.layer_norm, stack.norm)


def _set_attention(spec: Any, attention: MultiHeadAttention) -> None:
    heads = attention.num_heads
    layers = (attention.query, attention.key, attention.value)
    key_width, _, value_width = (layer.units // heads for layer in layers)
    # CTranslate2 has one width for queries, keys and values. Zeros change neither the dot products nor the output.
    width = max(key_width, value_width)
    weights = [_widen_heads(_array(layer.kernel).T, heads, width) for layer in layers]
    biases = [_widen_heads(_array(layer.bias), heads, width) for layer in layers]
    # Self-attention has all three in one matrix, encoder-decoder attention only keys and values.
    fused = [slice(0, 3)] if len(spec.linear) == 2 else [slice(0, 1), slice(1, 3)]
    for linear, part in zip(spec.linear[:-1], fused, strict=True):
        linear.weight, linear.bias = np.concatenate(weights[part]), np.concatenate(biases[part])
    output = attention.output_projection
    spec.linear[-1].weight = _widen_heads(_array(output.kernel), heads, width).T
    spec.linear[-1].bias = _array(output.bias)
    spec.queries_scale = 1 / math.sqrt(key_width)


def _widen_heads(x: np.ndarray, heads: int, width: int) -> np.ndarray:
    """Pads each head's rows of `x` (heads * any width, ...) with zeros to `width`."""
    x = x.reshape(heads, -1, *x.shape[1:])
    padding = [(0, 0)] * x.ndim
    padding[1] = (0, width - x.shape[1])
    return np.pad(x, padding).reshape(heads * width, *x.shape[2:])


def _set_feed_forward(spec: Any, feed_forward: FeedForward) -> None:
    for linear, layer in (spec.linear_0, feed_forward.hidden), (spec.linear_1, feed_forward.output_projection):
        linear.weight, linear.bias = _array(layer.kernel).T, _array(layer.bias)


def _set_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.gamma), _array(norm.beta)


def _array(weight: Any) -> np.ndarray:
    from keras import ops

    return np.ascontiguousarray(ops.convert_to_numpy(weight), dtype="float32")
