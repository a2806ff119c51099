"""OpenNMT-tf's Transformer as the paper's, with the weights of this package's model."""

from __future__ import annotations

from typing import Any

import numpy as np
import opennmt
import tensorflow as tf


class Sinusoids(opennmt.layers.SinusoidalPositionEncoder):
    """The paper's: OpenNMT-tf's own begin at 1, are not interleaved, and have other frequencies."""

    def _encode(self, positions, depth):
        frequency = 10000.0 ** (-tf.range(0, depth, 2, dtype=tf.float32) / depth)
        angle = (tf.cast(positions, tf.float32)[..., tf.newaxis] - 1) * frequency
        both = tf.stack([tf.sin(angle), tf.cos(angle)], axis=-1)
        return tf.reshape(both, [1, -1, depth])


def make_model(sizes: dict[str, Any], **changes: Any) -> opennmt.models.Transformer:
    """Makes the model, neither initialised nor built yet.

    Args:
        sizes: num_layers, d_model, num_heads and dff.
        **changes: more of OpenNMT-tf's arguments.
    """
    return opennmt.models.Transformer(
        num_layers=sizes["num_layers"],
        num_units=sizes["d_model"],
        num_heads=sizes["num_heads"],
        ffn_inner_dim=sizes["dff"],
        position_encoder_class=Sinusoids,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
        pre_norm=False,
        output_layer_bias=False,
        **changes,
    )


def assign_weights(
    model: opennmt.models.Transformer, weights: dict[str, np.ndarray], epsilon: float, order: list[int]
) -> None:
    """Gives a built model the weights.

    Args:
        model: one of `make_model`.
        weights: by the paths in this package's model.
        epsilon: of the layer norms.
        order: which of the weights' tokens each row of the vocabulary is.
    """

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
    model.features_inputter.embedding.assign(weights["encoder/embedding/embeddings"][order])
