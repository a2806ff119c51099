"""Batches: nothing lost, nothing twice, nothing too long, little padding, and the seed decides the order."""

import collections
import itertools
import random
from collections.abc import Iterable

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.data.characters import CHARACTERS
from tf_transformer.data.batching import bucket_bounds, make_batches, padding_share, shuffled, with_known_length
from tf_transformer.data.counting import PairCounts, count_pairs
from tf_transformer.data.sources import TextFiles
from tf_transformer.errors import UserError
from tf_transformer.tokenizers import train_tokenizers
from tf_transformer.tokenizers.base import END_ID, START_ID


def text_of(row) -> str:
    """A row of ids back to text: what comes before END, and past START."""
    return "".join(chr(token - 4) for token in row if token > END_ID)


def seen(batches: Iterable) -> list[tuple[str, str]]:
    """The pairs in the batches, in order; on the way, checks each row against what it must be."""
    pairs = []
    if isinstance(batches, tf.data.Dataset):
        batches = batches.as_numpy_iterator()
    for (source_ids, target_ids), labels in batches:
        for source_row, target_row, label_row in zip(source_ids, target_ids, labels, strict=True):
            source, target = text_of(source_row), text_of(label_row)
            tokens = [ord(character) + 4 for character in target]
            room = len(label_row) - len(target) - 1
            assert list(source_row) == encoded(source, len(source_row))
            assert list(label_row) == encoded(target, len(label_row))
            assert list(target_row) == [START_ID, *tokens] + [0] * room
            pairs.append((source, target))
    return pairs


def encoded(text: str, length: int) -> list[int]:
    return [ord(character) + 4 for character in text] + [END_ID] + [0] * (length - len(text) - 1)


def verdict(pair: tuple[str, str], max_length: int, max_ratio: float | None) -> str:
    """The filter's rules once more, in plain Python."""
    source, target = (len(text) + 1 for text in pair)
    if source == 1 or target == 1:
        return "empty"
    if source > max_length or target > max_length:
        return "too_long"
    if max_ratio is not None and (source / target > max_ratio or target / source > max_ratio):
        return "bad_ratio"
    return "kept"


def judged(
    pairs: list[tuple[str, str]], max_length: int, max_ratio: float | None
) -> tuple[list[tuple[str, str]], PairCounts]:
    """The pairs that are kept, and the counts of all."""
    verdicts = [verdict(pair, max_length, max_ratio) for pair in pairs]
    kept = [pair for pair, word in zip(pairs, verdicts, strict=True) if word == "kept"]
    expected = collections.Counter(verdicts)
    return kept, PairCounts(
        kept=expected["kept"],
        empty=expected["empty"],
        too_long=expected["too_long"],
        bad_ratio=expected["bad_ratio"],
        source_tokens=sum(len(source) + 1 for source, _ in kept),
        target_tokens=sum(len(target) + 1 for _, target in kept),
        copied=sum(source == target for source, target in kept),
        repeated=len(kept) - len(set(kept)),
    )


def numbered(count: int) -> list[tuple[str, str]]:
    """Distinct pairs of 1 to 20 characters a side."""
    rng = random.Random(0)
    return [(f"{n}" + "s" * rng.randrange(17), f"{n}" + "t" * rng.randrange(17)) for n in range(count)]


# -- what is in a batch ----


def test_a_batch_by_hand():
    batches = make_batches([("ab", "xyz"), ("c", "d")], CHARACTERS, batch_tokens=8, max_length=4)
    ids = tf.TensorSpec((None, None), tf.int32)
    assert batches.element_spec == ((ids, ids), ids)  # known beforehand
    ((source_ids, target_ids), labels), *more = batches.as_numpy_iterator()
    a, b, c, d, x, y, z = (ord(character) + 4 for character in "abcdxyz")
    assert source_ids.tolist() == [[a, b, END_ID], [c, END_ID, 0]]
    assert target_ids.tolist() == [[START_ID, x, y, z], [START_ID, d, 0, 0]]
    assert labels.tolist() == [[x, y, z, END_ID], [d, END_ID, 0, 0]]
    assert more == []


texts = st.text(st.sampled_from("ab é👍\x00\u2028"), max_size=24)


@settings(max_examples=5, deadline=None)  # each makes a dataset, which takes a second
@given(
    pairs=st.lists(st.tuples(texts, texts), max_size=60),
    max_length=st.integers(2, 26),
    max_ratio=st.sampled_from([None, 1.0, 1.5, 3.0]),
    spare=st.integers(0, 60),
    shuffle_buffer=st.sampled_from([None, 1, 7, 100]),
)
@example(pairs=[("a", "a"), ("b", "a"), ("b", "a")], max_length=2, max_ratio=None, spare=0, shuffle_buffer=None)
def test_each_kept_pair_comes_exactly_once_and_no_batch_is_too_big(pairs, max_length, max_ratio, spare, shuffle_buffer):
    limits = {"max_length": max_length, "max_ratio": max_ratio}
    batch_tokens = max_length + spare
    batches = make_batches(pairs, CHARACTERS, batch_tokens=batch_tokens, shuffle_buffer=shuffle_buffer, **limits)
    batches = list(batches.as_numpy_iterator())
    for (source_ids, target_ids), labels in batches:
        assert 1 <= source_ids.size <= batch_tokens
        assert 1 <= labels.size <= batch_tokens
        assert target_ids.shape == labels.shape
    kept, counts = judged(pairs, **limits)
    assert collections.Counter(seen(batches)) == collections.Counter(kept)
    assert count_pairs(pairs, CHARACTERS, **limits) == counts


def test_more_pairs_than_a_chunk():
    pairs = numbered(2345)
    batches = make_batches(pairs, CHARACTERS, batch_tokens=300, max_length=30)
    assert sorted(seen(batches)) == sorted(pairs)
    assert count_pairs(pairs, CHARACTERS, 30).kept == 2345


def test_the_bounds_of_the_buckets():
    """They decide which pairs are a batch: with others a run that was interrupted would go on with other batches."""
    of_twos, of_tenths = range(4, 31, 2), [33, 36, 39, 42, 46, 50, 55, 60, 66, 72, 79, 86, 94, 103, 113, 124, 128]
    assert bucket_bounds(128) == [*of_twos, *of_tenths]
    assert (bucket_bounds(3), bucket_bounds(4), bucket_bounds(7)) == ([3], [4], [4, 6, 7])


def test_full_batches_are_full():
    """Sixty sentences of 9 tokens, with room for 100 on a side: their bucket goes up to 10, so 10 fit."""
    batches = make_batches([("x" * 8, "y" * 8)] * 60, CHARACTERS, batch_tokens=100, max_length=50)
    assert [len(labels) for _, labels in batches] == [10] * 6


@pytest.mark.parametrize("multiple", [3, 8])
def test_rows_are_a_multiple_and_only_padding_is_added(multiple):
    pairs = numbered(301)
    batches = make_batches(pairs, CHARACTERS, batch_tokens=240, max_length=30, row_multiple=multiple)
    found = []
    for (source_ids, target_ids), labels in batches.as_numpy_iterator():
        assert len(source_ids) == len(target_ids) == len(labels)
        assert len(labels) % multiple == 0
        assert max(source_ids.size, labels.size) <= 240
        real = labels.any(axis=1)
        assert not source_ids[~real].any() and not target_ids[~real].any()
        assert np.count_nonzero(~real) < multiple
        found += zip(map(text_of, source_ids[real]), map(text_of, labels[real]), strict=True)
    assert sorted(found) == sorted(pairs)


@pytest.mark.parametrize(("multiple", "repeat"), [(3, False), (1, True)])
def test_fixed_shapes_are_one_a_bucket(multiple, repeat):
    pairs = numbered(301)
    options = {"batch_tokens": 240, "max_length": 19, "row_multiple": multiple, "repeat": repeat}
    batches = make_batches(pairs, CHARACTERS, fixed_shapes=True, **options)
    found, shapes = [], set()
    for (source_ids, target_ids), labels in batches.take(150).as_numpy_iterator():
        assert source_ids.shape == target_ids.shape == labels.shape
        shapes.add(labels.shape)
        real = labels.any(axis=1)
        assert not source_ids[~real].any() and not target_ids[~real].any()
        found += zip(map(text_of, source_ids[real]), map(text_of, labels[real]), strict=True)
    # Up to 4, 6, 8 and so on; the shortest pair has 2 tokens a side, and the longest, of 20, is dropped.
    expected = {bound: 240 // bound // multiple * multiple for bound in (4, 6, 8, 10, 12, 14, 16, 18, 19)}
    if repeat:  # a batch of the shortest takes more than 150 batches to come together
        del expected[4]
    assert shapes == {(rows, bound) for bound, rows in expected.items()}
    if not repeat:
        assert sorted(found) == sorted(pair for pair in pairs if max(map(len, pair)) < 19)


# -- order ----


def order(seed, epochs=1, buffer=500):
    batches = make_batches(numbered(400), CHARACTERS, batch_tokens=200, max_length=30, shuffle_buffer=buffer, seed=seed)
    return [seen(batches) for _ in range(epochs)]


def test_same_seed_same_epochs_another_seed_others():
    first, second = order(seed=1, epochs=2)
    assert first != second
    assert sorted(first) == sorted(second)
    tf.random.set_seed(5)  # the order is the seed's alone
    assert order(seed=1, epochs=2) == [first, second]
    assert order(seed=2) != [first]
    assert order(seed=None) != order(seed=None)


def test_an_epoch_broken_off_leaves_the_next_as_it_is():
    def second_epoch(batches_of_the_first):
        pairs = numbered(1600)
        batches = make_batches(pairs, CHARACTERS, batch_tokens=200, max_length=30, shuffle_buffer=100, seed=1)
        collections.deque(batches.take(batches_of_the_first), maxlen=0)
        return seen(batches)

    assert second_epoch(1) == second_epoch(50)


def test_endless_epochs_begin_again_in_each_iterator_so_that_a_place_is_found_again():
    options = {"batch_tokens": 200, "max_length": 30, "shuffle_buffer": 100, "seed": 1, "repeat": True}
    batches = make_batches(numbered(400), CHARACTERS, **options)
    first = [labels.numpy().tolist() for _, labels in batches.take(150)]  # some three epochs
    assert [labels.numpy().tolist() for _, labels in batches.skip(90).take(60)] == first[90:]


def test_unshuffled_order_is_the_sources_within_a_bucket():
    pairs = [(chr(97 + n), chr(65 + n)) for n in range(20)]
    assert seen(make_batches(pairs, CHARACTERS, batch_tokens=8, max_length=4)) == pairs


@given(st.integers(0, 50), st.integers(1, 60), st.randoms(use_true_random=False))
def test_shuffling_loses_nothing_and_looks_no_further_than_its_buffer(count, buffer_size, rng):
    out = list(shuffled(range(count), buffer_size, rng))
    assert sorted(out) == list(range(count))
    assert all(number < place + buffer_size for place, number in enumerate(out))


def test_every_order_is_equally_likely_when_the_buffer_holds_all():
    counts = collections.Counter(tuple(shuffled("abc", 3, random.Random(seed))) for seed in range(3000))
    assert len(counts) == 6
    assert all(abs(count - 500) < 100 for count in counts.values())  # 5 standard deviations


# -- epochs without end ----


def test_repeated_epochs_run_into_each_other_without_small_batches():
    pairs = [(chr(97 + n), chr(65 + n)) for n in range(10)]
    batches = make_batches(
        pairs, CHARACTERS, batch_tokens=16, max_length=4, shuffle_buffer=10, seed=1, repeat=True
    ).take(10)
    assert [len(labels) for _, labels in batches] == [4] * 10
    stream = seen(batches)
    epochs = [stream[start : start + 10] for start in range(0, 40, 10)]
    assert all(sorted(epoch) == pairs for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_a_rare_length_waits_until_its_bucket_is_full():
    """As the documentation has it: late, several times in one batch, and less than a batch waits."""
    common, rare = [("ab", f"{n:02}") for n in range(40)], [("a" * 20, letter * 20) for letter in "xyz"]
    batches = make_batches(common + rare, CHARACTERS, batch_tokens=210, max_length=21, repeat=True)
    counts = collections.Counter()
    for batch in batches.take(60).as_numpy_iterator():
        new = collections.Counter(seen([batch]))
        counts += new
        if set(new) & set(rare):
            assert sum(new.values()) == 10 and max(new.values()) == 4  # of ten rows one pair has four
        passes = max(counts[pair] for pair in common)
        assert all(passes - counts[pair] <= 1 for pair in common)
        # All that the passes before this one gave is out, but for less than a batch of ten.
        assert sum(passes - 1 - counts[pair] for pair in rare) < 10
    assert counts[rare[0]] > 4


def test_nothing_kept_is_told_and_does_not_hang():
    batches = make_batches([("", "x")] * 5, CHARACTERS, batch_tokens=10, max_length=10, repeat=True)
    with pytest.raises(tf.errors.OpError, match="UserError: no pair is left: .*; raise max_length or max_ratio"):
        list(batches)


def test_only_what_ends_has_a_length():
    options = {"batch_tokens": 16, "max_length": 4}
    batches = make_batches(numbered(40), CHARACTERS, **options)
    assert len(with_known_length(batches)) == len(list(batches))
    for endless in (make_batches(numbered(40), CHARACTERS, **options, repeat=True), batches.repeat()):
        with pytest.raises(UserError, match="^the batches are endless and can't be counted; make them without repeat"):
            with_known_length(endless)
    assert len(with_known_length(batches.repeat().take(3))) == 3


class Pulled:
    """Long pairs, and how many of them have been asked for."""

    def __init__(self, count: int):
        self.count = count
        self.pulled = 0

    def __iter__(self):
        for _ in range(self.count):
            self.pulled += 1
            yield "x" * 200, "y" * 200


@pytest.mark.parametrize("repeat", [False, True])
def test_a_long_corpus_is_not_read_ahead(repeat):
    pairs = Pulled(200_000)
    batches = make_batches(
        pairs, CHARACTERS, batch_tokens=1000, max_length=256, shuffle_buffer=2000, seed=1, repeat=repeat
    )
    assert len(list(batches.take(3))) == 3
    assert pairs.pulled <= 30_000


# -- mistakes ----


def test_an_error_in_mid_stream_arrives_with_its_words():
    def broken():
        yield from [("a", "b")] * 1500
        raise UserError("corpus.en, line 1501: invalid UTF-8 – convert it")

    class Broken:
        def __iter__(self):
            return broken()

    batches = make_batches(Broken(), CHARACTERS, batch_tokens=10, max_length=10)
    with pytest.raises(tf.errors.OpError, match="UserError: corpus.en, line 1501: invalid UTF-8 – convert it\n"):
        list(batches)
    with pytest.raises(UserError, match="line 1501"):
        count_pairs(Broken(), CHARACTERS, max_length=10)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"batch_tokens": 9}, "batch_tokens is 9, less than 10"),
        ({"batch_tokens": 39, "row_multiple": 4}, "batch_tokens is 39, less than 40"),
        ({"max_length": 1}, "max_length is 1"),
        ({"max_ratio": 0.5}, "max_ratio is 0.5"),
        ({"max_ratio": float("nan")}, "max_ratio is nan"),
        ({"shuffle_buffer": 0}, "shuffle_buffer is 0"),
        ({"pairs": iter([("a", "b")])}, "which can be read only once"),
    ],
)
def test_limits_that_make_no_sense(options, words):
    arguments = {"pairs": [("a", "b")], "tokenizers": CHARACTERS, "batch_tokens": 100, "max_length": 10}
    with pytest.raises(UserError, match=words) as caught:
        make_batches(**arguments | options)
    assert "\n" not in str(caught.value)


# -- padding ----


def test_padding_share_by_hand():
    one = tf.constant([[5, 6, 3], [5, 3, 0]]), tf.constant([[2, 7], [2, 0]])
    labels = tf.constant([[7, 3], [3, 0]])
    batches = tf.data.Dataset.from_tensors((one, labels))
    assert padding_share(batches) == 2 / 10
    assert padding_share(batches.repeat(), first=3) == 2 / 10
    assert padding_share(batches.take(0)) == 0


@pytest.mark.slow
def test_multi30k_is_hardly_padded_and_whole(shared_data):
    source = TextFiles(shared_data / "multi30k" / "train.en", shared_data / "multi30k" / "train.de")
    tokenizers = train_tokenizers(source, kind="bpe", vocab_size=6000, joint=True)
    counts = count_pairs(source, tokenizers, max_length=128)
    assert counts.kept == 29_000
    batches = make_batches(source, tokenizers, batch_tokens=4096, max_length=128, shuffle_buffer=29_000, seed=1).cache()
    assert padding_share(batches) < 0.12

    found, tokens, sizes = collections.Counter(), [0, 0], []
    for (source_ids, _), labels in batches.as_numpy_iterator():
        assert max(source_ids.size, labels.size) <= 4096
        sizes.append(len(labels))
        tokens[0] += np.count_nonzero(source_ids)
        tokens[1] += np.count_nonzero(labels)
        found.update(zip(map(unpadded, source_ids), map(unpadded, labels), strict=True))
    assert tokens == [counts.source_tokens, counts.target_tokens]
    # As few as could hold the corpus, were there no padding: its longer side over 4,096, which is 117.
    assert len(sizes) <= 1.25 * max(tokens) / 4096

    english, german = zip(*source, strict=True)
    sources, targets = tokenizers.source.tokenize(english), tokenizers.target.tokenize(german)
    assert found == collections.Counter(
        (tuple(source_row), tuple(target_row))
        for source_row, target_row in zip(sources.to_list(), targets.to_list(), strict=True)
    )


def unpadded(row) -> tuple[int, ...]:
    return tuple(row[: np.argmax(row == END_ID)].tolist())


def test_a_tokenizer_outlives_its_last_name(shared_data):
    source = TextFiles(shared_data / "multi30k" / "val.en", shared_data / "multi30k" / "val.de")
    pairs = list(itertools.islice(source, 200))
    batches = make_batches(pairs, train_tokenizers(pairs, vocab_size=600), batch_tokens=1000, max_length=200)
    assert sum(len(labels) for _, labels in batches) == 200
