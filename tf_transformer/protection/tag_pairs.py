"""Tags around words: where such a pair goes in a translation, as TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from tf_transformer.protection.words import whole_words

# Pairs of tags one directly around another, as in <a><b>here</b></a>, around the innermost one.
MOST_AROUND = 3
_OPENS = r"(?s)<[A-Za-z](?:[^<>]*[^<>/])?>"
_CLOSES = r"(?s)</[A-Za-z][^<>]*>"
_NAME = r"(?s)^</?([A-Za-z][^\s<>/]*).*$"


def around_words(
    spans: tf.Tensor,
    is_free: tf.Tensor,
    begin: tf.Tensor,
    end: tf.Tensor,
    alignment: tf.Tensor,
    stays: tf.Tensor,
    starts: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds places for pairs of tags, such as `<b>` and the `</b>` behind it, without another span between them.

    They go around the words that are aligned to what they enclose in the source: of all runs of words the one in which
    tokens that are exceed those that are not by most. A pair directly around such a pair goes around the same words.

    Args:
        spans: string (batch, spans).
        is_free: bool (batch, spans), which spans have no place of their own.
        begin: int32 (batch, spans), how many of the source's tokens come before each.
        end: int32 (batch, spans), the same with what the model reads for it.
        alignment: int32 (batch, length), for each token of the translations the place in the source.
        stays: bool (batch, length), which tokens stay; false at the closing token and at padding.
        starts: bool (batch, length), as `starts_word` gives it.

    Returns:
        Which spans open such a pair, and which close one, bool (batch, spans) each; and before which token each of
        these goes, int32 (batch, spans).
    """
    names = tf.strings.regex_replace(spans, _NAME, r"\1")
    opens, closes = (is_free & tf.strings.regex_full_match(spans, pattern) for pattern in (_OPENS, _CLOSES))
    is_pair = opens & _ahead(closes, 1) & (names == _ahead(names, 1))
    inside = (alignment[:, None] >= end[:, :, None]) & (alignment[:, None] < _ahead(begin, 1)[:, :, None])
    words = whole_words(inside & stays[:, None] & is_pair[:, :, None], starts)
    first, behind = _densest(words & stays[:, None])
    opening = first < behind
    # The opening tag before the first word, and the closing one, which is the next span, behind the last.
    closing, place = _back(opening, 1), tf.where(opening, first, _back(behind, 1))
    around = opening
    for depth in range(1, MOST_AROUND + 1):
        last = 2 * depth + 1  # so many spans further on is the tag that closes a pair around so many
        around = opens & _ahead(around, 1) & _ahead(closes, last) & (names == _ahead(names, last))
        around &= (end == _ahead(begin, 1)) & (_ahead(end, last - 1) == _ahead(begin, last))
        place = tf.where(around, _ahead(first, depth), place)
        place = tf.where(_back(around, last), _back(behind, depth + 1), place)
        opening, closing = opening | around, closing | _back(around, last)
    return opening, closing, place


def _ahead(each: tf.Tensor, spans: int) -> tf.Tensor:
    """For each span what so many spans further on have; false, 0 or an empty text behind the last."""
    return tf.concat([each[:, spans:], tf.zeros_like(each[:, :spans])], axis=1)


def _back(each: tf.Tensor, spans: int) -> tf.Tensor:
    """For each span what so many spans before it have."""
    number = tf.shape(each)[1]
    kept = tf.maximum(number - spans, 0)
    return tf.concat([tf.zeros_like(each[:, : number - kept]), each[:, :kept]], axis=1)


def _densest(flags: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Where flags that are set exceed those that are not by most: Kadane's algorithm.

    Args:
        flags: bool (batch, spans, length).

    Returns:
        The first place and the one behind the last, int32 (batch, spans) each; of equals the first. Both are 0 where
        no flag is set.
    """
    weights = tf.where(flags, 1, -1)

    def step(place, total, begin, best, first, end):
        begin = tf.where(total > 0, begin, place)
        total = tf.maximum(total, 0) + weights[:, :, place]
        better = total > best
        best, first, end = (tf.where(better, *either) for either in ((total, best), (begin, first), (place + 1, end)))
        return place + 1, total, begin, best, first, end

    zeros = tf.zeros(tf.shape(flags)[:2], tf.int32)
    length = tf.where(tf.reduce_any(flags), tf.shape(flags)[2], 0)  # most texts have no tags
    *_, first, end = tf.while_loop(lambda place, *_: place < length, step, (0, *5 * [zeros]))
    return first, end
