"""The paper's configurations by name, with what the paper says each scored (Vaswani et al., 2017, Table 3).

A row of Table 3 is the base model with one change, and is written here the same way.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from tf_transformer.errors import UserError
from tf_transformer.layers.arguments import NORM_EPSILON, check_heads, check_sizes, check_vocabularies

# The joint byte-pair vocabulary of WMT 2014 English-German, which the table's parameter counts go by.
PAPER_VOCAB_SIZE = 37_000

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
        """The exact count of parameters with the paper's vocabulary."""
        return count_parameters(input_vocab_size=PAPER_VOCAB_SIZE, target_vocab_size=PAPER_VOCAB_SIZE, **self.model)


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


def preset_arguments(name: str) -> dict[str, Any]:
    """Gives the `Transformer` arguments of a configuration of the paper, all but the vocabulary sizes.

    Args:
        name: one of `PRESETS`.

    Returns:
        A new dictionary of arguments.

    Raises:
        UserError: there is no preset of that name.

    Example:
        >>> preset_arguments("big")["num_heads"]
        16
    """
    return dict(get_preset(name).model)


def count_parameters(
    num_layers: int,
    d_model: int,
    num_heads: int,
    dff: int,
    input_vocab_size: int,
    target_vocab_size: int,
    dropout_rate: float = 0.1,
    attention_dropout_rate: float = 0.0,
    activation_dropout_rate: float = 0.0,
    key_dim: int | None = None,
    value_dim: int | None = None,
    norm_first: bool = False,
    position: str = "sinusoidal",
    max_length: int = 1024,
    share_embeddings: str = "none",
    window: int | None = None,
    decoder_layers: int | None = None,
    next_word: Any = None,
    tree_state: Any = None,
    activation: str = "relu",
    norm_epsilon: float = NORM_EPSILON,
    scale_embeddings: bool = True,
    output_bias: bool = False,
    tree_loss: float = 0.0,
    alignment_head: Any = None,
) -> int:
    """Counts the trainable numbers of a `Transformer` without making it.

    Args:
        num_layers: layers in the encoder, and in the decoder unless `decoder_layers` is given.
        d_model: width of the model.
        num_heads: heads of each attention.
        dff: width inside the feed-forward networks.
        input_vocab_size: size of the source vocabulary.
        target_vocab_size: size of the target vocabulary.
        dropout_rate: has no parameters; taken so that a model's arguments can be handed on as they are.
        attention_dropout_rate: has none either.
        activation_dropout_rate: has none either.
        key_dim: width of a head's queries and keys; `d_model / num_heads` unless given.
        value_dim: width of a head's values; `d_model / num_heads` unless given.
        norm_first: pre-norm, which ends each stack with one more norm.
        position: "sinusoidal" or "sinusoidal_halves" (no parameters), or "learned" (a table for each stack).
        max_length: positions in a learned table.
        share_embeddings: "all" (one matrix), "target" (target and projection share) or "none" (three).
        window: has no parameters.
        decoder_layers: layers in the decoder, where it has not as many.
        next_word: has none.
        tree_state: as the model takes it: two projections, two embeddings of each label and of none, and some numbers'.
        activation: has no parameters.
        norm_epsilon: has none.
        scale_embeddings: has none.
        output_bias: one number for each target token.
        tree_loss: unless it is 0, with `tree_state`, projections onto what each word and each span is to tell.
        alignment_head: has none.

    Returns:
        The number of parameters.

    Raises:
        ValueError: the sizes make no model.

    Example:
        >>> count_parameters(**preset_arguments("base"), input_vocab_size=37_000, target_vocab_size=37_000)
        63082496
    """
    check_heads(d_model, num_heads, key_dim, value_dim)
    check_sizes(num_layers=num_layers, dff=dff, max_length=max_length)
    check_vocabularies(share_embeddings, input_vocab_size, target_vocab_size)
    keys = num_heads * (key_dim or d_model // num_heads)
    values = num_heads * (value_dim or d_model // num_heads)
    attention = 2 * _dense(d_model, keys) + _dense(d_model, values) + _dense(values, d_model)
    feed_forward = _dense(d_model, dff) + _dense(dff, d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    closing_norms = 2 * norm if norm_first else 0
    positions = 2 * max_length * d_model if position == "learned" else 0
    rows = {
        "all": target_vocab_size,
        "target": input_vocab_size + target_vocab_size,
        "none": input_vocab_size + 2 * target_vocab_size,
    }[share_embeddings]
    told = 0
    if tree_state is not None:
        # Keras takes seconds to import, and few ask for it.
        from tf_transformer.layers.tree_state import MOST_BRACKETS, MOST_EMPTY

        if tree_loss:
            labels = len(tree_state[2]) + 1
            told += _dense(d_model, target_vocab_size + 2 * (MOST_BRACKETS + 1) + 2 * labels)
            told += 4 * _dense(d_model, d_model) + _dense(d_model, labels) + 1
        told += 2 * d_model * d_model + (2 * (len(tree_state[2]) + 1) + MOST_EMPTY + 1) * d_model
    layers = num_layers * encoder_layer + (num_layers if decoder_layers is None else decoder_layers) * decoder_layer
    bias = target_vocab_size if output_bias else 0
    return layers + closing_norms + positions + rows * d_model + bias + told


def _dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs
