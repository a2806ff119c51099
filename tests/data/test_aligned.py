"""Alignments as word aligners write them, and from words to tokens and back."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_transformer.data.aligned import AlignedPairs, rows_of, token_links
from tf_transformer.data.changed import TaggedPairs
from tf_transformer.data.fingerprint import fingerprint
from tf_transformer.data.mixture import Mixture, WeightedSource
from tf_transformer.data.pairs import state_of
from tf_transformer.data.sources import TextFiles
from tf_transformer.errors import UserError
from tf_transformer.inspection.pharaoh import as_pharaoh, word_links

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
        ("0-0 3-1", "train.align, line 2: 3-1 has word 3 of the source, which has 3: words are what stands between"),
        ("0-2", "train.align, line 2: 0-2 has word 2 of the target, which has 2"),
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


# -- words and tokens ----

words = st.lists(st.text("abcäß.,'😀", min_size=1, max_size=6), min_size=1, max_size=6)


@st.composite
def split_texts(draw):
    """A text and tokens of it as SentencePiece has them, of which none has characters of two words."""
    of_text = draw(words)
    tokens = []
    for word in of_text:
        cuts = draw(st.sets(st.integers(1, len(word) - 1))) if len(word) > 1 else set()
        bounds = [0, *sorted(cuts), len(word)]
        pieces = [word[begin:end] for begin, end in zip(bounds[:-1], bounds[1:], strict=True)]
        tokens += ["▁" + pieces[0], *pieces[1:]]
    return " ".join(of_text), [*tokens, "</s>"], len(of_text)


@given(source=split_texts(), target=split_texts(), data=st.data())
def test_links_of_words_made_links_of_tokens_are_the_same_links_of_words(source, target, data):
    (source_text, source_tokens, source_words), (target_text, target_tokens, target_words) = source, target
    pairs = st.tuples(st.integers(0, source_words - 1), st.integers(0, target_words - 1))
    links = sorted(data.draw(st.sets(pairs)))
    found = token_links(source_tokens, source_text, target_tokens, target_text, as_pharaoh(links))
    token_pairs = [(int(link) >> 16, int(link) & 0xFFFF) for link in found]
    assert token_pairs == sorted(set(token_pairs))
    # Each link of tokens belongs to one of words, and all tokens of the two words are linked.
    back = set()
    for target_token, source_token in token_pairs:
        alignment = [source_token if token == target_token else -1 for token in range(len(target_tokens))]
        back |= set(word_links(source_text, target_text, source_tokens, target_tokens, alignment))
    assert sorted(back) == links

    def tokens_of(tokens, word):
        starts = [token.startswith("▁") for token in tokens[:-1]]
        return sum(sum(starts[: at + 1]) == word + 1 for at in range(len(starts)))

    assert len(token_pairs) == sum(
        tokens_of(source_tokens, source) * tokens_of(target_tokens, target) for source, target in links
    )
