"""What the tests of this folder may use."""

import pytest

from tests.protection.written import WORDS
from tf_transformer.tokenizers import TokenizerPair, WordPieceTokenizer, train_tokenizers


@pytest.fixture(scope="module")
def tokenizers(eager) -> dict[str, TokenizerPair]:
    """A word is one token in all of them; the last has placeholders."""
    pairs = [(" ".join(WORDS), " ".join(WORDS))] * 50
    pieces = WordPieceTokenizer(["[PAD]", "[UNK]", "[START]", "[END]", *WORDS, "##s"])
    return {
        "wordpiece": TokenizerPair(pieces, pieces, "wordpiece"),
        "bpe": train_tokenizers(pairs, vocab_size=400),
        "placeholders": train_tokenizers(pairs, vocab_size=410, placeholders=True),
    }
