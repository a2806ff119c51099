"""Outside of a graph every tokenizer gives the ids that it gives in one, in any number of threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.errors import UserError
from tf_transformer.tokenizers import BracketTokenizer, train_parsing_tokenizers, train_tokenizers

PAIRS = [("the old man sees a dog.", "der alte Mann sieht einen Hund."), ("a über 3½ ﬁ 漢字", "e\u0301 👍🏽 x")] * 3
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(PAIRS[0]), max_size=8)


@pytest.fixture(scope="module", params=["bpe", "unigram", "wordpiece", "brackets", "words"])
def tokenizer(request):
    if request.param == "brackets":
        return BracketTokenizer(["S", "NP"])
    if request.param == "words":
        return train_parsing_tokenizers([(source, "(S XX )S") for source, _ in PAIRS], vocab_size=290).source
    size = 60 if request.param == "wordpiece" else 296
    return train_tokenizers(PAIRS, kind=request.param, vocab_size=size).source


@settings(max_examples=100, deadline=None)
@given(texts=TEXTS)
def test_it_gives_the_same_ids(tokenizer, texts):
    ids, lengths = tokenizer.encode(texts)
    expected = tokenizer.tokenize(tf.constant(texts, tf.string, shape=[len(texts)]))
    assert ids.tolist() == expected.flat_values.numpy().tolist() and ids.dtype == np.int32
    assert lengths.tolist() == expected.row_lengths().numpy().tolist() and lengths.dtype == np.int64


def test_one_string_is_not_taken_letter_by_letter(tokenizer):
    with pytest.raises(UserError, match=r"^texts is one string; give a list of strings, .*: \['a dog', \.\.\.\]$"):
        tokenizer.encode("a dog")


def test_threads_do_not_disturb_each_other(tokenizer):
    chunks = [[f"the {n} old (S man {n * n}", "(S (NP XX )NP )S"] * 50 for n in range(40)]
    expected = [tokenizer.encode(chunk) for chunk in chunks]
    with ThreadPoolExecutor(8) as threads:
        for one, other in zip(threads.map(tokenizer.encode, chunks), expected, strict=True):
            assert all((a == b).all() for a, b in zip(one, other, strict=True))
