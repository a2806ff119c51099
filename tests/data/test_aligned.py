"""Pairs with alignments as word aligners write them."""

import gzip

import pytest

from tf_transformer.data.aligned import AlignedPairs, rows_of
from tf_transformer.data.changed import TaggedPairs
from tf_transformer.data.fingerprint import fingerprint
from tf_transformer.data.mixture import Mixture, WeightedSource
from tf_transformer.data.pairs import state_of
from tf_transformer.data.sources import TextFiles
from tf_transformer.errors import UserError

PAIRS = [("a green  dog", "ein grüner Hund"), ("a cat .", "eine Katze."), ("", "nichts")]


def written(tmp_path, text, name="train.align"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_each_pair_has_its_line_and_a_blank_one_says_nothing(tmp_path):
    path = written(tmp_path, "0-0 1-1  2-2\r\n 1-1 2-1 \n\n")
    pairs = AlignedPairs(PAIRS, path)
    assert list(pairs) == PAIRS
    for _ in range(2):
        assert list(pairs.rows()) == [
            (*pair, line) for pair, line in zip(PAIRS, ["0-0 1-1  2-2", "1-1 2-1", ""], strict=True)
        ]
    assert list(rows_of(pairs)) == list(pairs.rows()) and list(rows_of(PAIRS)) == PAIRS
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(AlignedPairs(PAIRS, packed).rows()) == list(pairs.rows())


def test_it_may_lie_in_the_home_folder_as_the_texts_may(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in "one.en", "one.de":
        written(tmp_path, "dog\n", name)
    written(tmp_path, "0-0\n", "one.align")
    pairs = TextFiles("~/one.en", "~/one.de")
    assert list(AlignedPairs(pairs, "~/one.align").rows()) == [("dog", "dog", "0-0")]


def test_words_before_the_source_are_counted_for_it(tmp_path):
    """A tag is none of the aligner's words."""
    path = written(tmp_path, "0-0 2-2\n2-1\n\n")
    rows = AlignedPairs(TaggedPairs(PAIRS, "<bt>"), path, words_before=1).rows()
    assert [row[2] for row in rows] == ["1-0 3-2", "3-1", ""]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0-0 1", 'train.align, line 2: not an alignment such as "0-0 1-2"'),
        ("0-0,1-1", "train.align, line 2: not an alignment"),
        ("0-0:0.5", "train.align, line 2: not an alignment"),
        ("-1-0", "train.align, line 2: not an alignment"),
        ("0-" + "1" * 5000, "train.align, line 2: not an alignment"),
        ("0-0 3-1", "train.align, line 2: 3-1 names word 3 of the source, which has 3: words are separated by spaces"),
        ("0-2", "train.align, line 2: 0-2 names word 2 of the target, which has 2"),
        ("\udcff", "train.align, line 2: not valid UTF-8"),
    ],
)
def test_a_bad_line_is_told_with_its_place(tmp_path, line, message):
    path = tmp_path / "train.align"
    path.write_bytes(f"0-0\n{line}\n\n".encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=message):
        list(AlignedPairs(PAIRS, path).rows())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n0-0\n", r"train\.align has 2 lines, but there are more pairs: line N must be the alignment of pair N"),
        ("0-0\n0-0\n\n\n\n", r"train\.align has 5 lines, but there are 3 pairs"),
    ],
    ids=["fewer", "more"],
)
def test_another_number_of_lines_is_told(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        list(AlignedPairs(PAIRS, written(tmp_path, text)).rows())
    with pytest.raises(UserError, match="does not exist"):
        AlignedPairs(PAIRS, tmp_path / "none")


def test_a_change_of_the_alignments_changes_what_tells_a_corpus(tmp_path):
    for name, texts in zip(("en", "de"), zip(*PAIRS[:2], strict=True), strict=True):
        written(tmp_path, "".join(f"{text}\n" for text in texts), name)
    files = TextFiles(tmp_path / "en", tmp_path / "de")

    def both(text, name):
        path = written(tmp_path, text, name)
        return Mixture([WeightedSource("plain", files), WeightedSource("aligned", AlignedPairs(files, path))])

    one, same, other = both("0-0\n\n", "one"), both("0-0\n\n", "same"), both("0-1\n\n", "other")
    assert fingerprint(one) == fingerprint(same) != fingerprint(other)
    assert state_of(one) != state_of(other)
    assert state_of(AlignedPairs(PAIRS, tmp_path / "en")) is None  # of a list nothing is known without reading
    # Where nothing is aligned it is what earlier versions had: see the example of `fingerprint`.
    assert fingerprint([("a dog", "ein Hund"), ("a cat", "eine Katze")]) == "2 pairs, CRC-32 15d08c8c"


@pytest.mark.parametrize("side", ["en", "de", "align"])
@pytest.mark.parametrize("damage", ["cut off", "not UTF-8"])
def test_damage_is_told_without_advice_to_leave_lines_out(tmp_path, side, damage):
    """Which alignments can't follow: line N is for pair N."""
    for name, line in ("en", b"a dog\n"), ("de", b"ein Hund\n"), ("align", b"0-0\n"):
        if name == side and damage == "not UTF-8":
            line = b"\xff" + line
        packed = gzip.compress(line)
        (tmp_path / f"{name}.gz").write_bytes(packed[:-9] if name == side and damage == "cut off" else packed)
    texts = TextFiles(tmp_path / "en.gz", tmp_path / "de.gz")
    with pytest.raises(UserError, match=rf"{side}\.gz(: incomplete or damaged gzip|, line 1: )") as error:
        list(AlignedPairs(texts, tmp_path / "align.gz").rows())
    assert "skip" not in str(error.value)
