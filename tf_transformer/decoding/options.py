"""Decoding options and their allowed values."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any

from tf_transformer.errors import UserError


@dataclass(frozen=True)
class DecodingOptions:
    """How a translation is searched for. The defaults are the paper's.

    All lengths are in target tokens, the closing one counted.

    Attributes:
        beam_size: hypotheses followed side by side; 1 is greedy search.
        alpha: exponent of the length penalty, from 0 to 10: a hypothesis's score is `log P / ((5 + length) / 6)^alpha`.
        length_offset: what stands in the place of the 5 there, from 0 to 100; the 6 is one more. 0 makes it `log P /
            length^alpha`, as in MarianMT and the transformers library.
        num_hypotheses: number of translations of each text, best first; with beam search at most `beam_size`.
        min_length: minimum number of tokens.
        extra_length: maximum number of tokens beyond the length of the source.
        max_length: maximum number of tokens; None for no limit but the model's and that of `extra_length`.
        temperature: 0 for beam search. From 1e-6 to 1e6, tokens are sampled: 1 uses the model's probabilities, lower
            values favour likely tokens.
        top_k: samples from this number of most likely tokens; 0 for all tokens.
        top_p: samples from the most likely tokens whose probabilities add up to this, from 1e-6 to 1.
        seed: random seed for sampling.
        no_repeat_ngram_size: a translation has each n-gram of so many tokens at most once; 0 for no such limit.
        replace_unknown: whether an unknown token is replaced with the source word it attends to most.
        protect: whether links, mail addresses, placeholders, tags, quantities, emoji, and what stands between ⟦ and ⟧
            come out as they are.

    Raises:
        UserError: an invalid value; the message names the option and what is allowed.

    Example:
        >>> DecodingOptions(beam_size=1).alpha
        0.6
    """

    beam_size: int = 4
    alpha: float = 0.6
    length_offset: float = 5.0
    num_hypotheses: int = 1
    min_length: int = 1
    extra_length: int = 50
    max_length: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    replace_unknown: bool = False
    protect: bool = False
    no_repeat_ngram_size: int = 0

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if name == "max_length" and value is None:
                continue
            kind, told = (Real, "a number") if name in OF_FLOATS else (Integral, "a whole number")
            if isinstance(value, bool) or not isinstance(value, kind):
                raise UserError(f"{name} is {value!r}; it must be {told}")
            if not value >= least:  # so that NaN is refused too
                raise UserError(f"{name} is {value}; it must be at least {least}")
            if value > most:
                raise UserError(f"{name} is {value}; it must be at most {most}")
            # NumPy's numbers are none of JSON's, in which exports hold the options.
            object.__setattr__(self, name, (float if kind is Real else int)(value))
        for name in ("replace_unknown", "protect"):
            value = getattr(self, name)
            if isinstance(value, bool):
                continue
            import numpy as np  # not above: the command reads recipes without it

            if not isinstance(value, np.bool_):  # "false", say, would count as true
                raise UserError(f"{name} is {value!r}; it must be True or False")
            object.__setattr__(self, name, bool(value))
        if 0 < self.temperature < COLDEST:
            raise UserError(f"temperature is {self.temperature}; it must be 0, or at least {COLDEST}")
        if not self.temperature and self.num_hypotheses > self.beam_size:
            raise UserError(
                f"num_hypotheses is {self.num_hypotheses}; it must be at most beam_size, {self.beam_size}, "
                "or give a temperature to sample any number"
            )
        if self.max_length is not None and self.max_length < self.min_length:
            raise UserError(f"max_length is {self.max_length}; it must be at least min_length, {self.min_length}")

    def changed(self, **changes: Any) -> DecodingOptions:
        """These options with some changed; the beam is widened to the hypotheses asked for unless it is given.

        Raises:
            UserError: no such option, a value that can't be, one of the draws' options where nothing is drawn, or a
                beam where tokens are drawn.

        Example:
            >>> DecodingOptions(beam_size=1).changed(num_hypotheses=3).beam_size
            3
        """
        unknown = sorted(set(changes) - {field.name for field in fields(self)})
        if unknown:
            names = ", ".join(field.name for field in fields(self))
            raise UserError(f"unknown option {unknown[0]}; choose from {names}")
        beam_size = changes.get("beam_size")
        if isinstance(changes.get("num_hypotheses"), Integral) and beam_size is None:
            changes["beam_size"] = max(self.beam_size, changes["num_hypotheses"])
        options = replace(self, **changes)
        # A temperature of 0 that is given is a search that is asked for; one that isn't has been forgotten.
        if not options.temperature and "temperature" not in changes:
            for name in OF_DRAWS:
                if name in changes:
                    raise UserError(
                        f"{name} is {changes[name]}, but it only applies to sampling; also give a temperature above 0"
                    )
        if options.temperature and beam_size and beam_size > 1:
            raise UserError(f"beam_size is {beam_size}, but sampling uses no beam; leave it out, or give temperature 0")
        return options


# What matters only with a temperature above 0.
OF_DRAWS = ("top_k", "top_p", "seed")

# What an int32 holds.
MOST = 2**31 - 1

# Below it, and near 0 in float32, a temperature draws nothing but the likeliest token.
COLDEST = 1e-6

# The least and the most of each option. With the highest alpha the scores of 6,000 tokens are normal float32 numbers
# still, and come in the right order.
RANGES = {
    "beam_size": (1, MOST),
    "alpha": (0, 10),
    "length_offset": (0, 100),
    "num_hypotheses": (1, MOST),
    "min_length": (1, MOST),
    "extra_length": (0, MOST),
    "max_length": (1, MOST),
    "temperature": (0, 1e6),
    "top_k": (0, MOST),
    "top_p": (1e-6, 1),
    "seed": (0, MOST),
    "no_repeat_ngram_size": (0, MOST),
}

OF_FLOATS = ("alpha", "length_offset", "temperature", "top_p")


def check_positions(options: DecodingOptions, positions: int) -> None:
    """Raises a UserError for lengths that a model of so many positions can't have."""
    for name in ("min_length", "max_length"):
        value = getattr(options, name)
        if value is not None and value > positions:
            raise UserError(f"{name} is {value}; the model has {positions} positions; give at most that many")


def check_options(options: dict[str, Any]) -> list[Any]:
    """Checks options that come as tensors, in a graph.

    Args:
        options: scalar tensors, by name; "max_length" 0 is none.

    Returns:
        Operations that raise InvalidArgumentError for what `DecodingOptions` refuses.
    """
    import tensorflow as tf

    checks = []
    for name, (least, most) in {**RANGES, "max_length": (0, MOST)}.items():
        if name not in options:
            continue
        value = options[name]
        checks.append(
            tf.debugging.assert_greater_equal(value, tf.cast(least, value.dtype), f"{name} must be >= {least}")
        )
        if name in OF_FLOATS:
            checks.append(tf.debugging.assert_less_equal(value, float(most), f"{name} must be <= {most}"))
    searches = tf.equal(options["temperature"], 0.0)
    most_hypotheses = tf.where(searches, options["beam_size"], options["num_hypotheses"])
    longest = tf.where(options["max_length"] > 0, options["max_length"], options["min_length"])
    return [
        *checks,
        tf.debugging.Assert(
            searches | (options["temperature"] >= COLDEST), [f"temperature must be 0, or >= {COLDEST}"]
        ),
        tf.debugging.assert_less_equal(
            options["num_hypotheses"],
            most_hypotheses,
            "num_hypotheses must be at most beam_size, unless temperature is above 0",
        ),
        tf.debugging.assert_less_equal(options["min_length"], longest, "min_length must be at most max_length"),
    ]
