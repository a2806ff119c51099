"""Decoding options as inputs of the signature `translate_with_options`, and its error messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.errors import UserError, check_is_list, reason

if TYPE_CHECKING:
    import tensorflow as tf

Output = dict[str, "tf.Tensor"]

# What the signature takes beside text and prefix, and what its inputs of these names mean.
OPTION_TYPES = {
    "beam_size": "int32",
    "num_hypotheses": "int32",
    "alpha": "float32",
    "min_length": "int32",
    "max_length": "int32",  # 0: no other limit than the model's and extra_length's
    "temperature": "float32",
    "top_k": "int32",
    "top_p": "float32",
    "seed": "int32",
    "replace_unknown": "bool",
    "protect": "bool",
    "no_repeat_ngram_size": "int32",
}

# What its checks say.
PREFIX_SHAPE = "prefix must have one string for each text; give an empty one where none is wanted"
PREFIX_LENGTH = (
    "a prefix has as many tokens as its translation may have, or more; shorten it, or raise max_length, or the "
    "extra_length that the translator is made with"
)
PREFIX_PROTECTED = "a prefix can't be given where text is protected; leave out one of the two"
POSITIONS = "more than the model has positions; take no more"  # of min_length


def batch_of_strings(texts: Sequence[str] | tf.Tensor, name: str) -> tf.Tensor:
    """The texts as a tensor, string (batch,).

    Raises:
        UserError: they are one string, or no batch of strings.
    """
    import tensorflow as tf

    check_is_list(texts, name)
    try:
        tensor = tf.convert_to_tensor(texts, tf.string)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} must be strings ({reason(error)}); give a list such as ['A dog.', 'A cat.']") from None
    if tensor.shape.rank not in (1, None):
        raise UserError(f"{name} has shape {tuple(tensor.shape)}; give one list of strings, shape (batch,)")
    return tensor


def check_prefixes(prefix: tf.Tensor, text: tf.Tensor) -> tf.Operation:
    """Raises InvalidArgumentError unless there is one prefix for each text."""
    import tensorflow as tf

    return tf.debugging.assert_equal(tf.shape(prefix), tf.shape(text), PREFIX_SHAPE)


def option_values(options: DecodingOptions) -> dict[str, np.generic]:
    """The options as the signature takes them, in the order of `OPTION_TYPES`."""
    values = {name: getattr(options, name) for name in OPTION_TYPES}
    values["max_length"] = options.max_length or 0
    return {name: np.dtype(OPTION_TYPES[name]).type(value) for name, value in values.items()}


def option_tensors(options: DecodingOptions) -> dict[str, tf.Tensor]:
    """The same as tensors."""
    import tensorflow as tf

    return {name: tf.constant(value, name=name) for name, value in option_values(options).items()}


def with_options(
    signature: Callable[[Any, Any, dict[str, np.generic]], Output],
    options: DecodingOptions,
    several: bool,
    known: Collection[str] = tuple(OPTION_TYPES),
) -> Callable[..., Output]:
    """Makes a function that translates with options, from a translator's signature or an exported one.

    Args:
        signature: calls it with texts, prefixes and options, as `option_values` gives them. Texts are as the function
            gets them, prefixes a list or a tensor of strings.
        options: how to decode.
        several: whether all the hypotheses are wanted, (batch, num_hypotheses), or one a text, (batch,).
        known: the options that the signature takes; that of an export of an earlier version may have fewer.

    Returns:
        A function of texts, a list or a tensor, and, where it is wanted, of what each translation must begin with,
        strings (batch,). It returns what `Translator.translate` does, and raises a UserError for too few prefixes, and
        for an option or a prefix that the model's positions have no room for.

    Raises:
        UserError: an option is not known to the signature.
    """
    for name in sorted(set(OPTION_TYPES) - set(known)):
        if getattr(options, name) != getattr(DecodingOptions, name):
            raise UserError(f"{name} is missing from this export, which an earlier version made; export it again")
    # Of several samples the best is none drawn by chance.
    values = option_values(options if several else replace(options, num_hypotheses=1))
    values = {name: value for name, value in values.items() if name in known}

    def translate(texts: list[str] | tf.Tensor, prefix: Sequence[str] | None = None) -> Output:
        check_is_list(texts, "texts")
        prefix = _no_prefix(texts) if prefix is None else batch_of_strings(prefix, "prefix")
        try:
            output = signature(texts, prefix, values)
        except Exception as error:  # TensorFlow's, or that of its C API
            refusal = _refusal(str(error), options)
            if refusal is None:
                raise
            raise refusal from None
        return output if several else {**output, **{name: output[name][:, 0] for name in ("translation", "score")}}

    return translate


def _no_prefix(texts: list[str] | tf.Tensor) -> list[str] | tf.Tensor:
    if isinstance(texts, list):
        return [""] * len(texts)
    import tensorflow as tf

    return tf.fill(tf.shape(texts), "")


def _refusal(message: str, options: DecodingOptions) -> UserError | None:
    """What the signature's own checks found wrong, if it was they that failed."""
    told = {message: message for message in (PREFIX_SHAPE, PREFIX_LENGTH, PREFIX_PROTECTED)}
    told[POSITIONS] = f"min_length is {options.min_length}: {POSITIONS}"
    return next((UserError(line) for check, line in told.items() if check in message), None)
