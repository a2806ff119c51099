"""MarianMT's forward pass in float64 NumPy, by the transformers library's names; nothing of the package is used.

Post-norm layers after Vaswani et al. (2017), with what MarianMT has of its own: sinusoids in halves, scaled embeddings
or not, another activation, PyTorch's epsilon, biases in all projections, and one on the logits.
"""

import math

import numpy as np

EPSILON = 1e-5


def sinusoids(length, width):
    """All sines, then all cosines."""
    table = np.zeros((length, width))
    for position in range(length):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            table[position, i], table[position, width // 2 + i] = math.sin(angle), math.cos(angle)
    return table


ACTIVATIONS = {
    "relu": lambda x: np.where(x > 0, x, 0),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
}


class Marian:
    """One model: its tensors by their names, and its config."""

    def __init__(self, weights, config):
        self.weights = {name: np.asarray(tensor, "float64") for name, tensor in weights.items()}
        self.config = config

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        root = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return centred / root * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attend(self, name, x, memory, causal=False):
        heads = self.config["encoder_attention_heads"]
        query, key, value = (
            np.split(self.linear(f"{name}.{part}_proj", of), heads, axis=-1)
            for part, of in (("q", x), ("k", memory), ("v", memory))
        )
        outputs = []
        for q, k, v in zip(query, key, value, strict=True):
            logits = q @ k.T / math.sqrt(q.shape[-1])
            if causal:
                logits = np.where(np.tril(np.ones(logits.shape, bool)), logits, -np.inf)
            shares = np.exp(logits - logits.max(-1, keepdims=True))
            outputs.append(shares / shares.sum(-1, keepdims=True) @ v)
        return self.linear(f"{name}.out_proj", np.concatenate(outputs, axis=-1))

    def layer(self, name, x, memory=None):
        y = self.attend(f"{name}.self_attn", x, x, causal=memory is not None)
        x = self.norm(f"{name}.self_attn_layer_norm", x + y)
        if memory is not None:
            y = self.attend(f"{name}.encoder_attn", x, memory)
            x = self.norm(f"{name}.encoder_attn_layer_norm", x + y)
        activation = ACTIVATIONS[self.config["activation_function"]]
        y = self.linear(f"{name}.fc2", activation(self.linear(f"{name}.fc1", x)))
        return self.norm(f"{name}.final_layer_norm", x + y)

    def embedded(self, side, ids):
        shared = self.config["share_encoder_decoder_embeddings"]
        matrix = self.weights["model.shared.weight" if shared else f"model.{side}.embed_tokens.weight"]
        scale = math.sqrt(matrix.shape[1]) if self.config["scale_embedding"] else 1
        return matrix[ids] * scale + sinusoids(len(ids), matrix.shape[1]), matrix

    def logits(self, source, target):
        """Logits (target_len, vocabulary) of one sentence, whose ids are those of `vocab.json`, without padding."""
        memory, _ = self.embedded("encoder", source)
        for i in range(self.config["encoder_layers"]):
            memory = self.layer(f"model.encoder.layers.{i}", memory)
        x, matrix = self.embedded("decoder", target)
        for i in range(self.config["decoder_layers"]):
            x = self.layer(f"model.decoder.layers.{i}", x, memory)
        projection = self.weights.get("lm_head.weight", matrix)
        return x @ projection.T + self.weights["final_logits_bias"][0]

    def next_log_probabilities(self, source):
        """Of each token that may follow some tokens, which padding may not, though it has its share."""

        def of(tokens):
            logits = self.logits(source, [self.config["pad_token_id"], *tokens])[-1]
            log_probabilities = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
            log_probabilities[self.config["pad_token_id"]] = -np.inf
            return log_probabilities

        return of
