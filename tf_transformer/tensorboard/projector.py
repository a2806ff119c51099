"""The token embeddings for TensorBoard's tab Projector, each with its token's name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

if TYPE_CHECKING:
    from tf_transformer.tokenizers import TokenizerPair


class EmbeddingProjector(keras.callbacks.Callback):
    """Writes the embeddings when the training ends: the source's, and the target's where they are others.

    Args:
        tokenizers: name the tokens.
        log_dir: a folder that holds event files too: TensorBoard looks nowhere else.
    """

    def __init__(self, tokenizers: TokenizerPair, log_dir: str | os.PathLike) -> None:
        super().__init__()
        self.tokenizers = tokenizers
        self.log_dir = Path(log_dir)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        from tensorboard.plugins import projector

        sides = {"source": (self.model.encoder, self.tokenizers.source)}
        if self.model.share_embeddings != "all":
            sides["target"] = (self.model.decoder, self.tokenizers.target)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        config = projector.ProjectorConfig()
        for side, (stack, tokenizer) in sides.items():
            table = np.asarray(keras.ops.convert_to_numpy(stack.embedding.embeddings), "<f4")
            (self.log_dir / f"{side}.bytes").write_bytes(table.tobytes())
            # A line a token: what would end one early, or not be seen, is shown as Python writes it.
            names = tokenizer.pieces(list(range(tokenizer.vocab_size)))
            lines = (name if name.strip() and name.isprintable() else ascii(name) for name in names)
            (self.log_dir / f"{side}.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            # Paths in the folder itself, which may be moved.
            config.embeddings.add(
                tensor_name=f"{side} tokens",
                tensor_path=f"{side}.bytes",
                tensor_shape=table.shape,
                metadata_path=f"{side}.tsv",
            )
        projector.visualize_embeddings(str(self.log_dir), config)
