"""The weights of a MarianMT model by the transformers library's names, and as a `Transformer` has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_transformer.errors import UserError
from tf_transformer.layers.positions import positional_encoding
from tf_transformer.models.sequence_model import NEVER
from tf_transformer.tokenizers.base import PAD_ID, START_ID

if TYPE_CHECKING:
    from tf_transformer.models.transformer import Transformer

Weights = dict[str, np.ndarray]

BIAS = "final_logits_bias"
SHARED, SOURCE, TARGET = "model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
PROJECTION = "lm_head.weight"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def layer_weights(model: Transformer) -> Iterator[tuple[str, Any, bool]]:
    """The names of the layers' weights, each with its variable here, and whether that is the transposed matrix."""
    for side, stack in ("encoder", model.encoder), ("decoder", model.decoder):
        for number, layer in enumerate(stack.layers):
            for name, variable, transposed in _of_layer(layer, side == "decoder"):
                yield f"model.{side}.layers.{number}.{name}", variable, transposed


def _of_layer(layer: Any, is_decoder: bool) -> Iterator[tuple[str, Any, bool]]:
    attentions = {"self_attn": (layer.self_attention, layer.self_attention_residual)}
    if is_decoder:
        attentions["encoder_attn"] = (layer.cross_attention, layer.cross_attention_residual)
    for name, (attention, residual) in attentions.items():
        projections = {
            "q_proj": attention.query,
            "k_proj": attention.key,
            "v_proj": attention.value,
            "out_proj": attention.output_projection,
        }
        for projection, dense in projections.items():
            yield from _of_dense(f"{name}.{projection}", dense)
        yield from _of_norm(f"{name}_layer_norm", residual.norm)
    yield from _of_dense("fc1", layer.feed_forward.hidden)
    yield from _of_dense("fc2", layer.feed_forward.output_projection)
    yield from _of_norm("final_layer_norm", layer.feed_forward_residual.norm)


def _of_dense(name: str, dense: Any) -> Iterator[tuple[str, Any, bool]]:
    yield f"{name}.weight", dense.kernel, True
    yield f"{name}.bias", dense.bias, False


def _of_norm(name: str, norm: Any) -> Iterator[tuple[str, Any, bool]]:
    yield f"{name}.weight", norm.gamma, False
    yield f"{name}.bias", norm.beta, False


def _embeddings(model: Transformer) -> Iterator[tuple[str, Any, bool, bool]]:
    """The names of the matrices with a row for each token, each variable, whether it is transposed, and a target's."""
    source, target = model.encoder.embedding.embeddings, model.decoder.embedding.embeddings
    if model.share_embeddings == "all":
        yield SHARED, source, False, True
        return
    yield SOURCE, source, False, False
    yield TARGET, target, False, True
    if model.share_embeddings == "none":
        yield PROJECTION, model.projection.kernel, True, True


def set_weights(
    model: Transformer,
    weights: Weights,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    padding_counts: bool = True,
) -> None:
    """Gives a built model the weights of a MarianMT model.

    Args:
        model: made with `model_arguments`.
        weights: the tensors by the transformers library's names.
        source_ids: for each of the model's source tokens the id that its piece has there.
        target_ids: the same of the target tokens.
        padding_counts: whether padding, which is never said, has its share of the probability all the same.

    Raises:
        UserError: a tensor is missing, of another shape, or of no part of such a model; it is named.
    """
    left = dict(weights)

    def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name not in left:
            raise UserError(f"the weights have no {name}; copy the model again")
        tensor = left.pop(name)
        if tensor.shape != shape:
            raise UserError(f"{name} has shape {tensor.shape}, but config.json requires {shape}; copy the model again")
        return tensor.astype("float32")

    for name, variable, transposed in layer_weights(model):
        shape = tuple(variable.shape)
        variable.assign(take(name, shape[::-1]).T if transposed else take(name, shape))
    for name, variable, transposed, of_target in _embeddings(model):
        ids = target_ids if of_target else source_ids
        matrix = take(name, (len(ids) - 1, model.d_model))  # START has no row of its own there
        variable.assign(matrix[list(ids)].T if transposed else matrix[list(ids)])
    bias = take(BIAS, (1, len(target_ids) - 1))[0] if BIAS in left else np.zeros(len(target_ids) - 1)
    bias = bias[list(target_ids)]
    bias[START_ID] = NEVER  # a MarianMT model has no logit for it
    if not padding_counts:
        bias[PAD_ID] = NEVER
    model.bias.assign(bias)
    _check_copies(model, weights, left)


def _check_copies(model: Transformer, weights: Weights, left: Weights) -> None:
    """Takes out what older files hold a second time, and refuses the rest."""
    copies = {PROJECTION: TARGET} if model.share_embeddings == "target" else {}
    if model.share_embeddings == "all":
        copies = dict.fromkeys((SOURCE, TARGET, PROJECTION), SHARED)
    for name, original in copies.items():
        if name in left and not np.array_equal(left.pop(name), weights[original]):
            raise UserError(
                f"{name} differs from {original}, though config.json says they are the same; copy the model again"
            )
    table = positional_encoding(model.max_length, model.d_model, halves=True)
    for name in POSITIONS:
        if name in left and not _is_near(left.pop(name), table):
            raise UserError(f"{name} does not hold the sinusoids of a MarianMT model; such a model is not supported")
    if left:
        raise UserError(f"{min(left)} is not a weight of a MarianMT model; such a model is not supported")


def _is_near(found: np.ndarray, expected: np.ndarray) -> bool:
    tolerance = 2e-3 if found.dtype.itemsize == 2 else 1e-4
    return found.shape == expected.shape and np.allclose(found.astype("float32"), expected, rtol=0, atol=tolerance)


def get_weights(
    model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int], imported: bool = True
) -> Weights:
    """The weights of a model as the transformers library names and shapes them; see `set_weights`.

    Args:
        model: a built model with the settings of MarianMT.
        source_ids: for each of the model's source tokens the id that its piece has there.
        target_ids: the same of the target tokens.
        imported: whether padding may keep its logit, as in the model that this one was; in another it is never said.
    """

    def array(variable: Any, transposed: bool) -> np.ndarray:
        value = variable.numpy()
        return np.ascontiguousarray(value.T if transposed else value, dtype="float32")

    weights = {name: array(variable, transposed) for name, variable, transposed in layer_weights(model)}
    for name, variable, transposed, of_target in _embeddings(model):
        rows = array(variable, transposed)
        # Padding's row is what decoding begins with there, and so the one that START has here.
        rows = rows.copy()
        rows[PAD_ID] = rows[START_ID]
        weights[name] = _in_their_order(rows, target_ids if of_target else source_ids)
    bias = model.bias.numpy() if model.output_bias else np.zeros(len(target_ids), "float32")
    if not imported:
        bias[PAD_ID] = NEVER
    weights[BIAS] = _in_their_order(bias, target_ids)[None]
    if model.position == "sinusoidal":
        weights = {name: _in_halves(name, tensor) for name, tensor in weights.items()}
    return dict(sorted(weights.items()))


# The weights that read the vectors of the model's width, and those that write them.
_READ = tuple(f".{name}.weight" for name in ("q_proj", "k_proj", "v_proj", "fc1", "shared", "embed_tokens"))
_READ += (PROJECTION,)
_WRITE = tuple(f".{name}.{part}" for name in ("out_proj", "fc2") for part in ("weight", "bias"))
_NORM = ("norm.weight", "norm.bias")


def _in_halves(name: str, tensor: np.ndarray) -> np.ndarray:
    """A weight of a model whose sines and cosines alternate, for one that has all sines first.

    The layers treat the places of a vector alike. So all vectors may have another order: where the sinusoids get it,
    the weights get it too.
    """
    if name.endswith(_READ):
        return np.concatenate([tensor[:, 0::2], tensor[:, 1::2]], axis=1)
    if name.endswith(_WRITE + _NORM):
        return np.concatenate([tensor[0::2], tensor[1::2]])
    return tensor


def _in_their_order(rows: np.ndarray, ids: Sequence[int]) -> np.ndarray:
    """Rows by our ids, START's left out, as rows by theirs."""
    kept = [own for own in range(len(ids)) if own != START_ID]
    ordered = np.empty((len(kept), *rows.shape[1:]), "float32")
    ordered[[ids[own] for own in kept]] = rows[kept]
    return ordered
