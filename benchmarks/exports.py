"""One trained model in every engine's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tf_transformer.models.transformer import Transformer
from tf_transformer.tokenizers import TokenizerPair
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID, UNKNOWN_ID

# What OpenNMT-tf and Marian are told nothing of.
PLAIN = {
    "share_embeddings": "all",
    "norm_first": False,
    "key_dim": None,
    "value_dim": None,
    "activation": "relu",
    "position": "sinusoidal",
    "scale_embeddings": True,
    "output_bias": False,
    "window": None,
    "decoder_layers": None,
    "told": None,
}

# As in the paper: a translation may have so many tokens more than its source.
EXTRA_LENGTH = 50


def export_saved_model(
    model: Transformer, tokenizers: TokenizerPair, folder: Path, beam_size: int, alpha: float
) -> None:
    """Writes this package's own SavedModel; its beam size is fixed here."""
    from tf_transformer.decoding.options import DecodingOptions
    from tf_transformer.export import export_saved_model
    from tf_transformer.translation import Translator

    options = DecodingOptions(beam_size=beam_size, alpha=alpha, extra_length=EXTRA_LENGTH)
    export_saved_model(Translator(model, tokenizers, options, compiled=True), folder)


def write_weights(model: Transformer, file: Path) -> None:
    """Writes a built model's weights by their paths, and its table of positions, as a NumPy archive."""
    weights = {weight.path.split("/", 1)[1]: weight.numpy() for weight in model.weights}
    np.savez(file, positions=np.asarray(model.encoder.position_encoding.table), **weights)


def special_tokens(tokenizers: TokenizerPair) -> dict[str, Any]:
    """What an engine is told of padding and of the tokens that begin and end a sentence."""
    special = {"pad": PAD_ID, "unknown": UNKNOWN_ID, "start": START_ID, "end": END_ID}
    return {
        "special_ids": special,
        "special_pieces": {name: tokenizers.source.pieces([i])[0] for name, i in special.items()},
    }


def write_plain_weights(model: Transformer, tokenizers: TokenizerPair, folder: Path) -> dict[str, Any]:
    """Writes weights and vocabulary as an engine with another Python reads them.

    Returns:
        The engines' options: where the two files are, and the model's sizes.

    Raises:
        SystemExit: a model that the peers have no form for.
    """
    unlike = [name for name, value in PLAIN.items() if getattr(model, name, value) != value]
    if unlike or not isinstance(model, Transformer):
        raise SystemExit(
            "only the paper's model with share_embeddings: all can be converted for OpenNMT-tf and Marian; this "
            f"{type(model).__name__} differs{' in ' * bool(unlike)}{', '.join(unlike)}: leave these two out with "
            "--engines"
        )
    write_weights(model, folder / "weights.npz")
    pieces = tokenizers.source.pieces(list(range(tokenizers.source.vocab_size)))
    (folder / "vocabulary.json").write_text(json.dumps(pieces), encoding="utf-8")
    return {
        "weights": str(folder / "weights.npz"),
        "vocabulary": str(folder / "vocabulary.json"),
        "opennmt_vocabulary": str(folder / "opennmt.vocabulary"),
        "sizes": {
            "num_layers": model.num_layers,
            "d_model": model.d_model,
            "num_heads": model.num_heads,
            "dff": model.dff,
            "vocab_size": len(pieces),
            "max_length": model.max_length,
            "epsilon": model.encoder.layers[0].feed_forward_residual.norm.epsilon,
        },
    }
