"""Hugging Face's Marian with this model's weights: pieces in, pieces out, through `generate`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from worker import Options, Translate, serve

if TYPE_CHECKING:
    from transformers import MarianMTModel


def export(options: Options) -> None:
    """Writes the model as `from_pretrained` reads it."""
    from transformers import MarianConfig, MarianMTModel

    sizes, special = options["sizes"], options["special_ids"]
    layers, heads, width = sizes["num_layers"], sizes["num_heads"], sizes["dff"]
    model = MarianMTModel(
        MarianConfig(
            vocab_size=sizes["vocab_size"],
            max_position_embeddings=sizes["max_length"],
            d_model=sizes["d_model"],
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=width,
            decoder_ffn_dim=width,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=special["pad"],
            bos_token_id=special["start"],
            decoder_start_token_id=special["start"],
            eos_token_id=special["end"],
            forced_eos_token_id=None,
        )
    )
    _assign_weights(model, dict(np.load(options["weights"])))
    model.save_pretrained(options["model"])


def _assign_weights(model: MarianMTModel, arrays: dict[str, np.ndarray]) -> None:
    from torch_weights import Weights

    weights = Weights(arrays)
    for side, stack in ("encoder", model.model.encoder), ("decoder", model.model.decoder):
        for i, layer in enumerate(stack.layers):
            name = f"{side}/layer_{i}"
            attentions = [("self_attention", layer.self_attn, layer.self_attn_layer_norm)]
            if side == "decoder":
                attentions.append(("cross_attention", layer.encoder_attn, layer.encoder_attn_layer_norm))
            for part, attention, norm in attentions:
                projections = attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj
                for kind, linear in zip(("query", "key", "value", "output"), projections, strict=True):
                    weights.linear(linear, f"{name}/{part}/{kind}")
                weights.norm(norm, f"{name}/{part}_residual")
            weights.linear(layer.fc1, f"{name}/feed_forward/hidden")
            weights.linear(layer.fc2, f"{name}/feed_forward/output")
            weights.norm(layer.final_layer_norm, f"{name}/feed_forward_residual")
    weights.assign(model.model.shared.weight, arrays["encoder/embedding/embeddings"])
    model.tie_weights()


def load(options: Options) -> Translate:
    import torch
    from transformers import MarianMTModel

    torch.set_num_threads(options["threads"] // options["streams"])
    model = MarianMTModel.from_pretrained(options["model"]).eval()
    # What the files do not hold: the sinusoids, which Marian does not interleave, and the norms' epsilon.
    positions = torch.tensor(np.load(options["weights"])["positions"])
    for stack in model.model.encoder, model.model.decoder:
        stack.embed_positions.weight.data = positions
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = options["sizes"]["epsilon"]
    with open(options["vocabulary"], encoding="utf-8") as file:
        pieces = json.load(file)
    ids = {piece: i for i, piece in enumerate(pieces)}
    special = options["special_ids"]
    # Scores are divided by length ** length_penalty, which is not the paper's.
    search = {"num_beams": options["beam_size"], "do_sample": False}
    if options["beam_size"] > 1:
        search |= {"length_penalty": options["alpha"], "early_stopping": False}

    @torch.inference_mode()
    def translate(batch: list[list[str]]) -> list[list[str]]:
        longest = max(map(len, batch))
        rows = [[*(ids[piece] for piece in sentence), special["end"]] for sentence in batch]
        source = torch.tensor([row + [special["pad"]] * (longest + 1 - len(row)) for row in rows])
        output = model.generate(
            source,
            attention_mask=source.ne(special["pad"]).long(),
            max_new_tokens=longest + options["extra_length"],
            **search,
        )
        skipped = set(special.values()) - {special["unknown"]}
        return [[pieces[i] for i in row if i not in skipped] for row in output.tolist()]

    return translate


if __name__ == "__main__":
    serve(load, ["torch", "transformers"], export)
