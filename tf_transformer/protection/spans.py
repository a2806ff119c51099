"""Protected spans are taken out of texts before these are translated, as TensorFlow ops."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.protection.patterns import MARKED, PARTS_OF_MARKED, PATTERN
from tf_transformer.tokenizers.placeholders import PLACEHOLDERS

# Around a span, while spans are looked for: control characters, which no text has.
_BEGINS, _ENDS = "\x1d", "\x1e"

# What belongs to a span if there is no blank between them, as in <b>dog.</b>: before it all but an opening bracket or
# quotation mark, behind it no full stop or the like.
_BINDS_BEFORE = r"[^\s(\[{«„“‘\"']"
_BINDS_BEHIND = r"[\pL\pN_/#@+=-]"
_CLOSES = r"[.,;:!?)\]}»”’…]"


class Taken(NamedTuple):
    """Texts without their protected spans, and what is needed to put those back.

    Rows are texts, columns their spans in order; a text with fewer has empty ones at the end.

    Attributes:
        text: string (batch,), what the model reads.
        spans: string (batch, spans), as they are to come out.
        is_span: bool (batch, spans).
        is_replacing: bool (batch, spans), whether the span comes in place of what the model makes of a text of its own.
        binds_left: bool (batch, spans), whether no blank is to come before the span.
        binds_right: bool (batch, spans), whether none is to come behind it.
        before: int32 (batch, spans), how many bytes of `text` come before each span.
        until: int32 (batch, spans), the same with what the model reads in place of the span.
    """

    text: tf.Tensor
    spans: tf.Tensor
    is_span: tf.Tensor
    is_replacing: tf.Tensor
    binds_left: tf.Tensor
    binds_right: tf.Tensor
    before: tf.Tensor
    until: tf.Tensor

    def rows(self, numbers: tf.Tensor) -> Taken:
        """The rows of these numbers, int (rows,)."""
        return Taken(*(tf.gather(each, numbers) for each in self))

    @classmethod
    def specs(cls) -> Taken:
        """What each is, for a graph that takes them."""
        text, flags, numbers = (tf.TensorSpec([None, None], dtype) for dtype in (tf.string, tf.bool, tf.int32))
        return cls(tf.TensorSpec([None], tf.string), text, flags, flags, flags, flags, numbers, numbers)


def take_out(texts: tf.Tensor, placeholders: bool) -> Taken:
    """Takes the protected spans out of texts.

    Args:
        texts: string (batch,), UTF-8.
        placeholders: whether placeholders stand for the first spans of each text: the model has learned them. Else, and
            for further spans, there stands what the text itself gives the model to read (`⟦dog|Hund⟧`), or nothing.

    Example:
        >>> taken = take_out(["See <b>x.org</b>!", "I saw {name} at www.example.com."], placeholders=True)
        >>> [text.decode() for text in taken.text.numpy()]
        ['See ⟦0⟧ x.org ⟦1⟧!', 'I saw ⟦0⟧ at ⟦1⟧.']
        >>> taken.spans.numpy().tolist()[1]
        [b'{name}', b'www.example.com']
        >>> take_out(["{name}, the ⟦dog|Hund⟧ is at www.example.com."], placeholders=False).text.numpy()[0]
        b', the dog is at.'
    """
    pieces = _split(texts)
    found, between = pieces[:, 1::2], pieces[:, ::2]
    numbers = tf.cast(found.row_lengths(), tf.int32)
    found, left, right = (each.to_tensor() for each in (found, between[:, :-1], between[:, 1:]))
    # A tokenizer reads a row of blanks as one; `find_places` relies on it where it cuts a long text.
    left = tf.strings.regex_replace(left, r"[\s\pZ]{2,}", " ")
    number = tf.broadcast_to(tf.range(tf.shape(found)[1]), tf.shape(found))
    is_span = number < numbers[:, None]
    follows_span, precedes_span = (left == "") & (number > 0), (right == "") & (number + 1 < numbers[:, None])
    binds_left = is_span & (follows_span | tf.strings.regex_full_match(left, f"(?s).*{_BINDS_BEFORE}"))
    binds_right = is_span & (precedes_span | tf.strings.regex_full_match(right, f"(?s){_BINDS_BEHIND}.*"))

    given = tf.where(
        tf.strings.regex_full_match(found, MARKED), tf.strings.regex_replace(found, PARTS_OF_MARKED, r"\1"), ""
    )
    has_placeholder = is_span & (number < (len(PLACEHOLDERS) if placeholders else 0))
    names = tf.gather(tf.constant(PLACEHOLDERS), tf.minimum(number, len(PLACEHOLDERS) - 1))
    read = tf.where(has_placeholder, names, given)
    # Where nothing is read, "at www.example.com." becomes "at.", and not "at .".
    closes = tf.strings.regex_full_match(right, f"(?s){_CLOSES}.*")
    left = tf.where((read == "") & closes, tf.strings.regex_replace(left, r"\s+$", ""), left)
    # The tokens of words begin with a blank: so a word beside a tag gets one.
    nothing = read == ""
    blank_left = tf.where(binds_left & (binds_right | ~nothing), " ", "")
    blank_right = tf.where(binds_right & ~nothing, " ", "")
    parts = tf.strings.join([left, blank_left, read, blank_right])
    text = tf.strings.join([tf.strings.reduce_join(parts, axis=1), between[:, -1:].flat_values])

    until = tf.cumsum(tf.strings.length(parts), axis=1)
    before = until - tf.strings.length(tf.strings.join([blank_left, read, blank_right]))
    until, before = (tf.where(is_span, each, 0) for each in (until, before))
    spans = tf.strings.regex_replace(found, PARTS_OF_MARKED, r"\2")
    is_replacing = (given != "") & ~has_placeholder
    return Taken(text, spans, is_span, is_replacing, binds_left, binds_right, before, until)


def nothing_taken(texts: tf.Tensor) -> Taken:
    """Texts as they are, in which nothing is protected."""
    no_text, no_flag, none = (tf.fill([tf.size(texts), 0], value) for value in ("", False, 0))
    return Taken(texts, no_text, no_flag, no_flag, no_flag, no_flag, none, none)


def _split(texts: tf.Tensor) -> tf.RaggedTensor:
    """Each text as an odd number of pieces, of which every second is a span."""
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")  # what is not UTF-8 becomes U+FFFD
    texts = tf.strings.regex_replace(texts, f"[{_BEGINS}{_ENDS}]", " ")
    marked = tf.strings.regex_replace(texts, PATTERN, rf"{_BEGINS}\1\3{_ENDS}\2")
    marked = tf.strings.regex_replace(marked, _BEGINS + _ENDS, "")  # of what is no span after all
    return tf.strings.split(tf.strings.regex_replace(marked, _BEGINS, _ENDS), _ENDS)
