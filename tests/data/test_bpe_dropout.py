"""BPE-dropout: the same sentences, cut into other pieces in each epoch, and the seed decides which."""

import collections
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.tiny_run import PAIRS, RECIPE, settings, write_pairs
from tf_transformer import load_recipe
from tf_transformer.corpus import open_source, recipe_batches
from tf_transformer.data.batching import make_batches
from tf_transformer.data.filters import count_pairs
from tf_transformer.data.lookup import find_pairs
from tf_transformer.errors import UserError
from tf_transformer.tokenizers import TokenizerPair, train_tokenizers


@pytest.fixture(scope="module")
def tokenizers():
    return train_tokenizers(PAIRS, kind="bpe", vocab_size=440)


def batches(tokenizers, pairs=PAIRS, max_length=100, bpe_dropout=0.3, **options):
    return make_batches(
        pairs, tokenizers, batch_tokens=400, max_length=max_length, seed=1, bpe_dropout=bpe_dropout, **options
    )


def as_lists(dataset):
    """Source ids, target ids and labels of each batch."""
    return [[ids.tolist() for ids in (*inputs, labels)] for inputs, labels in dataset.as_numpy_iterator()]


def rows(dataset) -> list[tuple]:
    """The ids of each pair, END included, padding left out."""
    return [
        tuple(tuple(int(i) for i in side if i) for side in pair)
        for (source, _), labels in dataset.as_numpy_iterator()
        for pair in zip(source, labels, strict=True)
    ]


def texts(tokenizers, found) -> collections.Counter:
    sides = zip(*found, strict=True)
    told = [
        [text.decode() for text in tokenizer.detokenize(_ragged(ids)).numpy()]
        for tokenizer, ids in zip((tokenizers.source, tokenizers.target), sides, strict=True)
    ]
    return collections.Counter(zip(*told, strict=True))


def _ragged(ids):
    longest = max(map(len, ids))
    return np.array([[*row, *[0] * (longest - len(row))] for row in ids], "int32")


@pytest.mark.parametrize("shuffle_buffer", [None, 50])
def test_every_epoch_has_all_sentences_in_other_pieces(tokenizers, shuffle_buffer):
    usual = rows(batches(tokenizers, bpe_dropout=0.0))
    two = batches(tokenizers, shuffle_buffer=shuffle_buffer)
    epochs = [rows(two), rows(two)]  # each iterator over a finite dataset is the next epoch
    for epoch in epochs:
        assert texts(tokenizers, epoch) == texts(tokenizers, usual)
        assert sum(len(side) for pair in epoch for side in pair) > sum(len(side) for pair in usual for side in pair)
    assert len(set(epochs[0]) & set(epochs[1])) < len(epochs[0]) / 2
    assert len(set(epochs[0]) & set(usual)) < len(usual) / 2


def test_the_seed_decides_the_pieces(tokenizers):
    options = {"shuffle_buffer": 50, "repeat": True}
    whole = as_lists(batches(tokenizers, **options).take(30))
    assert as_lists(batches(tokenizers, **options).take(30)) == whole
    # From a place among them, as a training that goes on begins.
    assert as_lists(batches(tokenizers, **options).skip(20).take(10)) == whole[20:]


def test_two_streams_at_once_do_not_disturb_each_other(tokenizers):
    alone = as_lists(batches(tokenizers))
    one, other = (batches(tokenizers).as_numpy_iterator() for _ in range(2))
    together = [
        [[ids.tolist() for ids in (*inputs, labels)] for inputs, labels in pair]
        for pair in zip(one, other, strict=True)
    ]
    assert [first for first, _ in together] == [second for _, second in together] == alone


def test_what_is_kept_is_judged_by_the_usual_pieces(tokenizers):
    """And what merges left out make too long is cut as usual, so that no epoch lacks a pair."""
    usual = rows(batches(tokenizers, bpe_dropout=0.0))
    limit = max(len(side) for pair in usual for side in pair) + 2
    pairs = [*PAIRS, *((f"{source} {source}", f"{target} {target}") for source, target in PAIRS)]
    epoch = rows(batches(tokenizers, pairs, max_length=limit, bpe_dropout=0.1))
    assert len(epoch) == count_pairs(pairs, tokenizers, limit).kept == len(PAIRS)
    assert texts(tokenizers, epoch) == texts(tokenizers, usual)
    assert max(len(side) for pair in epoch for side in pair) <= limit
    # Those that find room are cut by chance, and only the others as usual.
    assert 0 < len(set(epoch) & set(usual)) < len(set(usual))


def test_the_pairs_of_a_batch_are_found(tokenizers):
    batch = next(iter(batches(tokenizers)))
    found = {pair for _, pair in find_pairs(PAIRS, tokenizers, batch)}
    assert len(found) == len(batch[1])


def test_validation_is_cut_as_usual(tokenizers, tmp_path):
    write_pairs(tmp_path)
    made = []
    for rate in 0.0, 0.3:
        recipe = load_recipe(RECIPE, settings(Path(tmp_path), tokenizer__bpe_dropout=rate))
        pairs = open_source(recipe.data, "train"), open_source(recipe.data, "validation")
        train, validation = recipe_batches(recipe, tokenizers, *pairs, 1, Console(quiet=True))
        made.append((as_lists(train.take(5)), as_lists(validation)))
    assert made[0][1] == made[1][1]
    assert made[0][0] != made[1][0]


@pytest.mark.parametrize("rate", [1.0, -0.1, float("nan")])
def test_a_rate_that_makes_no_sense_is_refused(tokenizers, rate):
    with pytest.raises(
        UserError, match=f"bpe_dropout is {rate}: give a share of the merges, 0 or more and less than 1"
    ):
        batches(tokenizers, bpe_dropout=rate)


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_a_tokenizer_that_merges_nothing_is_refused(tokenizers, kind):
    pair = TokenizerPair(tokenizers.source, tokenizers.target, kind)
    with pytest.raises(UserError, match=f"bpe_dropout is 0.3, which needs a tokenizer of kind bpe; this one is {kind}"):
        batches(pair)
