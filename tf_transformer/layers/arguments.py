"""What the layers and the model ask of their arguments."""

from __future__ import annotations

from typing import Any

SHARING = ("all", "target", "none")


def check_sizes(**sizes: Any) -> None:
    """Refuses sizes that are not positive integers."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}")


def check_rates(**rates: float) -> None:
    """Refuses rates of dropout that drop less than nothing, or everything."""
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise ValueError(f"{name} must be in [0, 1), got {rate!r}")


def check_heads(d_model: int, num_heads: int, key_dim: int | None, value_dim: int | None) -> None:
    """Refuses heads that have no width; unless given, it is `d_model / num_heads`."""
    given = {name: size for name, size in {"key_dim": key_dim, "value_dim": value_dim}.items() if size is not None}
    check_sizes(d_model=d_model, num_heads=num_heads, **given)
    if (key_dim is None or value_dim is None) and d_model % num_heads:
        raise ValueError(
            f"num_heads must divide d_model, got num_heads={num_heads} and d_model={d_model}; "
            "choose another, or give key_dim and value_dim"
        )


def check_vocabularies(share_embeddings: str, input_vocab_size: int, target_vocab_size: int) -> None:
    """Refuses vocabularies that have no size, and those of two sizes that are to share a matrix."""
    check_sizes(input_vocab_size=input_vocab_size, target_vocab_size=target_vocab_size)
    if share_embeddings not in SHARING:
        raise ValueError(f"share_embeddings must be one of {', '.join(SHARING)}, got {share_embeddings!r}")
    if share_embeddings == "all" and input_vocab_size != target_vocab_size:
        raise ValueError(
            'share_embeddings="all" needs one vocabulary for both sides, got '
            f"input_vocab_size={input_vocab_size} and target_vocab_size={target_vocab_size}; make them the same, or "
            'choose "target" or "none"'
        )
