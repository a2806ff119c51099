"""Writing attention for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tf_transformer.tensorboard.record import PLUGIN, encode


def attention_summary(
    name: str,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    attention: Mapping[str, Any],
    step: int | None = None,
    reference: str | None = None,
    alignment: Sequence[int] | None = None,
) -> bool:
    """Writes a sentence's attention with the default summary writer, for TensorBoard's Attention tab.

    Weights are kept as float16, compressed. A side of more than 256 tokens is cut, which the tab says.

    Args:
        name: name of the sentence in the tab; use the same at each step.
        source_tokens: the source's tokens.
        target_tokens: the translation's.
        attention: weights from 0 to 1, float (layers, heads, tokens that attend, tokens attended to), under one or more
            of the names "encoder", "decoder" (the two self-attentions) and "cross" (from target to source). Row i of
            the last two is used to choose target token i; column j of "decoder" is the decoder's j-th input: the start
            of the sentence, then target token j - 1.
        step: of the training; unless given, `tf.summary.experimental.get_step()`.
        reference: a reference translation, to be shown beside the model's.
        alignment: the source position aligned with each target token over all layers and heads, -1 for none.

    Returns:
        Whether it was written; without a default writer it is not.

    Raises:
        ValueError: weights whose shape does not fit the tokens, or whose values are not weights.

    Example:
        >>> import tempfile
        >>> import tensorflow as tf
        >>> from tf_transformer.tensorboard import attention_summary
        >>> cross = [[[[0.9, 0.1], [0.2, 0.8]]]]  # one layer, one head
        >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
        ...     bool(attention_summary("a dog", ["a", "dog"], ["ein", "Hund"], {"cross": cross}, step=1))
        True
    """
    import tensorflow as tf

    # The only public name of this message is in TensorFlow's older module.
    metadata = tf.compat.v1.SummaryMetadata(
        summary_description="Attention weights, shown in the Attention tab.",
        plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name=PLUGIN),
    )
    parts = encode(source_tokens, target_tokens, attention, reference, alignment)
    return tf.summary.write(name, tf.constant(parts), step=step, metadata=metadata)
