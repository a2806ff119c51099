"""`torch.nn.Transformer` between one tied embedding and projection."""

from __future__ import annotations

import numpy as np
import torch
from torch_processes import in_processes
from torch_rounds import in_precision, set_up_device, torch_training
from torch_weights import Weights
from training_worker import DROPOUT, LABEL_SMOOTHING, Batch, Options, Share, Training, checked_rows, serve


class Translator(torch.nn.Module):
    """Embedding, `torch.nn.Transformer`, projection.

    Args:
        sizes: num_layers, d_model, num_heads, dff, vocab_size and the layer norms' epsilon.
        positions: the table added to the embeddings, float (max_length, d_model).
    """

    def __init__(self, sizes: dict, positions: torch.Tensor) -> None:
        super().__init__()
        self.scale = sizes["d_model"] ** 0.5
        self.embedding = torch.nn.Embedding(sizes["vocab_size"], sizes["d_model"])
        self.dropout = torch.nn.Dropout(DROPOUT)
        self.register_buffer("positions", positions)
        self.transformer = torch.nn.Transformer(
            sizes["d_model"],
            sizes["num_heads"],
            sizes["num_layers"],
            sizes["num_layers"],
            sizes["dff"],
            DROPOUT,
            layer_norm_eps=sizes["epsilon"],
            batch_first=True,
        )
        # It has one more norm at the end of each stack, and dropout on the attention and inside the feed-forward.
        self.transformer.encoder.norm = self.transformer.decoder.norm = None
        for module in self.transformer.modules():
            if isinstance(module, torch.nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, torch.nn.TransformerEncoderLayer | torch.nn.TransformerDecoderLayer):
                module.dropout.p = 0.0

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, source: torch.Tensor, target: torch.Tensor, look_ahead: torch.Tensor) -> torch.Tensor:
        """Maps ids (batch, source length) and (batch, target length) to logits (batch, target length, vocabulary)."""
        padding = source == 0
        x = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=look_ahead,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return torch.nn.functional.linear(x, self.embedding.weight)


def assign_weights(model: Translator, arrays: dict[str, np.ndarray]) -> None:
    """Gives the model the weights of this package's."""
    weights = Weights(arrays)
    weights.assign(model.embedding.weight, arrays["encoder/embedding/embeddings"])
    for side, stack in ("encoder", model.transformer.encoder), ("decoder", model.transformer.decoder):
        for i, layer in enumerate(stack.layers):
            name = f"{side}/layer_{i}"
            attentions = [("self_attention", layer.self_attn, layer.norm1)]
            if side == "decoder":
                attentions.append(("cross_attention", layer.multihead_attn, layer.norm2))
            for part, attention, norm in attentions:
                weights.joined(attention, f"{name}/{part}")
                weights.norm(norm, f"{name}/{part}_residual")
            weights.linear(layer.linear1, f"{name}/feed_forward/hidden")
            weights.linear(layer.linear2, f"{name}/feed_forward/output")
            weights.norm(layer.norm2 if side == "encoder" else layer.norm3, f"{name}/feed_forward_residual")


def load(options: Options, batches: list[Batch]) -> Training:
    if options.get("processes"):
        return in_processes(make, options, batches)
    return make(options, batches)


def make(options: Options, batches: list[Batch], share: Share | None = None) -> Training:
    """The training of all rows, or of a process's share of them."""
    device = set_up_device(options)
    torch.backends.mha.set_fastpath_enabled(False)  # evaluation's; it doesn't work with autocast
    with np.load(options["weights"]) as file:
        arrays = dict(file)
    model = Translator(options["sizes"], torch.tensor(arrays["positions"]))
    assign_weights(model, arrays)
    model.to(device)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=LABEL_SMOOTHING, ignore_index=0)

    def loss(*batch: torch.Tensor) -> torch.Tensor:
        source, target, labels, look_ahead = batch
        return criterion(model(source, target, look_ahead).flatten(0, 1), labels.flatten())

    def tensors(batch: Batch) -> tuple[torch.Tensor, ...]:
        # Boolean like the padding mask, True where nothing is seen.
        look_ahead = torch.ones(batch.target.shape[1], batch.target.shape[1], dtype=torch.bool).triu(1)
        return *(torch.tensor(ids, dtype=torch.int64, device=device) for ids in batch), look_ahead.to(device)

    checked = tensors(checked_rows(batches))
    loss = in_precision(loss, options)
    if share is not None:
        parallel = torch.nn.parallel.DistributedDataParallel(model)

        def weighted(weight: float, *batch: torch.Tensor) -> torch.Tensor:
            source, target, labels, look_ahead = batch
            return weight * criterion(parallel(source, target, look_ahead).flatten(0, 1), labels.flatten())

        shares = [(share.weight(batch), *tensors(share.rows(batch))) for batch in batches]
        return torch_training(model, in_precision(weighted, options), loss, shares, checked)
    step = torch.compile(loss, dynamic=True) if options["compile"] else loss
    return torch_training(model, step, loss, [tensors(batch) for batch in batches], checked)


if __name__ == "__main__":
    serve(load, ["torch"])
