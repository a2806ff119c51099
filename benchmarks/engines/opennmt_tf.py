"""OpenNMT-tf with this model's weights, through the SavedModel that it exports: pieces in, pieces out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from worker import Options, Translate, serve

if TYPE_CHECKING:
    import opennmt
    import tensorflow as tf


def export(options: Options) -> None:
    """Writes the SavedModel, through OpenNMT-tf's own model and exporter."""
    import opennmt
    import tensorflow as tf

    sizes, special = options["sizes"], options["special_ids"]
    with open(options["vocabulary"], encoding="utf-8") as file:
        pieces = json.load(file)

    class Sinusoids(opennmt.layers.SinusoidalPositionEncoder):
        """The paper's: OpenNMT-tf's own begin at 1, are not interleaved, and have other frequencies."""

        def _encode(self, positions, depth):
            frequency = 10000.0 ** (-tf.range(0, depth, 2, dtype=tf.float32) / depth)
            angle = (tf.cast(positions, tf.float32)[..., tf.newaxis] - 1) * frequency
            both = tf.stack([tf.sin(angle), tf.cos(angle)], axis=-1)
            return tf.reshape(both, [1, -1, depth])

    model = opennmt.models.Transformer(
        num_layers=sizes["num_layers"],
        num_units=sizes["d_model"],
        num_heads=sizes["num_heads"],
        ffn_inner_dim=sizes["dff"],
        position_encoder_class=Sinusoids,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
        pre_norm=False,
        output_layer_bias=False,
    )
    # Its vocabulary begins with padding, start and end; the unknown token comes last and is not in the file.
    order = [special["pad"], special["start"], special["end"]]
    order += [i for i in range(len(pieces)) if i not in special.values()]
    names = ["<blank>", "<s>", "</s>", *(pieces[i] for i in order[3:])]
    vocabulary = options["opennmt_vocabulary"]
    with open(vocabulary, "w", encoding="utf-8") as file:
        file.writelines(f"{name}\n" for name in names)
    model.initialize(
        {
            "source_vocabulary": vocabulary,
            "target_vocabulary": vocabulary,
            "source_sequence_controls": {"start": False, "end": True},
        },
        params={
            "beam_width": options["beam_size"],
            "length_penalty": options["alpha"],
            # One for all sentences: it is fixed in the export.
            "maximum_decoding_length": options["longest_source"] + options["extra_length"],
        },
    )
    model.create_variables()
    weights = dict(np.load(options["weights"]))
    _assign_layers(model, weights, sizes["epsilon"])
    model.features_inputter.embedding.assign(weights["encoder/embedding/embeddings"][[*order, special["unknown"]]])
    model.export(options["model"])


def _assign_layers(model: opennmt.models.Transformer, weights: dict[str, np.ndarray], epsilon: float) -> None:
    def assign_dense(dense: tf.keras.layers.Dense, name: str) -> None:
        dense.kernel.assign(weights[f"{name}/kernel"])
        dense.bias.assign(weights[f"{name}/bias"])

    def assign_norm(wrapper: opennmt.layers.LayerWrapper, name: str) -> None:
        norm = wrapper.output_layer_norm
        norm.gamma.assign(weights[f"{name}/norm/gamma"])
        norm.beta.assign(weights[f"{name}/norm/beta"])
        # Its fused norm is kept, which takes 1.001e-5 for anything smaller.
        norm.epsilon = epsilon

    for side, stack in ("encoder", model.encoder), ("decoder", model.decoder):
        for i, layer in enumerate(stack.layers):
            name = f"{side}/layer_{i}"
            attentions = [("self_attention", layer.self_attention)]
            if side == "decoder":
                attentions.append(("cross_attention", layer.attention[0]))
            for part, wrapper in attentions:
                attention = wrapper.layer
                projections = (
                    attention.linear_queries,
                    attention.linear_keys,
                    attention.linear_values,
                    attention.linear_output,
                )
                for kind, dense in zip(("query", "key", "value", "output"), projections, strict=True):
                    assign_dense(dense, f"{name}/{part}/{kind}")
                assign_norm(wrapper, f"{name}/{part}_residual")
            assign_dense(layer.ffn.layer.inner, f"{name}/feed_forward/hidden")
            assign_dense(layer.ffn.layer.outer, f"{name}/feed_forward/output")
            assign_norm(layer.ffn, f"{name}/feed_forward_residual")


def load(options: Options) -> Translate:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options["threads"] // options["streams"])
    tf.config.threading.set_inter_op_parallelism_threads(options["threads"])
    loaded = tf.saved_model.load(options["model"])

    def translate(batch: list[list[str]]) -> list[list[str]]:
        lengths = [len(pieces) for pieces in batch]
        longest = max(lengths)
        output = loaded.signatures["serving_default"](
            tokens=tf.constant([pieces + [""] * (longest - len(pieces)) for pieces in batch]),
            length=tf.constant(lengths, tf.int32),
        )
        rows = zip(output["tokens"].numpy(), output["length"].numpy(), strict=True)
        return [[piece.decode() for piece in tokens[0, : length[0]]] for tokens, length in rows]

    return translate


if __name__ == "__main__":
    serve(load, ["tensorflow", "OpenNMT-tf"], export)
