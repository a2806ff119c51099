"""The Transformer's forward pass in float64 NumPy, written from the equations of Vaswani et al. (2017).

It shares no code with the package: weights come as a dict by their path inside the model, such as
`encoder/layer_0/self_attention/query/kernel`, and everything else is arithmetic.
"""

import math
from dataclasses import dataclass

import numpy as np

EPSILON = 1e-6


@dataclass(frozen=True)
class Options:
    """Where a model departs from the paper's equations."""

    norm_first: bool = False
    activation: str = "relu"
    norm_epsilon: float = EPSILON
    scale_embeddings: bool = True
    decoder_layers: int | None = None  # as many as the encoder has


ACTIVATIONS = {
    "relu": lambda x: np.maximum(0, x),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "swish": lambda x: x / (1 + np.exp(-x)),
}


def sinusoids(length, width):
    """Section 3.5, one number at a time."""
    table = np.zeros((length, width))
    for pos in range(length):
        for i in range(width // 2):
            angle = pos / 10000 ** (2 * i / width)
            table[pos, 2 * i] = math.sin(angle)
            table[pos, 2 * i + 1] = math.cos(angle)
    return table


def sinusoids_in_halves(length, width):
    """The same numbers, the sines of all frequencies and then the cosines."""
    table = sinusoids(length, width)
    return np.array(
        [[row[2 * i] for i in range(width // 2)] + [row[2 * i + 1] for i in range(width // 2)] for row in table]
    )


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, gamma, beta, epsilon=EPSILON):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return gamma * (x - mean) / np.sqrt(variance + epsilon) + beta


def scaled_dot_product(query, key, value, allowed=None):
    """Equation 1, for one head of one sentence: (query_len, d_k), (key_len, d_k), (key_len, d_v)."""
    logits = query @ key.T / math.sqrt(query.shape[-1])
    if allowed is not None:
        logits = np.where(allowed, logits, -np.inf)
    weights = softmax(logits)
    return weights @ value, weights


class Part:
    """Some part of a model: its weights, by the rest of their paths."""

    def __init__(self, weights):
        self.weights = {path: np.asarray(weight, "float64") for path, weight in weights.items()}

    def __call__(self, name):
        prefix = name + "/"
        return Part({path.removeprefix(prefix): w for path, w in self.weights.items() if path.startswith(prefix)})

    def __getitem__(self, path):
        return self.weights[path]


def dense(part, x):
    return x @ part["kernel"] + part["bias"]


def norm(part, x, epsilon=EPSILON):
    return layer_norm(x, part["gamma"], part["beta"], epsilon)


def multi_head_attention(part, query, value, num_heads, allowed=None, key=None):
    """Section 3.2.2; `allowed` broadcasts to (batch, heads, query_len, key_len).

    The projection of head i is the i-th group of columns of its kind's matrix.
    """
    key = value if key is None else key
    batch = len(query)
    projected = [dense(part(name), x) for name, x in (("query", query), ("key", key), ("value", value))]
    if allowed is not None:
        allowed = np.broadcast_to(allowed, (batch, num_heads, query.shape[1], value.shape[1]))
    outputs, weights = [], []
    for b in range(batch):
        heads = []
        for h in range(num_heads):
            q, k, v = (np.split(x[b], num_heads, axis=-1)[h] for x in projected)
            heads.append(scaled_dot_product(q, k, v, None if allowed is None else allowed[b, h]))
        outputs.append(dense(part("output"), np.concatenate([head for head, _ in heads], axis=-1)))
        weights.append([weight for _, weight in heads])
    return np.array(outputs), np.array(weights)


def feed_forward(part, x, activation="relu"):
    """Equation 2, where `max(0, x)` may be another function."""
    return dense(part("output"), ACTIVATIONS[activation](dense(part("hidden"), x)))


def sublayer(part, name, x, function, options):
    """LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x)); dropout is off. Returns attention weights too."""
    residual = part(name + "_residual")("norm")
    epsilon = options.norm_epsilon
    y, weights = function(part(name), norm(residual, x, epsilon) if options.norm_first else x)
    return (x + y if options.norm_first else norm(residual, x + y, epsilon)), weights


def encoder_layer(part, x, num_heads, allowed=None, options=Options()):
    x, weights = sublayer(
        part, "self_attention", x, lambda p, y: multi_head_attention(p, y, y, num_heads, allowed), options
    )
    x, _ = sublayer(part, "feed_forward", x, lambda p, y: (feed_forward(p, y, options.activation), None), options)
    return x, weights


def decoder_layer(part, x, context, num_heads, context_allowed=None, options=Options()):
    causal = np.tril(np.ones((x.shape[1], x.shape[1]), bool))
    x, self_weights = sublayer(
        part, "self_attention", x, lambda p, y: multi_head_attention(p, y, y, num_heads, causal), options
    )
    x, cross_weights = sublayer(
        part,
        "cross_attention",
        x,
        lambda p, y: multi_head_attention(p, y, context, num_heads, context_allowed),
        options,
    )
    x, _ = sublayer(part, "feed_forward", x, lambda p, y: (feed_forward(p, y, options.activation), None), options)
    return x, self_weights, cross_weights


def embed(part, matrix, ids, position, scaled=True):
    x = matrix[ids] * (math.sqrt(matrix.shape[1]) if scaled else 1)
    if position == "learned":
        return x + part["position/positions"][: x.shape[1]]
    return x + {"sinusoidal": sinusoids, "sinusoidal_halves": sinusoids_in_halves}[position](*x.shape[1:])


def transformer(
    weights, source_ids, target_ids, num_layers, num_heads, norm_first, position, share_embeddings, added=0.0, **more
):
    """Figure 1, with something `added` to the target's embeddings, and a bias on the logits where there is one.

    What else departs from the paper is named as in `Options`.

    Returns logits and {"encoder", "decoder", "cross"}: lists over layers of attention weights.
    """
    options = Options(norm_first, **more)
    model = Part(weights)
    encoder, decoder = model("encoder"), model("decoder")
    source_matrix = encoder["embedding/embeddings"]
    target_matrix = source_matrix if share_embeddings == "all" else decoder["embedding/embeddings"]
    projection = model["projection/kernel"] if share_embeddings == "none" else target_matrix.T
    not_padding = (source_ids != 0)[:, None, None, :]
    scores = {"encoder": [], "decoder": [], "cross": []}

    x = embed(encoder, source_matrix, source_ids, position, options.scale_embeddings)
    for i in range(num_layers):
        x, weight = encoder_layer(encoder(f"layer_{i}"), x, num_heads, not_padding, options)
        scores["encoder"].append(weight)
    context = norm(encoder("norm"), x, options.norm_epsilon) if norm_first else x

    x = embed(decoder, target_matrix, target_ids, position, options.scale_embeddings) + added
    for i in range(options.decoder_layers or num_layers):
        x, self_weight, cross_weight = decoder_layer(decoder(f"layer_{i}"), x, context, num_heads, not_padding, options)
        scores["decoder"].append(self_weight)
        scores["cross"].append(cross_weight)
    x = norm(decoder("norm"), x, options.norm_epsilon) if norm_first else x
    return x @ projection + model.weights.get("bias", 0), scores


def departures(model):
    """Where a Transformer departs from the paper, as `transformer` takes it."""
    return {name: getattr(model, name) for name in ("activation", "norm_epsilon", "scale_embeddings")}


def weights_of(layer):
    """A built layer's or model's weights by their path inside it, as `transformer` and `Part` want them."""
    return {weight.path.split("/", 1)[1]: weight.numpy().astype("float64") for weight in layer.weights}


def randomise(layer, seed=0):
    """Gives every weight a random value, so that no bias is 0 and no gain 1, where mistakes would not show."""
    random = np.random.default_rng(seed)
    for weight in layer.weights:
        noise = random.standard_normal(weight.shape)
        kind = weight.path.rsplit("/", 1)[-1]
        if kind == "gamma":
            weight.assign(1 + 0.2 * noise)
        elif kind in ("bias", "beta"):
            weight.assign(0.2 * noise)
        else:
            fan = weight.shape[0] if kind == "kernel" else weight.shape[1]
            weight.assign(noise / math.sqrt(fan))
    return layer
