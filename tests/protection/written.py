"""Spans put back into translations that tests write by hand."""

import tensorflow as tf

from tf_transformer.protection.places import find_places
from tf_transformer.protection.putting_back import put_back
from tf_transformer.protection.spans import take_out
from tf_transformer.tokenizers import TokenizerPair
from tf_transformer.tokenizers.base import END_ID

SOURCE_WORDS = ["the", "old", "dog", "sees", "a", "big", "cat", "at", "night"]
TARGET_WORDS = ["der", "alte", "Hund", "sieht", "eine", "große", "Katze", "in", "Nacht"]
WORDS = [*SOURCE_WORDS, *".,!()", *TARGET_WORDS]


def written(pair: TokenizerPair, texts: list[str], translations: list[str], alignments: list[list[int]]) -> list[str]:
    """The texts' spans in translations, whose tokens are aligned to those of what the model reads of the texts."""
    taken = take_out(texts, bool(pair.source.placeholder_ids))
    sources, targets = pair.source.tokenize(taken.text).to_list(), pair.target.tokenize(translations).to_list()
    assert [len(alignment) for alignment in alignments] == [len(target) for target in targets]
    rows = [[*alignment, len(source)] for alignment, source in zip(alignments, sources, strict=True)]
    source_ids, ids = (tf.ragged.constant([[*row, END_ID] for row in side]).to_tensor() for side in (sources, targets))
    ids = tf.pad(ids, [[0, 0], [0, 2]])
    alignment = tf.pad(tf.ragged.constant(rows).to_tensor(-1), [[0, 0], [0, 2]], constant_values=-1)
    places = find_places(taken, pair.source, pair.target, source_ids, ids, alignment)

    def text_of(tokens: tf.RaggedTensor) -> tf.Tensor:
        return pair.target.detokenize(tokens.with_values(tf.gather(tf.reshape(ids, [-1]), tokens.values)))

    return [text.decode() for text in put_back(taken, places, pair.target.begins_word(ids), text_of).numpy()]
