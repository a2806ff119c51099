"""Protected spans are put back into translations, as TensorFlow ops."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tf_transformer.protection.places import Places
from tf_transformer.protection.spans import Taken

# After these no blank comes.
_OPENS = r"(?s).*[(\[{«„“‘]"


def put_back(
    taken: Taken, places: Places, begins_word: tf.Tensor, write: Callable[[tf.RaggedTensor], tf.Tensor]
) -> tf.Tensor:
    """Puts each span into its translation, once.

    Args:
        taken: what was taken out of the texts.
        places: where it goes.
        begins_word: bool (batch, length), before which tokens of the translations there is a blank.
        write: makes texts, string (parts,), of the numbers of tokens, int32 (parts, None); they count all places of the
            batch, row by row.

    Returns:
        The translations, string (batch,).
    """
    order = tf.argsort(2 * places.gaps + tf.where(places.closes, 0, 1), axis=1, stable=True)
    gaps = tf.gather(places.gaps, order, batch_dims=1)
    spans, is_span, binds_left, binds_right = (
        tf.gather(each, order, batch_dims=1)
        for each in (taken.spans, taken.is_span, taken.binds_left, taken.binds_right)
    )

    # The tokens that stay, in parts: before the first span, between two, behind the last.
    rows, parts = tf.shape(gaps)[0], tf.shape(gaps)[1] + 1
    number = tf.cumsum(tf.cast(places.stays, tf.int32), axis=1, exclusive=True)
    part = tf.reduce_sum(tf.cast(gaps[:, None] <= number[:, :, None], tf.int32), axis=2)
    part += parts * tf.range(rows)[:, None]
    token = tf.reshape(tf.range(tf.size(number)), tf.shape(number))
    tokens = tf.RaggedTensor.from_value_rowids(
        tf.boolean_mask(token, places.stays), tf.boolean_mask(part, places.stays), rows * parts, validate=False
    )
    texts = tf.reshape(write(tokens), [rows, parts])
    first = tf.gather(tf.pad(tokens.values, [[0, 1]]), tokens.row_starts())  # of any part without a token, whatever
    has_blank = tf.reshape(tf.gather(tf.reshape(begins_word, [-1]), first), [rows, parts])[:, 1:]

    before, behind = texts[:, :-1], texts[:, 1:]
    is_first = tf.range(parts - 1) == 0
    binds_to_span = binds_left | tf.pad(binds_right[:, :-1], [[0, 0], [1, 0]])
    without_blank = tf.where(
        before == "", is_first | binds_to_span, binds_left | tf.strings.regex_full_match(before, _OPENS)
    )
    blank_left = tf.where(is_span & ~without_blank, " ", "")
    blank_right = tf.where(is_span & (behind != "") & has_blank & ~binds_right, " ", "")
    joined = tf.strings.reduce_join(tf.strings.join([blank_left, spans, blank_right, behind]), axis=1)
    return tf.strings.join([texts[:, 0], joined])
