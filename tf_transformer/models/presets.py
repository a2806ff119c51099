"""The paper's configurations by name, with what the paper says each scored (Vaswani et al., 2017, Table 3).

A row of Table 3 is the base model with one change, and is written here the same way.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from tf_transformer.errors import UserError

# The joint byte-pair vocabulary of WMT 2014 English-German, which the table's parameter counts go by.
PAPER_VOCAB_SIZE = 37_000

# Rows of each stack's table of learned positions, as a `Transformer` has them unless it is told otherwise.
MAX_LENGTH = 1024

_BASE_MODEL = {
    "num_layers": 6,
    "d_model": 512,
    "num_heads": 8,
    "dff": 2048,
    "dropout_rate": 0.1,
    "attention_dropout_rate": 0.0,
    "activation_dropout_rate": 0.0,
    "norm_first": False,
    # A head is d_model / num_heads wide unless a row says otherwise.
    "key_dim": None,
    "value_dim": None,
    "position": "sinusoidal",
    "share_embeddings": "all",
}


@dataclass(frozen=True)
class Preset:
    """One configuration of the paper.

    Attributes:
        name: what it is called here.
        model: the `Transformer` arguments, all but the vocabulary sizes.
        label_smoothing: epsilon_ls, a setting of its training.
        steps: how many updates the paper trained it for.
        perplexity: the paper's, per subword, on newstest2013 English-German.
        bleu: the paper's, on the same set.
        paper_millions: the paper's rounded count of parameters in millions, where it gives one.
    """

    name: str
    model: dict[str, Any]
    label_smoothing: float
    steps: int
    perplexity: float
    bleu: float
    paper_millions: int | None

    @property
    def parameters(self) -> int:
        """The exact count of parameters with the paper's vocabulary, whose one matrix all share."""
        num_layers, d_model, num_heads, dff = (self.model[key] for key in ("num_layers", "d_model", "num_heads", "dff"))
        keys = num_heads * (self.model["key_dim"] or d_model // num_heads)
        attention = 2 * _dense(d_model, keys) + 2 * _dense(d_model, d_model)
        feed_forward = _dense(d_model, dff) + _dense(dff, d_model)
        norm = 2 * d_model
        encoder_layer = attention + feed_forward + 2 * norm
        decoder_layer = 2 * attention + feed_forward + 3 * norm
        tables = 2 * MAX_LENGTH * d_model if self.model["position"] == "learned" else 0
        return num_layers * (encoder_layer + decoder_layer) + tables + PAPER_VOCAB_SIZE * d_model


def _row(
    name: str,
    perplexity: float,
    bleu: float,
    paper_millions: int | None = None,
    label_smoothing: float = 0.1,
    steps: int = 100_000,
    **changes: Any,
) -> Preset:
    return Preset(name, {**_BASE_MODEL, **changes}, label_smoothing, steps, perplexity, bleu, paper_millions)


# Names end in the changed value: h heads, dk key width, n layers, d model width, dff inner width; dropout and
# smoothing in per cent.
_ROWS = (
    _row("base", 4.92, 25.8, 65),
    _row("big", 4.33, 26.4, 213, d_model=1024, dff=4096, num_heads=16, dropout_rate=0.3, steps=300_000),
    _row("table3_a_h1", 5.29, 24.9, num_heads=1),
    _row("table3_a_h4", 5.00, 25.5, num_heads=4),
    _row("table3_a_h16", 4.91, 25.8, num_heads=16),
    _row("table3_a_h32", 5.01, 25.4, num_heads=32),
    _row("table3_b_dk16", 5.16, 25.1, 58, key_dim=16),
    _row("table3_b_dk32", 5.01, 25.4, 60, key_dim=32),
    _row("table3_c_n2", 6.11, 23.7, 36, num_layers=2),
    _row("table3_c_n4", 5.19, 25.3, 50, num_layers=4),
    _row("table3_c_n8", 4.88, 25.5, 80, num_layers=8),
    _row("table3_c_d256", 5.75, 24.5, 28, d_model=256),
    _row("table3_c_d1024", 4.66, 26.0, 168, d_model=1024),
    _row("table3_c_dff1024", 5.12, 25.4, 53, dff=1024),
    _row("table3_c_dff4096", 4.75, 26.2, 90, dff=4096),
    _row("table3_d_dropout0", 5.77, 24.6, dropout_rate=0.0),
    _row("table3_d_dropout20", 4.95, 25.5, dropout_rate=0.2),
    _row("table3_d_smoothing0", 4.67, 25.3, label_smoothing=0.0),
    _row("table3_d_smoothing20", 5.47, 25.7, label_smoothing=0.2),
    _row("table3_e_learned_positions", 4.92, 25.7, position="learned"),
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in _ROWS}


def get_preset(name: str) -> Preset:
    """Finds a configuration of the paper by name.

    Args:
        name: one of `PRESETS`.

    Returns:
        The preset.

    Raises:
        UserError: there is none of that name; the message tells the nearest one.

    Example:
        >>> get_preset("table3_b_dk16").bleu
        25.1
    """
    if name not in PRESETS:
        raise UserError(f"there is no preset {name!r}; {nearest_preset(name)}")
    return PRESETS[name]


def nearest_preset(name: str) -> str:
    """Says, for an error's message, which preset may have been meant by a name that is none."""
    nearest = difflib.get_close_matches(name, PRESETS, n=1, cutoff=0.5)
    return f"did you mean {nearest[0]}?" if nearest else f"choose one of {', '.join(PRESETS)}"


def _dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs
