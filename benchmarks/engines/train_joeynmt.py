"""JoeyNMT's Transformer with its own loss, batches and order of work in an update."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from torch_rounds import torch_training
from torch_weights import Weights
from training_worker import DROPOUT, LABEL_SMOOTHING, Batch, Options, Training, checked_rows, serve

# Where JoeyNMT has its special tokens.
PAD, END = 1, 3


def assign_weights(model: torch.nn.Module, arrays: dict[str, np.ndarray]) -> None:
    """Gives the model the weights of this package's."""
    weights = Weights(arrays)
    embeddings = arrays["encoder/embedding/embeddings"]
    weights.assign(model.src_embed.lut.weight, embeddings[_swapped(np.arange(len(embeddings)))])

    def assign_attention(attention: torch.nn.Module, norm: torch.nn.LayerNorm, name: str) -> None:
        layers = attention.q_layer, attention.k_layer, attention.v_layer, attention.output_layer
        for kind, layer in zip(("query", "key", "value", "output"), layers, strict=True):
            weights.linear(layer, f"{name}/{kind}")
        weights.norm(norm, f"{name}_residual")

    for side, stack in ("encoder", model.encoder), ("decoder", model.decoder):
        for i, layer in enumerate(stack.layers):
            name = f"{side}/layer_{i}"
            if side == "encoder":
                assign_attention(layer.src_src_att, layer.layer_norm, f"{name}/self_attention")
            else:
                assign_attention(layer.trg_trg_att, layer.x_layer_norm, f"{name}/self_attention")
                assign_attention(layer.src_trg_att, layer.dec_layer_norm, f"{name}/cross_attention")
            hidden, _, _, output, _ = layer.feed_forward.pwff_layer
            weights.linear(hidden, f"{name}/feed_forward/hidden")
            weights.linear(output, f"{name}/feed_forward/output")
            weights.norm(layer.feed_forward.layer_norm, f"{name}/feed_forward_residual")


def _swapped(ids: np.ndarray) -> np.ndarray:
    """This package's ids as JoeyNMT's: padding and the unknown token change places."""
    return np.where(ids < 2, 1 - ids, ids)


def load(options: Options, batches: list[Batch]) -> Training:
    from joeynmt.batch import Batch as JoeyBatch
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    torch.set_num_threads(options["threads"])
    sizes = options["sizes"]
    special = {"unk": 0, "pad": PAD, "bos": 2, "eos": END}
    names = {f"{name}_token": f"<{name}>" for name in special} | {f"{name}_id": i for name, i in special.items()}
    # It is given ids, so the tokens may be called anything.
    tokens = [str(i) for i in range(len(special), sizes["vocab_size"])]
    vocabulary = Vocabulary(tokens, SimpleNamespace(**names, sep_token=None, sep_id=None, lang_tags=[]))
    stack = {
        "type": "transformer",
        "num_layers": sizes["num_layers"],
        "num_heads": sizes["num_heads"],
        "hidden_size": sizes["d_model"],
        "ff_size": sizes["dff"],
        "dropout": DROPOUT,
        "layer_norm": "post",
        "embeddings": {"embedding_dim": sizes["d_model"], "scale": True},
    }
    config = {"encoder": stack, "decoder": stack, "tied_embeddings": True, "tied_softmax": True}
    model = build_model(config, vocabulary, vocabulary)
    model.loss_function = "crossentropy", LABEL_SMOOTHING
    for layer in model.modules():
        # Dropout where the others have it: JoeyNMT's own is on the attention and inside the feed-forward as well.
        if hasattr(layer, "head_size"):
            layer.dropout.p = 0.0
        elif hasattr(layer, "pwff_layer"):
            layer.pwff_layer[2].p = 0.0
    with np.load(options["weights"]) as arrays:
        assign_weights(model, dict(arrays))
    # Its loss is the divergence from the smoothed labels: cross-entropy less their entropy.
    share, others = LABEL_SMOOTHING / (sizes["vocab_size"] - 2), 1 - LABEL_SMOOTHING
    entropy = -others * np.log(others) - LABEL_SMOOTHING * np.log(share)

    def joey_batch(batch: Batch) -> tuple[JoeyBatch]:
        source, target = (
            torch.tensor(_swapped(ids), dtype=torch.int64)
            for ids in (batch.source, np.concatenate([batch.target[:, :1], batch.labels], axis=1))
        )
        lengths = (source != PAD).sum(dim=1)
        rows, device = torch.arange(len(source)), torch.device("cpu")
        return (JoeyBatch(source, lengths, None, target, None, rows, device, PAD, END),)

    def loss(batch: JoeyBatch) -> torch.Tensor:
        total, *_ = model(return_type="loss", **vars(batch))
        return batch.normalize(total, "tokens") + entropy

    rounds = [joey_batch(batch) for batch in batches]
    return torch_training(model, loss, loss, rounds, joey_batch(checked_rows(batches)))


if __name__ == "__main__":
    serve(load, ["joeynmt", "torch"])
