"""The official tutorial's model in Keras's stock layers, written again, with the sizes and sharing of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from training_worker import ADAM, DROPOUT, LABEL_SMOOTHING, Batch, Options, Training, checked_rows, serve

if TYPE_CHECKING:
    import keras


def make_model(sizes: dict[str, Any], positions: np.ndarray) -> keras.Model:
    """Builds encoder and decoder out of stock layers.

    Args:
        sizes: num_layers, d_model, num_heads, dff, vocab_size and the layer norms' epsilon.
        positions: the table added to the embeddings, (max_length, d_model).

    Returns:
        A model that maps a pair of ids (batch, source length) and (batch, target length) to logits (batch, target
        length, vocabulary). Layers are named after the paths of this package's weights, with dots for slashes.
    """
    import keras

    width = sizes["d_model"]
    embedding = keras.layers.ReversibleEmbedding(sizes["vocab_size"], width, name="embedding")

    class AddPositions(keras.layers.Layer):
        """Scales embeddings and adds the positions."""

        def call(self, x: Any) -> Any:
            return x * width**0.5 + keras.ops.cast(positions, x.dtype)[: keras.ops.shape(x)[1]]

    def embed(ids: Any) -> Any:
        return keras.layers.Dropout(DROPOUT)(AddPositions()(embedding(ids)))

    def residual(x: Any, output: Any, name: str) -> Any:
        x = keras.layers.Add()([x, keras.layers.Dropout(DROPOUT)(output)])
        return keras.layers.LayerNormalization(epsilon=sizes["epsilon"], name=f"{name}_residual.norm")(x)

    def attention(x: Any, context: Any, name: str, **mask: Any) -> Any:
        heads = keras.layers.MultiHeadAttention(sizes["num_heads"], width // sizes["num_heads"], name=name)
        return residual(x, heads(x, context, **mask), name)

    def feed_forward(x: Any, name: str) -> Any:
        hidden = keras.layers.Dense(sizes["dff"], activation="relu", name=f"{name}.hidden")(x)
        return residual(x, keras.layers.Dense(width, name=f"{name}.output")(hidden), name)

    source, target = (keras.Input([None], dtype="int32", name=name) for name in ("source", "target"))
    real_source = keras.ops.not_equal(source, 0)[:, None, :]
    x = embed(source)
    for i in range(sizes["num_layers"]):
        x = attention(x, x, f"encoder.layer_{i}.self_attention", attention_mask=real_source)
        x = feed_forward(x, f"encoder.layer_{i}.feed_forward")
    context, x = x, embed(target)
    for i in range(sizes["num_layers"]):
        # Padding comes last, so no real position sees any.
        x = attention(x, x, f"decoder.layer_{i}.self_attention", use_causal_mask=True)
        x = attention(x, context, f"decoder.layer_{i}.cross_attention", attention_mask=real_source)
        x = feed_forward(x, f"decoder.layer_{i}.feed_forward")
    return keras.Model([source, target], embedding(x, reverse=True))


def assign_weights(model: keras.Model, weights: dict[str, np.ndarray]) -> None:
    """Gives every layer the weights of this package's model."""
    import keras

    for layer in model.layers:
        name = layer.name.replace(".", "/")
        if isinstance(layer, keras.layers.ReversibleEmbedding):
            layer.set_weights([weights["encoder/embedding/embeddings"]])
        elif isinstance(layer, keras.layers.MultiHeadAttention):
            kinds = [f"{name}/{kind}/{part}" for kind in ("query", "key", "value", "output") for part in _PARTS]
            shapes = (weight.shape for weight in layer.weights)
            layer.set_weights([weights[kind].reshape(shape) for kind, shape in zip(kinds, shapes, strict=True)])
        elif isinstance(layer, keras.layers.LayerNormalization):
            layer.set_weights([weights[f"{name}/gamma"], weights[f"{name}/beta"]])
        elif isinstance(layer, keras.layers.Dense):
            layer.set_weights([weights[f"{name}/{part}"] for part in _PARTS])


_PARTS = ("kernel", "bias")


def load(options: Options, batches: list[Batch]) -> Training:
    import keras
    from keras import ops
    from keras_rounds import keras_training, set_up_precision, set_up_threads

    from tf_transformer.distributed.replicas import sum_over_replicas

    set_up_threads(options)
    set_up_precision(options)
    sizes = options["sizes"]
    with np.load(options["weights"]) as file:
        weights = dict(file)

    class MaskedCrossEntropy(keras.losses.Loss):
        """The tutorial's masked loss, with smoothed labels."""

        def call(self, labels: Any, logits: Any) -> Any:
            labels = ops.cast(labels, "int32")
            of_label = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            of_all = ops.logsumexp(logits, axis=-1) - ops.mean(logits, axis=-1)
            losses = (1 - LABEL_SMOOTHING) * of_label + LABEL_SMOOTHING * of_all
            real = ops.cast(ops.not_equal(labels, 0), losses.dtype)
            return ops.sum(losses * real) / sum_over_replicas(ops.sum(real))

    model = make_model(sizes, weights["positions"])
    assign_weights(model, weights)
    model.compile(
        keras.optimizers.Adam(**ADAM), MaskedCrossEntropy(reduction="sum"), jit_compile=options["jit_compile"]
    )
    return keras_training(model, batches, checked_rows(batches))


if __name__ == "__main__":
    serve(load, ["tensorflow", "keras"])
