"""Tokens that a test can tell without a tokenizer."""

import tensorflow as tf

from tf_transformer.tokenizers import Tokenizer


class Characters(Tokenizer):
    """A tokenizer so plain that the tests can do without it: a token a character, numbered from 4."""

    def tokenize(self, texts):
        return tf.strings.unicode_decode(texts, "UTF-8") + 4


class CharacterPair(tf.Module):
    source = target = Characters()


CHARACTERS = CharacterPair()
