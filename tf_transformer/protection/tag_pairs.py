"""Tags around words: where such a pair goes in a translation, as TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from tf_transformer.protection.words import whole_words

_OPENS = r"(?s)<[A-Za-z](?:[^<>]*[^<>/])?>"
_CLOSES = r"(?s)</[A-Za-z][^<>]*>"
_NAME = r"(?s)^</?([A-Za-z][^\s<>/]*).*$"


def around_words(
    spans: tf.Tensor, begin: tf.Tensor, alignment: tf.Tensor, is_token: tf.Tensor, starts: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds places for pairs of tags, such as `<b>` and the `</b>` behind it, without another span between them.

    They go around the words that are aligned to what they enclose in the source: of all runs of words the one in which
    tokens that are exceed those that are not by most.

    Args:
        spans: string (batch, spans).
        begin: int32 (batch, spans), how many of the source's tokens come before each.
        alignment: int32 (batch, length), for each token of the translations the place in the source.
        is_token: bool (batch, length), false at the closing token and at padding.
        starts: bool (batch, length), as `starts_word` gives it.

    Returns:
        Which spans open such a pair, and which close one, bool (batch, spans) each; and before which token each of
        these goes, int32 (batch, spans).
    """
    names = tf.strings.regex_replace(spans, _NAME, r"\1")
    opens, closes = (tf.strings.regex_full_match(spans, pattern) for pattern in (_OPENS, _CLOSES))
    is_pair = opens & _next(closes) & (names == _next(names))
    inside = (alignment[:, None] >= begin[:, :, None]) & (alignment[:, None] < _next(begin)[:, :, None])
    inside &= is_token[:, None] & is_pair[:, :, None]
    first, end = _densest(whole_words(inside, starts))
    is_opening = first < end
    # The opening tag before the first word, and the closing one, which is the next span, behind the last.
    return is_opening, _previous(is_opening), tf.where(is_opening, first, _previous(end))


def _next(each: tf.Tensor) -> tf.Tensor:
    return tf.concat([each[:, 1:], tf.zeros_like(each[:, :1])], axis=1)


def _previous(each: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.zeros_like(each[:, :1]), each[:, :-1]], axis=1)


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
    *_, first, end = tf.while_loop(lambda place, *_: place < tf.shape(flags)[2], step, (0, *5 * [zeros]))
    return first, end
