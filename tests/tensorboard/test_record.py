"""A sentence's attention as it is stored."""

import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.inspection.kinds import KINDS
from tf_transformer.tensorboard.record import MAX_TOKENS, DamagedRecord, decode_header, decode_layer, encode


def weights(kinds, sizes, source, target, seed=0):
    lengths = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    random = np.random.default_rng(seed)
    return {kind: random.random((*sizes[kind], *lengths[kind]), "float32") for kind in kinds}


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.text(), min_size=1, max_size=6),
    st.lists(st.text(), min_size=1, max_size=6),
    st.sets(st.sampled_from(KINDS), min_size=1),
    st.integers(1, 3),
    st.integers(1, 3),
    st.one_of(st.none(), st.text()),
)
def test_what_is_written_comes_back(source, target, kinds, layers, heads, reference):
    sizes = {kind: (layers + place, heads) for place, kind in enumerate(KINDS)}
    given_weights = weights(kinds, sizes, len(source), len(target))
    record = encode(source, target, given_weights, reference, [len(source) - 1] * len(target))
    header = decode_header(record[0])
    assert (header.source, header.target, header.reference, header.notice) == (source, target, reference, None)
    assert header.alignment == [len(source) - 1] * len(target)
    assert {kind: tuple(size) for kind, size in header.sizes.items()} == {kind: sizes[kind] for kind in kinds}
    for kind in kinds:
        for layer in range(sizes[kind][0]):
            expected = given_weights[kind][layer].astype(np.float16)
            np.testing.assert_array_equal(decode_layer(header, record, kind, layer), expected)


def test_a_lone_half_of_a_character_is_no_obstacle():
    header = decode_header(encode(["\ud800", "a"], ["b"], {"cross": np.ones((1, 1, 1, 2))})[0])
    assert header.source == ["?", "a"]


def test_long_sides_are_cut_with_notice():
    source, target = [str(n) for n in range(MAX_TOKENS + 44)], ["a", "b"]
    given_weights = weights(KINDS, dict.fromkeys(KINDS, (1, 1)), len(source), 2)
    record = encode(source, target, given_weights, alignment=[3, MAX_TOKENS + 2])
    header = decode_header(record[0])
    assert header.notice == f"Shown: the first {MAX_TOKENS} of {MAX_TOKENS + 44} source tokens."
    assert header.source == source[:MAX_TOKENS]
    assert header.alignment == [3, -1]
    for kind, shape in {"encoder": (MAX_TOKENS, MAX_TOKENS), "decoder": (2, 2), "cross": (2, MAX_TOKENS)}.items():
        expected = given_weights[kind][0][:, : shape[0], : shape[1]].astype(np.float16)
        np.testing.assert_array_equal(decode_layer(header, record, kind, 0), expected)


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        ({}, r"attention has no entries; give encoder, decoder, cross"),
        ({"self": np.ones((1, 1, 1, 2))}, r"attention has 'self'; give encoder"),
        ({"cross": np.ones((1, 1, 2, 1))}, r"shape \(1, 1, 2, 1\); expected \(layers, heads, 1, 2\)"),
        ({"cross": np.ones((1, 1, 2))}, r"expected \(layers, heads, 1, 2\)"),
        ({"cross": np.ones((0, 1, 1, 2))}, r"shape \(0, 1, 1, 2\)"),
        ({"cross": np.full((1, 1, 1, 2), np.nan)}, "outside 0 to 1"),
        ({"cross": np.full((1, 1, 1, 2), -0.1)}, "outside 0 to 1"),
        ({"cross": np.full((1, 1, 1, 2), 3.0)}, "outside 0 to 1"),
    ],
)
def test_what_is_no_attention_is_refused(attention, message):
    with pytest.raises(ValueError, match=message):
        encode(["a", "b"], ["c"], attention)


def test_an_alignment_of_another_length_is_refused():
    with pytest.raises(ValueError, match="alignment has 2 entries for 1 target tokens"):
        encode(["a"], ["c"], {"cross": np.ones((1, 1, 1, 1))}, alignment=[0, 0])


RECORD = encode(["a", "b"], ["c"], {"cross": np.full((2, 1, 1, 2), 0.5)})


@pytest.mark.parametrize(
    "part",
    [
        b"",
        RECORD[0][:-3],
        b"no zlib",
        zlib.compress(b"[1]"),
        zlib.compress(b"\xff"),
        zlib.compress(b"[" * 100_000),
        zlib.compress(json.dumps({"format": "another"}).encode()),
        zlib.compress(json.dumps({"format": "tf_transformer.attention/1"}).encode()),
    ],
)
def test_a_damaged_header_is_told(part):
    with pytest.raises(DamagedRecord):
        decode_header(part)


@pytest.mark.parametrize("changes", [{"sizes": {"cross": [1]}}, {"sizes": {"cross": 2}}, {"source": 5}], ids=str)
def test_a_header_of_other_values_is_told(changes):
    header = decode_header(RECORD[0])
    with pytest.raises(DamagedRecord, match="weights of cross, layer 0"):
        decode_layer(replace(header, **changes), RECORD, "cross", 0)


def test_damaged_weights_are_told_and_cost_only_their_layer():
    header = decode_header(RECORD[0])
    flipped = bytearray(RECORD[2])
    flipped[len(flipped) // 2] ^= 1
    record = [*RECORD[:2], bytes(flipped)]
    assert decode_layer(header, record, "cross", 0).tolist() == [[[0.5, 0.5]]]
    for damaged in (record, RECORD[:2]):
        with pytest.raises(DamagedRecord, match="weights of cross, layer 1"):
            decode_layer(header, damaged, "cross", 1)
    for kind, layer in (("cross", 2), ("cross", -1), ("encoder", 0)):
        with pytest.raises(KeyError):
            decode_layer(header, RECORD, kind, layer)
