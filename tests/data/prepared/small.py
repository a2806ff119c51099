"""Prepared pairs of a tokenizer so plain that tests can do without it."""

import io
import random

import tensorflow as tf
from rich.console import Console

from tf_transformer.data.prepared import preparing
from tf_transformer.tokenizers import Tokenizer, TokenizerPair

QUIET = Console(file=io.StringIO())


def numbered(count):
    rng = random.Random(0)
    return [(f"{n}" + "s" * rng.randrange(17), f"{n}" + "t" * rng.randrange(17)) for n in range(count)]


class Counted:
    """Pairs that know how often they were read, and what tells them from others."""

    def __init__(self, pairs, state):
        self.pairs, self.known, self.passes = pairs, state, 0

    def state(self):
        return self.known

    def __iter__(self):
        self.passes += 1
        return iter(self.pairs)


class Characters(Tokenizer):
    """A token a character, numbered from 4."""

    vocab_size = 0x110000 + 4

    def tokenize(self, texts):
        return tf.strings.unicode_decode(texts, "UTF-8") + 4

    def pieces(self, ids):
        return [chr(token - 4) for token in ids]

    def to_bytes(self):
        return b"characters"


class FewCharacters(Characters):
    """The same for text whose characters are all among the first."""

    vocab_size = 2**16


CHARACTERS = TokenizerPair(Characters(), Characters(), "characters")
FEW = TokenizerPair(FewCharacters(), FewCharacters(), "few characters")


def prepare(pairs, folder, tokenizers=CHARACTERS, max_length=30, max_ratio=None, console=QUIET, **settings):
    limits = {"max_length": max_length, "max_ratio": max_ratio}
    return preparing.prepare_pairs(pairs, tokenizers, folder, **limits, settings=settings, console=console)


def texts_of(prepared):
    """All pairs, read from the arrays one by one."""

    def texts(side):
        for begin, end in zip(side.offsets[:-1], side.offsets[1:], strict=True):
            yield "".join(chr(int(token) - 4) for token in side.ids[begin:end])

    return list(zip(texts(prepared.source), texts(prepared.target), strict=True))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}
