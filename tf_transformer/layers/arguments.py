"""What the layers and the model ask of their arguments, and the names that some of these may have."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

# A recipe's settings read these names too, so no Keras is imported here.
POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned")
ACTIVATIONS = ("relu", "gelu", "swish")
NORM_EPSILON = 1e-6
SHARING = ("all", "target", "none")


def check_sizes(**sizes: Any) -> tuple[int, ...]:
    """Refuses sizes that are not positive integers; NumPy's are given back as Python's, which a JSON file can hold."""
    for name, size in sizes.items():
        if not isinstance(size, Integral) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}")
    return tuple(int(size) for size in sizes.values())


def check_window(window: Any | None) -> int | None:
    """Refuses a window of attention that is no positive integer; None is none. Gives it back as Python's."""
    return None if window is None else check_sizes(window=window)[0]


def check_rates(**rates: Any) -> tuple[float, ...]:
    """Refuses rates of dropout that drop less than nothing, or everything; gives back Python's numbers."""
    for name, rate in rates.items():
        if not isinstance(rate, Real) or not 0 <= rate < 1:
            raise ValueError(f"{name} must be in [0, 1), got {rate!r}")
    return tuple(float(rate) for rate in rates.values())


def check_activation(activation: str) -> str:
    """Refuses what is no activation of the feed-forward networks."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    return activation


def check_epsilon(norm_epsilon: Any) -> float:
    """Refuses an epsilon of layer normalisation that is not positive; gives back Python's number."""
    if not isinstance(norm_epsilon, Real) or isinstance(norm_epsilon, bool) or not 0 < norm_epsilon < 1:
        raise ValueError(f"norm_epsilon must be in (0, 1), got {norm_epsilon!r}")
    return float(norm_epsilon)


def check_heads(
    d_model: Any, num_heads: Any, key_dim: Any | None, value_dim: Any | None
) -> tuple[int, int, int | None, int | None]:
    """Refuses heads that have no width; unless given, it is `d_model / num_heads`. Gives all back as Python's."""
    d_model, num_heads = check_sizes(d_model=d_model, num_heads=num_heads)
    if key_dim is not None:
        (key_dim,) = check_sizes(key_dim=key_dim)
    if value_dim is not None:
        (value_dim,) = check_sizes(value_dim=value_dim)
    if (key_dim is None or value_dim is None) and d_model % num_heads:
        raise ValueError(
            f"num_heads must divide d_model, got num_heads={num_heads} and d_model={d_model}; "
            "choose another, or give key_dim and value_dim"
        )
    return d_model, num_heads, key_dim, value_dim


def check_head(head: Sequence[int] | None, num_layers: int, num_heads: int) -> tuple[int, int] | None:
    """Refuses what is no layer and head, counted from 0, of a stack of so many; gives back Python's numbers."""
    if head is None:
        return None
    found = tuple(head) if isinstance(head, Sequence) else ()
    whole = [at for at in found if isinstance(at, Integral) and not isinstance(at, bool)]
    if len(found) != 2 or len(whole) != 2 or not (0 <= whole[0] < num_layers and 0 <= whole[1] < num_heads):
        raise ValueError(
            f"alignment_head must be a layer of the decoder, below {num_layers}, and a head, below {num_heads}, both "
            f"counted from 0, got {head!r}"
        )
    return int(found[0]), int(found[1])


def check_vocabularies(share_embeddings: str, input_vocab_size: Any, target_vocab_size: Any) -> tuple[int, int]:
    """Refuses vocabularies that have no size, and those of two sizes that are to share a matrix."""
    input_vocab_size, target_vocab_size = check_sizes(
        input_vocab_size=input_vocab_size, target_vocab_size=target_vocab_size
    )
    if share_embeddings not in SHARING:
        raise ValueError(f"share_embeddings must be one of {', '.join(SHARING)}, got {share_embeddings!r}")
    if share_embeddings == "all" and input_vocab_size != target_vocab_size:
        raise ValueError(
            'share_embeddings="all" needs one vocabulary for both sides, got '
            f"input_vocab_size={input_vocab_size} and target_vocab_size={target_vocab_size}; make them the same, or "
            'choose "target" or "none"'
        )
    return input_vocab_size, target_vocab_size
