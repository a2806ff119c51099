"""Projection onto the vocabulary and smoothed cross-entropy in one pass, a few rows at a time.

The logits are by far the largest tensor of a training step, and the plain way reads and writes them, their softmax and
their gradient many times. Here a chunk of rows is projected, its loss and its share of both gradients are worked out,
and its logits are forgotten. Liger-Kernel (Hsu et al., 2024) and Cut Cross-Entropy (Wijmans et al., 2024) do the same
on GPUs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from tf_transformer.layers.device import on_gpu
from tf_transformer.layers.lean_ops import shape_of, take
from tf_transformer.layers.masks import token_weights

# Logits in a chunk, 64 MiB: enough rows for a CPU's matrix products to run at full speed, whatever the vocabulary.
CHUNK_LOGITS = 2**24

# A GPU needs more rows for that, and waits for the CPU between chunks. 512 MiB.
GPU_CHUNK_LOGITS = 2**27

# Rows in a chunk of float16, whose states are divided by as many before they are summed: the quotients of more rows
# would be smaller than what float16 holds with all its digits.
FLOAT16_ROWS = 2048


class TokenSums(NamedTuple):
    """Sums over the real tokens of a batch, each a float32 scalar.

    Attributes:
        loss: smoothed cross-entropy (with R-Drop's term, where there is one).
        cross_entropy: unsmoothed cross-entropy.
        correct: tokens whose logit is the highest of all (a tie counts).
        tokens: real tokens.
        alignment: `alignment_loss`, where there are alignments; `loss` has it too, by its weight.
    """

    loss: Any
    cross_entropy: Any
    correct: Any
    tokens: Any
    alignment: Any = 0.0


def projected_cross_entropy(
    states: Any,
    embeddings: Any,
    labels: Any,
    label_smoothing: float = 0.0,
    r_drop: float = 0.0,
    training: bool = True,
    chunk_logits: int | None = None,
) -> TokenSums:
    """Sums the smoothed cross-entropy of `softmax(states @ embeddings^T)`; no more than a chunk of logits ever exists.

    With `training` the gradients of `loss` are worked out in the same pass; `cross_entropy`, `correct` and `tokens`
    have none. Products run in the dtype of `states`, softmax and sums in float32.

    With `r_drop`, alpha, each row comes twice, run through the model with different dropout, p and q, and what is
    summed is half of R-Drop's loss (Liang et al., 2021, equation 4), so that alpha 0 gives the usual one:
    `(CE(p) + CE(q)) / 2 + alpha / 4 (KL(p || q) + KL(q || p))`.

    Args:
        states: float (rows, d_model); with `r_drop` (2, rows, d_model).
        embeddings: float (vocabulary, d_model).
        labels: int (rows,); 0 is padding, which counts nowhere.
        label_smoothing: epsilon_ls.
        r_drop: alpha.
        training: whether there will be a gradient.
        chunk_logits: how many logits may exist at a time, one row's in any case; None for `CHUNK_LOGITS`, or
            `GPU_CHUNK_LOGITS` on a GPU.

    Returns:
        The sums.

    Example:
        >>> import numpy as np
        >>> states, embeddings = np.ones((3, 4), "float32"), np.zeros((8, 4), "float32")
        >>> sums = projected_cross_entropy(states, embeddings, np.array([5, 3, 0]))
        >>> round(float(sums.loss / sums.tokens), 4)  # log(8)
        2.0794
    """
    states, embeddings = ops.convert_to_tensor(states), ops.convert_to_tensor(embeddings)
    labels = ops.cast(labels, "int32")
    real = token_weights(labels)
    copies = states if r_drop else states[None]
    if chunk_logits is None:
        chunk_logits = GPU_CHUNK_LOGITS if on_gpu() else CHUNK_LOGITS
    settings = {"label_smoothing": label_smoothing, "r_drop": r_drop, "chunk_logits": chunk_logits}
    constants = ops.stop_gradient(copies), ops.stop_gradient(ops.cast(embeddings, states.dtype))
    sums, gradients = _chunked(*constants, labels, real, gradients=training, **settings)
    loss = sums[0]
    if training:
        loss = _with_gradients(loss, (copies, embeddings), gradients)
    return TokenSums(loss, sums[1], sums[2], ops.sum(real))


def _with_gradients(value: Any, tensors: tuple[Any, ...], gradients: tuple[Any, ...]) -> Any:
    """The value, a float32 scalar, with these float32 gradients with respect to the tensors.

    To it is added, for each tensor, what has that gradient, and taken away again without one. A custom gradient would
    do the same, but TensorFlow never forgets one that was part of a graph.
    """
    for tensor, gradient in zip(tensors, gradients, strict=True):
        # A product of two vectors reads both once, and so does its gradient.
        row = ops.reshape(ops.cast(tensor, "float32"), (1, -1))
        product = ops.matmul(row, ops.reshape(ops.stop_gradient(gradient), (-1, 1)))[0, 0]
        value = value + (product - ops.stop_gradient(product))
    return value


def _chunked(
    copies: Any,
    embeddings: Any,
    labels: Any,
    real: Any,
    label_smoothing: float,
    r_drop: float,
    chunk_logits: int,
    gradients: bool,
) -> tuple[Any, tuple[Any, Any]]:
    """Loss, cross-entropy and correct tokens as one float32 (3,), and the loss's gradients where wanted.

    Of the gradient with respect to the logits, `softmax - smoothed labels`, only the softmax takes products with the
    whole vocabulary. What the labels add to it is a few rows, and what the smoothing adds is the same for all rows. So
    both are taken off behind the loop, except where products round their factors: see `_rounded_gradient`.
    """
    number_of_copies, _, d_model = copies.shape
    rows = shape_of(copies)[1]
    chunks, size = _chunks(rows, number_of_copies * embeddings.shape[0], chunk_logits, copies.dtype)
    missing = chunks * size - rows
    padded_copies = ops.pad(copies, [[0, 0], [0, missing], [0, 0]])
    padded_labels, padded_real = (ops.pad(x, [[0, missing]]) for x in (labels, real))
    mean_embedding = ops.mean(ops.cast(embeddings, "float32"), axis=0)
    share = 1.0 / number_of_copies
    dtype = keras.backend.standardize_dtype(copies.dtype)
    is_half = dtype in ("bfloat16", "float16")
    takes_off_first = is_half or (dtype == "float32" and _float32_is_rounded())
    up, down = _half_precision_scales(size, ops.sum(real), r_drop) if is_half else (1.0, 1.0)

    def body(chunk: Any, sums: Any, of_states: Any, of_embeddings: Any) -> tuple[Any, ...]:
        start = chunk * size
        x = ops.reshape(ops.slice(padded_copies, (0, start, 0), (number_of_copies, size, d_model)), (-1, d_model))
        label = ops.tile(ops.slice(padded_labels, (start,), (size,)), [number_of_copies])
        weight = share * ops.tile(ops.slice(padded_real, (start,), (size,)), [number_of_copies])
        of_chunk, of_logits = _sums_of_chunk(x, label, weight, embeddings, mean_embedding, label_smoothing, r_drop)
        sums = sums + of_chunk
        if gradients:
            if takes_off_first:
                of_logits = _rounded_gradient(of_logits, label, label_smoothing, up, x.dtype)
            of_rows, of_matrix = _through_projection(of_logits, x, weight, embeddings, up, down)
            of_rows = ops.reshape(of_rows, (number_of_copies, size, d_model))
            of_states = ops.slice_update(of_states, (0, start, 0), of_rows)
            of_embeddings = of_embeddings + of_matrix
        return chunk + 1, sums, of_states, of_embeddings

    _, sums, of_states, of_embeddings = _loop(
        lambda chunk, *_: chunk < chunks,
        body,
        (
            0,
            ops.zeros((3,), "float32"),
            ops.zeros(shape_of(padded_copies) if gradients else (), "float32"),
            ops.zeros(embeddings.shape if gradients else (), "float32"),
        ),
    )
    if not gradients:
        return sums, ()
    of_states = of_states[:, :rows]
    if takes_off_first:
        return sums, (of_states, of_embeddings / (up * down))
    weight = share * real[:, None]
    return sums, _subtract_labels(
        of_states, of_embeddings, copies, embeddings, mean_embedding, labels, weight, label_smoothing
    )


def _chunks(rows: Any, logits_of_row: int, chunk_logits: int, dtype: Any) -> tuple[Any, Any]:
    """How many chunks there are, and the rows of each; they are of one size, the last one filled up with padding."""
    # The rows are counted, not the logits: of these a large batch has more than an int32 can tell.
    most = max(1, chunk_logits // logits_of_row)
    if keras.backend.standardize_dtype(dtype) == "float16":
        most = min(most, FLOAT16_ROWS)
    chunks = rows // most + 1
    return chunks, -(-rows // chunks)


def _sums_of_chunk(
    x: Any, label: Any, weight: Any, embeddings: Any, mean_embedding: Any, label_smoothing: float, r_drop: float
) -> tuple[Any, Any]:
    """Of a chunk, float (rows, d_model): loss, cross-entropy and correct tokens, and the gradient of its logits.

    The gradient, float32 (rows, vocabulary), is that of a row of weight 1, but for the smoothed labels.
    """
    # Transposed here, where the product takes it as it lies: before the loop it would be one more matrix.
    narrow = ops.matmul(x, ops.transpose(embeddings))
    logits = ops.cast(narrow, "float32")
    probabilities = ops.softmax(logits)
    highest, log_normaliser = _normalisers(logits, probabilities)
    of_label = _at_labels(narrow, label)
    cross_entropy = log_normaliser - of_label
    mean_logit = ops.matmul(ops.cast(x, "float32"), mean_embedding[:, None])[:, 0]
    smoothed = cross_entropy + label_smoothing * (of_label - mean_logit)
    loss = ops.sum(smoothed * weight)
    of_logits = probabilities
    if r_drop:
        difference, of_logits = _r_drop(logits, log_normaliser, probabilities, r_drop)
        loss = loss + ops.sum(difference * weight)
    correct = ops.cast(of_label >= highest, "float32")
    return ops.stack([loss, ops.sum(cross_entropy * weight), ops.sum(correct * weight)]), of_logits


def _through_projection(of_logits: Any, x: Any, weight: Any, embeddings: Any, up: Any, down: Any) -> tuple[Any, Any]:
    """The gradients of a chunk's rows and of the embeddings, float32, from that of its logits, which is times `up`.

    The embeddings' is still to be divided by `up * down`; see `_half_precision_scales`.
    """
    weight = weight[:, None]
    of_rows = ops.cast(ops.matmul(of_logits, embeddings), "float32") * (weight / up)
    weighted = x * ops.cast(weight * down, x.dtype)
    return of_rows, ops.cast(ops.matmul(ops.transpose(of_logits), weighted), "float32")


def _subtract_labels(
    of_states: Any,
    of_embeddings: Any,
    copies: Any,
    embeddings: Any,
    mean_embedding: Any,
    labels: Any,
    weight: Any,
    label_smoothing: float,
) -> tuple[Any, Any]:
    """The gradients with what the smoothed labels add to them, a few rows, taken off; see `_chunked`."""
    vocabulary = embeddings.shape[0]
    # Of two plain numbers Keras would make its default type, which need not be float32.
    at_label, of_none = (ops.convert_to_tensor(x, "float32") for x in (1 - label_smoothing, float("nan")))
    label = ops.where((labels >= 0) & (labels < vocabulary), at_label, of_none)[:, None]
    token = ops.clip(labels, 0, vocabulary - 1)
    target = label * ops.cast(take(embeddings, token), "float32") + label_smoothing * mean_embedding
    of_states = of_states - target * weight
    weighted = ops.cast(ops.sum(copies, axis=0), "float32") * weight
    of_embeddings = of_embeddings - label_smoothing / vocabulary * ops.sum(weighted, axis=0)
    return of_states, _subtract_rows(of_embeddings, token, label * weighted)


def _normalisers(logits: Any, probabilities: Any) -> tuple[Any, Any]:
    """Of each row the highest logit, and the logarithm of what the softmax divides by."""
    # Without `initial` Keras refuses, in eager mode, the chunk of no rows that padding alone may come to.
    highest = ops.max(logits, axis=-1, initial=-float("inf"))
    # The highest probability is at least 1 / vocabulary, so its logarithm is always sound.
    return highest, highest - ops.log(ops.max(probabilities, axis=-1, initial=0.0))


def _at_labels(matrix: Any, labels: Any) -> Any:
    """Of each row the number at its label, float32; NaN for a label that is none of the vocabulary's."""
    vocabulary = matrix.shape[-1]
    token = ops.clip(labels, 0, vocabulary - 1)  # any other would take another row's number
    places = ops.arange(shape_of(labels)[0], dtype="int32") * vocabulary + token
    found = ops.cast(take(ops.reshape(matrix, (-1,)), places), "float32")
    return ops.where(labels == token, found, float("nan"))


def _rounded_gradient(of_logits: Any, labels: Any, label_smoothing: float, scale: Any, dtype: Any) -> Any:
    """The gradient with respect to a chunk's logits, times a scale, in the precision of the products.

    The smoothed labels are taken off before it is rounded: where a token is predicted well it is the small difference
    of two large numbers. That takes further passes over the logits.

    Args:
        of_logits: the gradient but for the smoothed labels, float32 (rows, vocabulary).
        labels: int (rows,).
        label_smoothing: epsilon_ls.
        scale: a float32 scalar.
        dtype: of the products.
    """
    vocabulary = of_logits.shape[-1]
    smoothing = label_smoothing / vocabulary
    at_labels = _at_labels(of_logits, labels) - smoothing - (1 - label_smoothing)
    if label_smoothing:
        of_logits = of_logits - smoothing
    rounded = ops.cast(of_logits * scale, dtype)
    # Last, since it copies the matrix, which is half as large now in half precision.
    rows = ops.arange(shape_of(labels)[0], dtype="int32")
    indices = ops.stack([rows, ops.clip(labels, 0, vocabulary - 1)], axis=1)
    return ops.scatter_update(rounded, indices, ops.cast(at_labels * scale, dtype))


def _float32_is_rounded() -> bool:
    """Whether matrix products round their float32 factors, as those of GPUs from 2020 on do (TensorFloat-32)."""
    if not on_gpu():
        return False
    import tensorflow as tf

    return tf.config.experimental.tensor_float_32_execution_enabled()


def _subtract_rows(matrix: Any, indices: Any, rows: Any) -> Any:
    """Subtracts each row from the matrix's row of its index; an index may come more than once."""
    if keras.backend.backend() != "tensorflow":
        return matrix - ops.segment_sum(rows, indices, matrix.shape[0])
    import tensorflow as tf

    return tf.tensor_scatter_nd_sub(matrix, indices[:, None], rows)  # without a second matrix


def _half_precision_scales(rows: Any, tokens: Any, r_drop: float) -> tuple[Any, Any]:
    """Factors of the gradients of a chunk's logits, and of the rows of states, to be taken off what is summed.

    The loss is to be divided by the tokens. What is rounded with a power of two over them as its factor is not rounded
    once more by that division. The rest is for float16: below 6e-5 it has ever fewer digits, and most of a softmax is
    smaller; and what is summed over the rows of a chunk may come beyond its largest number, 65,504. So may R-Drop's
    gradient, which grows with its alpha.
    """
    exponent = 8.0 - math.ceil(math.log2(max(1.0, r_drop / 4)))
    up = ops.power(2.0, ops.ceil(ops.log2(ops.maximum(tokens, 1.0))) + exponent) / ops.maximum(tokens, 1.0)
    return up, ops.power(2.0, -ops.ceil(ops.log2(ops.cast(rows, "float32"))))


def _loop(condition: Any, body: Any, start: tuple[Any, ...]) -> tuple[Any, ...]:
    if keras.backend.backend() != "tensorflow":
        return ops.while_loop(condition, body, start)
    import tensorflow as tf

    # Of iterations side by side, which is TensorFlow's way, each would hold a gradient as large as the matrix.
    return tf.while_loop(condition, body, start, parallel_iterations=1)


def _r_drop(logits: Any, log_normaliser: Any, probabilities: Any, alpha: float) -> tuple[Any, Any]:
    """R-Drop's term of each row of both copies, and the softmax with that term's gradient added to it.

    The gradient of `KL(p || q)` is `p (log(p / q) - KL(p || q))` for p's logits, and that of `KL(q || p)` is `p - q`.
    """
    (logits_p, logits_q), (p, q) = ops.split(logits, 2), ops.split(probabilities, 2)
    normaliser_p, normaliser_q = ops.split(log_normaliser, 2)
    # A row's weight is halved for its two copies; their terms add up to alpha / 4 (KL(p || q) + KL(q || p)).
    scale = alpha / 2
    # scale log(p / q), up to a number that is the same for a whole row, which is added where there is a number a row:
    # every operation on the whole vocabulary is a pass over memory.
    ratio = scale * (logits_p - logits_q)
    shift = scale * (normaliser_q - normaliser_p)
    term_p = ops.sum(p * ratio, axis=-1) + shift
    term_q = -ops.sum(q * ratio, axis=-1) - shift
    of_p = p * (ratio + (1 + scale + shift - term_p)[:, None]) - scale * q
    of_q = q * ((1 + scale - shift - term_q)[:, None] - ratio) - scale * p
    return ops.concatenate([term_p, term_q]), ops.concatenate([of_p, of_q])
