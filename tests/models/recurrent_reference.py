"""The recurrent model's forward pass in float64 NumPy: one sentence, one position and one gate at a time."""

import math

import numpy as np

from tests.reference import Part, dense, scaled_dot_product


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(part, x, backward=False):
    """Maps (length, width) to (length, units); of one sentence without padding."""
    input_projection, recurrent = part("input"), part["recurrent_kernel"]
    output = memory = np.zeros(recurrent.shape[0])
    outputs = np.zeros((len(x), recurrent.shape[0]))
    for position in reversed(range(len(x))) if backward else range(len(x)):
        gates = dense(input_projection, x[position]) + output @ recurrent
        write, keep, read, new = np.split(gates, 4)
        memory = sigmoid(keep) * memory + sigmoid(write) * np.tanh(new)
        output = sigmoid(read) * np.tanh(memory)
        outputs[position] = output
    return outputs


def recurrent_model(weights, source_ids, target_ids, num_layers, share_embeddings):
    """Logits (target_len, vocabulary) and attention weights (target_len, source_len) of one sentence, unpadded."""
    model = Part(weights)
    encoder, decoder = model("encoder"), model("decoder")
    source_matrix = encoder["embedding/embeddings"]
    target_matrix = source_matrix if share_embeddings == "all" else decoder["embedding/embeddings"]
    projection = model["projection/kernel"] if share_embeddings == "none" else target_matrix.T
    scale = math.sqrt(source_matrix.shape[1])

    x = source_matrix[source_ids] * scale
    x = np.concatenate([lstm(encoder("forward"), x), lstm(encoder("backward"), x, backward=True)], axis=-1)
    for i in range(1, num_layers):
        x = x + lstm(encoder(f"layer_{i}"), x)
    context = x

    x = lstm(decoder("bottom"), target_matrix[target_ids] * scale)
    attention = decoder("attention")
    found, attended = scaled_dot_product(
        dense(attention("query"), x), dense(attention("key"), context), dense(attention("value"), context)
    )
    found = dense(attention("output"), found)
    for i in range(1, num_layers):
        x = x + lstm(decoder(f"layer_{i}"), np.concatenate([x, found], axis=-1))
    logits = dense(decoder("output"), np.concatenate([x, found], axis=-1)) @ projection
    return logits + model.weights.get("bias", 0), attended
