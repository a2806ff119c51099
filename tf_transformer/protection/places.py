"""Where in a translation its protected spans go, as TensorFlow ops."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.protection.spans import Taken
from tf_transformer.protection.tag_pairs import around_words
from tf_transformer.protection.words import MARKS, starts_word, whole_words
from tf_transformer.tokenizers.base import END_ID, PAD_ID, UNKNOWN_ID, Tokenizer

# Of a token, on average: SentencePiece learns none of more than 16.
MOST_CHARACTERS = 16
_BLANK = "▁"  # as a token of its own: it stands before a placeholder, and goes with it


class Places(NamedTuple):
    """Which tokens of translations stay, and where among them the spans go.

    Attributes:
        stays: bool (batch, length); the others are placeholders, and what spans replace.
        gaps: int32 (batch, spans), how many of the tokens that stay come before each span.
        closes: bool (batch, spans), which spans close a tag before that: of those in one gap they come first.
    """

    stays: tf.Tensor
    gaps: tf.Tensor
    closes: tf.Tensor


def find_places(
    taken: Taken, source: Tokenizer, target: Tokenizer, source_ids: tf.Tensor, ids: tf.Tensor, alignment: tf.Tensor
) -> Places:
    """Finds a place for each span.

    It is that of its placeholder, the first if the model wrote it twice. If the model read a text in place of the span,
    it is where the model wrote the span itself for this text; or that of the words aligned to the text, which do not
    stay. A pair of tags goes around the words that are aligned to those which it enclosed. Else the alignment of the
    other tokens tells.

    Args:
        taken: what was taken out of the texts.
        source: the tokenizer of the texts.
        target: that of the translations.
        ids: int32 (batch, length), the translations, with at least one padding token.
        source_ids: int32 (batch, source length), what the model read.
        alignment: int32 (batch, length), as `align` gives it: for each token the place in the source.
    """
    is_token = (ids != PAD_ID) & (ids != END_ID)
    number_of_tokens = tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1)
    starts = starts_word(target, ids)
    alignment = _with_full_stops(source, target, source_ids, ids, alignment)
    # Together: where the model reads nothing in a span's place, both are the same beginning of the text.
    ends = tf.concat([taken.before, taken.until], axis=1)
    begin, end = tf.split(_count_tokens(source, taken.text, ends, tf.shape(source_ids)[1]), 2, axis=1)

    of_placeholder = _first(_placeholders_of(target, ids, taken.is_span))
    aligned, near = (
        (alignment[:, None] >= begin[:, :, None] - beside) & (alignment[:, None] < end[:, :, None] + beside)
        for beside in (0, 1)
    )
    aligned &= is_token[:, None] & taken.is_replacing[:, :, None]
    written = _written(target, taken, ids, aligned, near, starts | ~is_token)
    replaced = _last_words(aligned, starts)
    for better in written, of_placeholder:
        replaced = tf.where(tf.reduce_any(better, axis=2, keepdims=True), better, replaced)
    stays = is_token & ~_is_placeholder(target, ids) & ~tf.reduce_any(replaced, axis=1)

    place = _by_alignment(alignment, begin, stays, starts & is_token, number_of_tokens)
    replaces = tf.reduce_any(replaced, axis=2)
    opens, closes, around = around_words(taken.spans, ~replaces, begin, end, alignment, stays, starts)
    first_replaced = tf.argmax(tf.cast(replaced, tf.int32), axis=2, output_type=tf.int32)
    for has_better, better in (opens | closes, around), (replaces, first_replaced):
        place = tf.where(has_better, better, place)
    stay_before = tf.cumsum(tf.cast(tf.pad(stays, [[0, 0], [0, 1]]), tf.int32), axis=1, exclusive=True)
    place = tf.where(taken.is_span, place, tf.shape(ids)[1])
    return Places(stays, tf.gather(stay_before, place, batch_dims=1), closes)


def _by_alignment(
    alignment: tf.Tensor, begin: tf.Tensor, stays: tf.Tensor, starts: tf.Tensor, number_of_tokens: tf.Tensor
) -> tf.Tensor:
    """Before which token each span goes, int32 (batch, spans).

    Tokens aligned to what stands before the span in the source should come before it here too, and the others behind
    it. Not all can where the order of words differs: the nearer a token's source is to the span, the more it counts.
    """
    behind = alignment[:, None] >= begin[:, :, None]
    distance = tf.where(behind, alignment[:, None] - begin[:, :, None], begin[:, :, None] - 1 - alignment[:, None])
    weight = tf.cast(stays[:, None], tf.float32) / tf.square(1.0 + tf.cast(distance, tf.float32))
    before_it, behind_it = (tf.where(behind, *either) for either in ((0.0, weight), (weight, 0.0)))
    ends = [[0, 0], [0, 0], [1, 0]]
    agreeing = tf.cumsum(tf.pad(before_it, ends), axis=2)
    agreeing += tf.reverse(tf.cumsum(tf.pad(tf.reverse(behind_it, [2]), ends), axis=2), [2])
    # Not inside a word, but behind the last token, too.
    is_end = tf.range(tf.shape(stays)[1] + 1) == number_of_tokens[:, None]
    allowed = tf.pad(starts, [[0, 0], [0, 1]]) | is_end
    return tf.argmax(tf.where(allowed[:, None], agreeing, -1.0), axis=2, output_type=tf.int32)


def _with_full_stops(
    source: Tokenizer, target: Tokenizer, source_ids: tf.Tensor, ids: tf.Tensor, alignment: tf.Tensor
) -> tf.Tensor:
    """The alignment, but for a full stop or the like at the end: it goes with the source's, whatever it attends to."""
    ends = []
    for tokenizer, tokens in ((source, source_ids), (target, ids)):
        is_token = (tokens != PAD_ID) & (tokens != END_ID)
        last = tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1)[:, None] - 1
        is_mark = tf.strings.regex_full_match(tokenizer.piece_texts(tokens), MARKS)
        ends.append((is_mark & (tf.range(tf.shape(tokens)[1]) == last), last))
    (source_mark, last), (target_mark, _) = ends
    return tf.where(target_mark & tf.reduce_any(source_mark, axis=1, keepdims=True), last, alignment)


def _written(
    target: Tokenizer, taken: Taken, ids: tf.Tensor, aligned: tf.Tensor, near: tf.Tensor, starts: tf.Tensor
) -> tf.Tensor:
    """Where the model wrote by itself what a span is to be: of all such places the one that is aligned best.

    One that is not aligned to the span's text counts where it may be meant by it: if it is aligned to no other span's
    text, and to what stands beside this one's in the source, or nothing is aligned to this one's.

    Args:
        target: the tokenizer of the translations.
        taken: what was taken out of the texts; spans that replace nothing are written nowhere.
        ids: int32 (batch, length).
        aligned: bool (batch, spans, length), which tokens are aligned to what the model read for the span.
        near: the same with one token more on either side.
        starts: bool (batch, length), before which tokens a word ends or begins.

    Returns:
        bool (batch, spans, length).
    """
    length = tf.shape(ids)[1]
    place = tf.range(length)
    is_short = (
        tf.strings.length(taken.spans, "UTF8_CHAR") <= MOST_CHARACTERS * length
    )  # a longer one is written nowhere
    spans = tf.where(taken.is_replacing & is_short, taken.spans, "")
    tokens = target.tokenize(tf.reshape(spans, [-1]))
    can_be = (tokens.row_lengths() <= tf.cast(length, tf.int64)) & ~tf.reduce_any(tokens == UNKNOWN_ID, axis=1)
    number = tf.reshape(tf.where(can_be, tf.cast(tokens.row_lengths(), tf.int32), 0), tf.shape(spans))[:, :, None]
    tokens = tf.reshape(tokens[:, :length].to_tensor(), tf.concat([tf.shape(spans), [-1]], axis=0))
    with_end = tf.pad(ids, [[0, 0], [0, 1]], constant_values=-1)  # which is no token

    def matches_too(k: tf.Tensor, begins: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        same = tf.gather(with_end, tf.minimum(place + k, length), axis=1)[:, None] == tokens[:, :, k, None]
        return k + 1, begins & (same | (k >= number))

    begins = tf.broadcast_to((number > 0) & starts[:, None], tf.shape(aligned))
    _, begins = tf.while_loop(lambda k, _: k < tf.shape(tokens)[2], matches_too, (0, begins))
    end = tf.minimum(place + number, length)
    begins &= tf.gather(tf.pad(starts, [[0, 0], [0, 1]], constant_values=True), end, batch_dims=1)

    def count(flags: tf.Tensor) -> tf.Tensor:
        """How many of the tokens of a span that is written from each place on have the flag."""
        sums = tf.cumsum(tf.pad(tf.cast(flags, tf.int32), [[0, 0], [0, 0], [1, 0]]), axis=2)
        return tf.gather(sums, end, batch_dims=2) - sums[:, :, :-1]

    own = count(aligned)
    of_any = count(tf.broadcast_to(tf.reduce_any(aligned, axis=1, keepdims=True), tf.shape(aligned)))
    may_be_meant = (of_any == 0) & ((count(near) > 0) | ~tf.reduce_any(aligned, axis=2, keepdims=True))
    agreeing = tf.where(begins & ((own > 0) | may_be_meant), own + 1, 0)
    best = tf.argmax(agreeing, axis=2, output_type=tf.int32)[:, :, None]
    is_written = tf.reduce_any(agreeing > 0, axis=2, keepdims=True)
    return is_written & (place >= best) & (place < best + number)


def _last_words(aligned: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    """Of the words that have an aligned token, the last ones without another word between: bool, as `aligned` is.

    An article before a noun, which is often aligned to it as well, stays where there is something between them.
    """
    aligned = whole_words(aligned, starts)
    others_behind = tf.cumsum(tf.cast(~aligned, tf.int32), axis=2, reverse=True)
    fewest = tf.reduce_min(tf.where(aligned, others_behind, tf.int32.max), axis=2, keepdims=True)
    return aligned & (others_behind == fewest)


def _placeholders_of(target: Tokenizer, ids: tf.Tensor, is_span: tf.Tensor) -> tf.Tensor:
    """Which tokens are each span's placeholder, bool (batch, spans, length)."""
    placeholders = tf.constant([*target.placeholder_ids, -1], tf.int32)
    number = tf.minimum(tf.range(tf.shape(is_span)[1]), tf.size(placeholders) - 1)
    return (ids[:, None] == tf.gather(placeholders, number)[:, None]) & is_span[:, :, None]


def _is_placeholder(target: Tokenizer, ids: tf.Tensor) -> tf.Tensor:
    """Which tokens are placeholders, or the blanks before them, bool (batch, length)."""
    if not target.placeholder_ids:
        return tf.fill(tf.shape(ids), False)
    is_placeholder = tf.reduce_any(ids[:, :, None] == tf.constant(target.placeholder_ids, tf.int32), axis=2)
    is_next = tf.pad(is_placeholder[:, 1:], [[0, 0], [0, 1]])
    return is_placeholder | (is_next & (target.piece_texts(ids) == _BLANK))


def _first(flags: tf.Tensor) -> tf.Tensor:
    return flags & (tf.cumsum(tf.cast(flags, tf.int32), axis=-1) == 1)


def _count_tokens(tokenizer: Tokenizer, texts: tf.Tensor, ends: tf.Tensor, longest: tf.Tensor) -> tf.Tensor:
    """How many tokens a text has up to each of some places.

    Args:
        tokenizer: that of the texts.
        texts: string (batch,).
        ends: int32 (batch, places), numbers of bytes.
        longest: how many tokens the model read at most: of what comes behind them it makes no difference how many.

    Returns:
        int32 (batch, places).
    """
    # What it read has fewer characters. Else many places in a long text would take the square of their number.
    texts = tf.strings.substr(texts, 0, MOST_CHARACTERS * longest, unit="UTF8_CHAR")
    repeated = tf.repeat(texts[:, None], tf.shape(ends)[1], axis=1)
    beginnings, number = tf.unique(tf.reshape(tf.strings.substr(repeated, tf.zeros_like(ends), ends), [-1]))
    counts = tf.cast(tokenizer.tokenize(beginnings).row_lengths(), tf.int32)
    return tf.reshape(tf.gather(counts, number), tf.shape(ends))
