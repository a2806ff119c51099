"""What a MarianMT model's `config.json` and `generation_config.json` say, in this package's terms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tf_transformer.errors import UserError

Config = Mapping[str, Any]

# What MarianConfig has where a file says nothing.
DEFAULTS = {
    "vocab_size": 58101,
    "decoder_vocab_size": None,
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "activation_function": "gelu",
    "d_model": 1024,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "pad_token_id": 58100,
    "decoder_start_token_id": 58100,
    "eos_token_id": 0,
    "forced_eos_token_id": 0,
}

# What is no more than one thing here. The last five are of older files; the transformers library does not read them.
ONLY = {
    "model_type": "marian",
    "is_encoder_decoder": True,
    "is_decoder": False,
    "encoder_layerdrop": 0,
    "decoder_layerdrop": 0,
    "quantization_config": None,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "gradient_checkpointing": False,
}

# What a search may be asked for that this package's does not do; and the value that asks for nothing, as null and an
# empty list do. `early_stopping` is not among them: a search ends otherwise here whatever it says.
SEARCH_ONLY = {
    "do_sample": False,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "forced_bos_token_id": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "exponential_decay_length_penalty": None,
    "penalty_alpha": None,
    "force_words_ids": None,
    "forced_decoder_ids": None,
    "constraints": None,
    "guidance_scale": 1.0,
    "stop_strings": None,
    "watermarking_config": None,
}

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}


def with_defaults(config: Config, where: Path) -> dict[str, Any]:
    """A config with what it leaves out, checked: each key that this package's models can't follow is refused by name.

    Args:
        config: what `config.json` holds.
        where: the file, for errors.

    Raises:
        UserError: a key asks for what is not supported.
    """
    full = {**DEFAULTS, **config}
    for key, value in ONLY.items():
        _check(full.get(key, value) == value, where, key, full.get(key), f"only {_shown(value)} is supported")
    for side, other in ("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim"):
        _check(full[side] == full[other], where, other, full[other], f"it must be {side}, {full[side]}")
    for key in ("vocab_size", "d_model", "encoder_layers", "decoder_layers", "max_position_embeddings"):
        value = full[key]
        _check(isinstance(value, int) and value > 0, where, key, value, "it must be a positive whole number")
    activation = full["activation_function"]
    _check(
        activation in ACTIVATIONS, where, "activation_function", activation, f"supported are {', '.join(ACTIVATIONS)}"
    )
    _check(full["d_model"] % 2 == 0, where, "d_model", full["d_model"], "it must be even, for the sinusoids")
    shares = full["share_encoder_decoder_embeddings"]
    _check(
        full["tie_word_embeddings"] or not shares,
        where,
        "tie_word_embeddings",
        False,
        "with share_encoder_decoder_embeddings only true is supported",
    )
    full["decoder_vocab_size"] = full["decoder_vocab_size"] or full["vocab_size"]
    sizes = full["decoder_vocab_size"], full["vocab_size"]
    _check(
        not shares or sizes[0] == sizes[1], where, "decoder_vocab_size", sizes[0], f"it must be vocab_size, {sizes[1]}"
    )
    padding, end = full["pad_token_id"], full["eos_token_id"]
    for key, value in (("pad_token_id", padding), ("eos_token_id", end)):
        fits = isinstance(value, int) and 0 <= value < min(sizes)
        _check(fits, where, key, value, f"it must be one id of the vocabulary, less than {min(sizes)}")
    start, forced = full["decoder_start_token_id"], full["forced_eos_token_id"]
    _check(start == padding, where, "decoder_start_token_id", start, f"it must be pad_token_id, {padding}")
    _check(forced in (None, end), where, "forced_eos_token_id", forced, f"it must be eos_token_id, {end}, or null")
    return full


def model_arguments(config: Config) -> dict[str, Any]:
    """The arguments of the `Transformer` that computes what the model does, all but the sizes of its vocabularies.

    Args:
        config: as `with_defaults` gives it.
    """
    if config["share_encoder_decoder_embeddings"]:
        sharing = "all"
    else:
        sharing = "target" if config["tie_word_embeddings"] else "none"
    layers = config["encoder_layers"], config["decoder_layers"]
    return {
        "num_layers": layers[0],
        "decoder_layers": layers[1] if layers[1] != layers[0] else None,
        "d_model": config["d_model"],
        "num_heads": config["encoder_attention_heads"],
        "dff": config["encoder_ffn_dim"],
        "dropout_rate": config["dropout"],
        "attention_dropout_rate": config["attention_dropout"],
        "activation_dropout_rate": config["activation_dropout"],
        "max_length": config["max_position_embeddings"],
        "share_embeddings": sharing,
        "activation": ACTIVATIONS[config["activation_function"]],
        "scale_embeddings": bool(config["scale_embedding"]),
        "norm_epsilon": 1e-5,  # PyTorch's, which no file says
        "position": "sinusoidal_halves",
        "output_bias": True,
    }


def search_settings(config: Config, generation: Config, where: Path) -> dict[str, Any]:
    """How the model is asked to translate: keys of a recipe's section `evaluation`.

    Args:
        config: as `with_defaults` gives it; older files say here what newer ones say in `generation_config.json`.
        generation: what that file holds, empty if there is none.
        where: the file that they are in, for errors.

    Raises:
        UserError: a key asks for what the search does not do.
    """
    told = _told(config, generation)
    for key, value in SEARCH_ONLY.items():
        _check(
            told.get(key, value) in (value, None, []), where, key, told.get(key), f"only {_shown(value)} is supported"
        )
    banned, padding = told.get("bad_words_ids"), config["pad_token_id"]
    _check(
        banned in (None, [], [[padding]]), where, "bad_words_ids", banned, f"only [[{padding}]], padding, is supported"
    )
    for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        _check(told[key] == config[key], where, key, told[key], f"config.json has {config[key]}; make them the same")
    beam_size, alpha = told.get("num_beams") or 1, told.get("length_penalty", 1.0)
    alpha = 1.0 if alpha is None else alpha
    is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool) and 0 <= alpha <= 10
    _check(is_number, where, "length_penalty", alpha, "it must be from 0 to 10")
    return {
        "beam_size": beam_size,
        "alpha": float(alpha),
        "length_offset": 0.0,
        "no_repeat_ngram_size": told.get("no_repeat_ngram_size") or 0,
        # Translations are as long as there are positions.
        "extra_length": config["max_position_embeddings"],
    }


def renormalizes(config: Config, generation: Config, where: Path) -> bool:
    """Whether probabilities are normalised again without what may not be said, which is padding.

    Args:
        config: as `with_defaults` gives it.
        generation: what `generation_config.json` holds, empty if there is none.
        where: the file that the key is in, for errors.

    Raises:
        UserError: the key is neither true nor false.
    """
    value = _told(config, generation).get("renormalize_logits")
    _check(value in (True, False, None), where, "renormalize_logits", value, "it must be true or false")
    return bool(value)


def _told(config: Config, generation: Config) -> dict[str, Any]:
    """What both files say; the second comes first."""
    return {**config, **{key: value for key, value in generation.items() if value is not None}}


def _check(allowed: bool, where: Path, key: str, value: Any, rule: str) -> None:
    if not allowed:
        raise UserError(f"{where}: {key} is {_shown(value)}; {rule}")


def _shown(value: Any) -> str:
    """A value as JSON has it, text but for its quotes, and not much of it."""
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text[:80]
