"""Prepared pairs with alignments, and the batches that carry them."""

import io
import random

import numpy as np
import pytest
from rich.console import Console

from tests.data.prepared.small import CHARACTERS, prepare
from tf_transformer.data.aligned import AlignedPairs
from tf_transformer.data.lookup import find_pairs
from tf_transformer.data.mixture import Mixture, WeightedSource
from tf_transformer.data.prepared import preparing
from tf_transformer.data.prepared.batches import PreparedBatches
from tf_transformer.training.alignment import labels_and_alignment


def aligned_pairs(tmp_path, number, first=0):
    """Pairs of words of letters, of which every third has no alignment, and each pair's links."""
    rng = random.Random(number)
    pairs, links = [], []
    for row in range(first, first + number):
        sides = [["".join(rng.choices("abc", k=rng.randint(1, 3))) for _ in range(rng.randint(1, 4))] for _ in range(2)]
        sides[0].append(str(row))
        pairs.append(tuple(" ".join(side) for side in sides))
        every = [(source, target) for source in range(len(sides[0])) for target in range(len(sides[1]))]
        links.append([] if row % 3 == 0 else rng.sample(every, rng.randint(1, len(every))))
    path = tmp_path / f"align{first}"
    path.write_text("".join(" ".join(f"{s}-{t}" for s, t in each) + "\n" for each in links))
    return pairs, links, path


def by_hand(pair, links, columns):
    """Which characters are of words that are linked: a loop over all."""
    source, target = pair
    matrix = np.zeros(columns, "uint8")
    for at, letter in enumerate(target):
        for place, other in enumerate(source):
            if letter != " " != other:
                matrix[at, place] = (source[:place].count(" "), target[:at].count(" ")) in links
    return matrix


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(preparing, "PART", 7)


def batches_of(prepared, **options):
    return PreparedBatches(prepared, batch_tokens=120, max_length=20, **options)


@pytest.mark.parametrize("options", [{"row_multiple": 4}, {"fixed_shapes": True}], ids=str)
def test_batches_carry_the_links_between_tokens(tmp_path, options):
    """Of two sources, one without alignments; pairs that are too long are dropped, and rows of padding filled up."""
    aligned, links, path = aligned_pairs(tmp_path, 40)
    plain = [(f"no {n}", "x y") for n in range(15)]
    sources = [WeightedSource("plain", plain), WeightedSource("aligned", AlignedPairs(aligned, path))]
    prepared = prepare(Mixture(sources), tmp_path / "train", max_length=14)
    links_of = dict(zip(aligned, links, strict=True))
    kept = [pair for pair in aligned if max(map(len, pair)) < 14]
    assert 5 < len(kept) < 40
    assert [each.aligned for each in prepared.manifest.sources] == [0, sum(bool(links_of[pair]) for pair in kept)]
    seen = []
    for inputs, y in batches_of(prepared, **options).once().as_numpy_iterator():
        labels, alignment = labels_and_alignment(y)
        assert alignment.shape == (*labels.shape, inputs[0].shape[1]) and alignment.dtype == np.uint8
        for source_ids, target_ids, matrix in zip(inputs[0], labels, alignment, strict=True):
            pair = tuple("".join(chr(token - 4) for token in ids if token > 3) for ids in (source_ids, target_ids))
            np.testing.assert_array_equal(matrix, by_hand(pair, links_of.get(pair, ()), matrix.shape))
            seen += [pair] if any(pair) else []
        found = {pair for _, pair in find_pairs([*plain, *aligned], CHARACTERS, (inputs, y))}
        assert found <= {*plain, *kept} and found
    assert sorted(seen) == sorted([*plain, *kept])


def test_a_change_of_the_alignments_is_noticed_and_broken_off_parts_are_not_taken(tmp_path):
    pairs, _, path = aligned_pairs(tmp_path, 20)
    told = io.StringIO()

    def links():
        prepared = prepare(AlignedPairs(pairs, path), tmp_path / "train", console=Console(file=told, width=300))
        return prepared.links.matrices(np.arange(20), 30, 30).sum(axis=(1, 2))

    before = links()
    np.testing.assert_array_equal(before, links())
    assert told.getvalue() == ""
    path.write_text(path.read_text().replace("\n", " 0-0\n", 1))
    after = links()
    assert after[0] > before[0] == 0 and (after[1:] == before[1:]).all()
    assert "preparing it again" in told.getvalue()


def test_where_nothing_is_aligned_nothing_is_carried(tmp_path):
    pairs = [("a b", "c"), ("d", "e f")]
    path = tmp_path / "align"
    path.write_text("\n\n")
    prepared = prepare(AlignedPairs(pairs, path), tmp_path / "train")
    assert prepared.links is None
    (_, labels), *_ = batches_of(prepared).once().as_numpy_iterator()
    assert labels.shape == (2, 4)
    plain = prepare(pairs, tmp_path / "plain")
    for one, other in ((prepared.source, plain.source), (prepared.target, plain.target)):
        np.testing.assert_array_equal(one.ids, other.ids)
