"""Prepared pairs: the same as the text has, made once, and made again when they must be."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.data.prepared.small import CHARACTERS, FEW, Counted, contents, numbered, prepare, texts_of
from tests.data.test_batching import judged, texts
from tests.tiny_run import write_pairs
from tf_transformer.data.changed import NoisyPairs, TaggedPairs
from tf_transformer.data.counting import count_pairs
from tf_transformer.data.fingerprint import fingerprint
from tf_transformer.data.mixture import Mixture, WeightedSource
from tf_transformer.data.noise import Noise
from tf_transformer.data.placeholders import PlaceholderPairs
from tf_transformer.data.prepared import preparing
from tf_transformer.data.prepared.store import MANIFEST, PreparedPairs
from tf_transformer.data.sources import TextFiles
from tf_transformer.errors import UserError
from tf_transformer.files import checksums
from tf_transformer.files.checksums import write_checksums
from tf_transformer.tokenizers import TokenizerPair
from tf_transformer.tokenizers.brackets import BracketTokenizer

pytestmark = pytest.mark.usefixtures("small_parts")


# -- what they hold ----


@settings(max_examples=25, deadline=None)
@given(
    pairs=st.lists(st.tuples(texts, texts), max_size=250),
    max_length=st.integers(2, 26),
    max_ratio=st.sampled_from([None, 1.0, 1.5, 3.0]),
)
@example(pairs=[], max_length=5, max_ratio=None)
@example(pairs=[("", "")], max_length=5, max_ratio=None)
def test_they_are_the_pairs_that_the_rules_keep(tmp_path_factory, pairs, max_length, max_ratio):
    folder = tmp_path_factory.mktemp("store") / "train"
    prepared = prepare(pairs, folder, max_length=max_length, max_ratio=max_ratio)
    kept, counts = judged(pairs, max_length, max_ratio)
    assert texts_of(prepared) == kept and len(prepared) == len(kept)
    (source,) = prepared.manifest.sources
    assert source.counts == counts
    assert prepared.manifest.fingerprint == fingerprint(pairs)
    assert prepared.lengths().tolist() == [max(map(len, pair)) + 1 for pair in kept]


def test_tokens_that_the_vocabulary_lacks_are_counted(tmp_path):
    tokenizers = TokenizerPair(FEW.source, BracketTokenizer(["NP"]), "trees")
    pairs = [("a", "(NP XX )NP"), ("b", "(S XX )S"), ("", "(S XX )S")] * 200
    (source,) = prepare(pairs, tmp_path / "train", tokenizers).manifest.sources
    assert source.counts == count_pairs(pairs, tokenizers, max_length=30)
    assert (source.counts.unknown_source, source.counts.unknown_target) == (0, 400)


def test_ids_take_two_bytes_where_the_vocabulary_allows(tmp_path):
    emoji = prepare([("👍", "👎")], tmp_path / "many")
    assert texts_of(emoji) == [("👍", "👎")] and emoji.source.ids.dtype == np.uint32
    last = chr(2**16 - 1 - 4)
    few = prepare([("a", last)], tmp_path / "few", tokenizers=FEW)
    assert texts_of(few) == [("a", last)] and few.source.ids.dtype == np.uint16


@pytest.mark.parametrize("large", ["source", "target"])
def test_ids_take_four_bytes_where_either_vocabulary_is_large(tmp_path, large):
    sides = {"source": FEW.source, "target": FEW.target, large: CHARACTERS.source}
    pairs = [("👍", "a") if large == "source" else ("a", "👍")]
    assert texts_of(prepare(pairs, tmp_path / "train", TokenizerPair(**sides, kind="characters"))) == pairs


def test_of_several_sources_each_is_counted(tmp_path):
    """With a tag before the texts of one, but for those that are empty."""
    clean, crawled = numbered(230), [("x", "y"), ("", "empty"), ("x", "y")]
    both = Mixture([WeightedSource("clean", clean), WeightedSource("crawled", TaggedPairs(crawled, "<bt>"), 0.5)])
    prepared = prepare(both, tmp_path / "train")
    assert texts_of(prepared) == [*clean, ("<bt> x", "y"), ("<bt> x", "y")]
    first, second = prepared.manifest.sources
    assert (first.name, first.counts.kept, second.name, second.counts.kept) == ("clean", 230, "crawled", 2)
    assert (second.counts.empty, second.counts.repeated) == (1, 1)


@pytest.mark.parametrize(
    "derived",
    [
        lambda pairs: pairs,
        lambda pairs: TaggedPairs(pairs, "<bt>"),
        lambda pairs: NoisyPairs(pairs, Noise(upper_case=1)),
        PlaceholderPairs,
    ],
    ids=["as they are", "tag", "noise", "placeholders"],
)
def test_what_was_left_out_of_the_text_is_told_from_then_on(tmp_path, derived):
    source, target = write_pairs(tmp_path, numbered(230))
    source.write_bytes(source.read_bytes().replace(b"7", b"\xff"))
    lines = source.read_bytes().splitlines()
    broken = sum(b"\xff" in line for line in lines)
    for _ in range(2):
        pairs = derived(TextFiles(source, target, invalid_utf8="skip"))
        prepared = prepare(pairs, tmp_path / "store" / "train")
        assert prepared.manifest.sources[0].skipped == broken > 0 and len(prepared) == 230 - broken


def test_what_was_lost_of_a_damaged_file_is_told_of_pairs_made_of_it_too(tmp_path):
    source, target = write_pairs(tmp_path, numbered(230))
    source.write_bytes(gzip.compress(source.read_bytes())[:-20])
    files = TextFiles(source, target, damaged="skip")
    prepared = prepare(TaggedPairs(files, "<bt>"), tmp_path / "store" / "train")
    (lost,) = prepared.manifest.sources[0].lost
    assert [lost] == files.lost and "is cut off after line" in lost


def test_a_mistake_in_the_text_is_told_with_its_place(tmp_path):
    source, target = write_pairs(tmp_path, numbered(230))
    lines = source.read_bytes().splitlines(keepends=True)
    lines[149] = b"\xff\n"
    source.write_bytes(b"".join(lines))
    with pytest.raises(UserError, match=r"pairs\.en, line 150: not valid UTF-8"):
        prepare(TextFiles(source, target), tmp_path / "store" / "train")
    assert not (tmp_path / "store" / "train").exists()


# -- once, and again ----


def test_they_are_made_once(tmp_path, console):
    pairs = Counted(numbered(50), state=["same"])
    made = prepare(pairs, tmp_path / "train", console=console, tag=(None,))
    again = prepare(pairs, tmp_path / "train", console=console, tag=(None,))
    assert pairs.passes == 1 and texts_of(again) == texts_of(made) and console.file.getvalue() == ""
    known = preparing.known_fingerprint(pairs, tmp_path / "train", {"tag": (None,)})
    assert known == made.manifest.fingerprint and pairs.passes == 1


def test_files_whose_names_are_not_utf_8_are_prepared_once(tmp_path):
    (tmp_path / "T\udcfcr").mkdir()
    pairs = TextFiles(*write_pairs(tmp_path / "T\udcfcr", numbered(50)))
    made = prepare(pairs, tmp_path / "train", files=["T\udcfcr"])
    again = prepare(pairs, tmp_path / "train", files=["T\udcfcr"])
    assert texts_of(again) == texts_of(made) and again.manifest == made.manifest
    assert again.manifest.settings["files"] == ["T\udcfcr"]


@pytest.mark.parametrize("settings", [{"tag": ["<bt>"]}, {"tag": [None], "noise": [{"typos": 0.5}]}])
def test_what_was_prepared_with_another_tag_or_noise_tells_nothing_of_the_texts(tmp_path, settings):
    """Their files are the same, and so is their state."""
    prepare(Counted(numbered(50), state=["same"]), tmp_path / "train", tag=[None])
    texts = Counted(numbered(40), state=["same"])
    assert preparing.known_fingerprint(texts, tmp_path / "train", settings) == fingerprint(numbered(40))


def test_a_copied_corpus_is_looked_at_but_not_tokenised_again(tmp_path, console, monkeypatch):
    source, target = write_pairs(tmp_path, numbered(50))
    prepare(TextFiles(source, target), tmp_path / "store" / "train")
    os.utime(source, ns=(1, 1))
    monkeypatch.setattr(preparing, "make_part", None)
    prepare(TextFiles(source, target), tmp_path / "store" / "train", console=console)
    assert console.file.getvalue() == ""
    # From now on the copy is known.
    monkeypatch.setattr(preparing, "fingerprint", None)
    prepare(TextFiles(source, target), tmp_path / "store" / "train")
    PreparedPairs(tmp_path / "store" / "train")


def test_interrupted_as_it_notes_a_copied_corpus_nothing_is_damaged(tmp_path, console, monkeypatch):
    """After none, one or two of the three files that it writes then."""
    source, target = write_pairs(tmp_path, numbered(50))
    prepare(TextFiles(source, target), tmp_path / "store" / "train")
    monkeypatch.setattr(preparing, "make_part", None)
    for module in preparing, checksums:
        monkeypatch.setattr(module, "write_checksums", None)
    replace = Path.replace
    for written in range(3):
        os.utime(source, ns=(written, written))
        left = iter(range(written))

        def interrupted(path, target, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return replace(path, target)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Path, "replace", interrupted)
            prepare(TextFiles(source, target), tmp_path / "store" / "train")
        PreparedPairs(tmp_path / "store" / "train")
        prepare(TextFiles(source, target), tmp_path / "store" / "train", console=console)
        PreparedPairs(tmp_path / "store" / "train")
    assert console.file.getvalue() == ""


def test_other_text_of_the_same_size_is_noticed(tmp_path, console):
    source, target = write_pairs(tmp_path, numbered(50))
    prepare(TextFiles(source, target), tmp_path / "store" / "train")
    source.write_bytes(source.read_bytes().replace(b"s", b"z", 1))
    os.utime(source, ns=(0, 0))  # a file system's clock may be slower than this test
    prepared = prepare(TextFiles(source, target), tmp_path / "store" / "train", console=console)
    assert "train: the prepared data is from other pairs (50 pairs, CRC-32 " in console.file.getvalue()
    assert sum("z" in text for text, _ in texts_of(prepared)) == 1


def test_pairs_that_moved_from_one_source_to_the_next_are_noticed(tmp_path, console, monkeypatch):
    """Read one after another they are the same texts, but the sources' weights now hold for others."""
    pairs = numbered(50)

    def split(number):
        return Mixture([WeightedSource("clean", pairs[:number]), WeightedSource("crawled", pairs[number:], 0.5)])

    def kept(prepared):
        return [source.counts.kept for source in prepared.manifest.sources]

    made = prepare(split(20), tmp_path / "train")
    assert made.manifest.fingerprint == fingerprint(split(20)) != fingerprint(pairs)
    assert kept(prepare(split(30), tmp_path / "train", console=console)) == [30, 20]
    assert "train: the prepared data is from other pairs" in console.file.getvalue()
    # Nor are parts taken of a preparation that was broken off behind them.
    with monkeypatch.context() as broken:
        broken.setattr(preparing, "folder_written_whole", None)
        with pytest.raises(TypeError):
            prepare(split(20), tmp_path / "parts")
    again = prepare(split(30), tmp_path / "parts")
    assert kept(again) == [30, 20] and texts_of(again) == pairs


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"max_length": 12}, "differs in max_length"),
        ({"max_ratio": 1.5}, "differs in max_ratio"),
        ({"tokenizers": FEW}, "differs in tokenizer"),
        ({"files": ["b"]}, "differs in files"),
    ],
    ids=["max_length", "max_ratio", "tokenizer", "files"],
)
def test_another_limit_tokenizer_or_file_is_told_and_prepared(tmp_path, console, changes, told):
    pairs = numbered(50)
    prepare(pairs, tmp_path / "train", files=["a"])
    prepared = prepare(pairs, tmp_path / "train", console=console, **{"files": ["a"], **changes})
    assert console.file.getvalue() == f"train: the prepared data {told}; preparing it again\n"
    expected = prepare(pairs, tmp_path / "other", **{"files": ["a"], **changes})
    assert texts_of(prepared) == texts_of(expected)
    assert contents(tmp_path / "train") == contents(tmp_path / "other")


def test_a_setting_that_was_taken_out_is_told(tmp_path, console):
    prepare(numbered(50), tmp_path / "train", files=["a"], alignments=["b"])
    prepare(numbered(50), tmp_path / "train", files=["a"], console=console)
    assert console.file.getvalue() == "train: the prepared data differs in alignments; preparing it again\n"


@pytest.mark.parametrize("name", ["source_ids.npy", "target_offsets.npy", MANIFEST, "SHA256SUMS"])
@pytest.mark.parametrize("fault", ["flipped", "cut off", "gone"])
def test_damage_is_noticed(tmp_path, console, name, fault):
    pairs = numbered(50)
    prepare(pairs, tmp_path / "train")
    sound = contents(tmp_path / "train")
    file = tmp_path / "train" / name
    content = bytearray(sound[name])
    content[len(content) // 2] ^= 4
    damaged = {"flipped": bytes(content), "cut off": sound[name][: len(content) // 2]}
    if fault == "gone":
        file.unlink()
    else:
        file.write_bytes(damaged[fault])
    if (name, fault) == (MANIFEST, "gone"):
        # Nothing tells that these files are the project's own, so they are let alone.
        with pytest.raises(UserError, match="not prepared data"):
            prepare(pairs, tmp_path / "train")
    elif (name, fault) != ("SHA256SUMS", "gone"):
        prepare(pairs, tmp_path / "train", console=console)
        assert "damaged, or from another version; preparing it again" in console.file.getvalue()
        assert contents(tmp_path / "train") == sound


def test_what_another_version_prepared_is_told_and_prepared_again(tmp_path, console):
    """With its checksums right, so that nothing but the manifest tells."""
    pairs = numbered(50)
    prepare(pairs, tmp_path / "train")
    sound = contents(tmp_path / "train")
    manifest = sound[MANIFEST].replace(b'"format": 1', b'"format": 0')
    assert manifest != sound[MANIFEST]
    (tmp_path / "train" / MANIFEST).write_bytes(manifest)
    write_checksums(tmp_path / "train")
    prepare(pairs, tmp_path / "train", console=console)
    told = "train: the prepared data is damaged, or from another version; preparing it again\n"
    assert console.file.getvalue() == told
    assert contents(tmp_path / "train") == sound


def test_a_folder_of_something_else_is_let_alone(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "train.en").write_text("mine")
    with pytest.raises(UserError, match="not empty, and not prepared data; give another folder with data.prepared"):
        prepare(numbered(5), tmp_path / "train")
    assert (tmp_path / "train" / "train.en").read_text() == "mine"


@pytest.mark.parametrize("prepared", [False, True])
def test_nothing_else_is_removed_with_what_was_prepared(tmp_path, prepared):
    """Other data may have a file of the manifest's name; and someone may put a file beside the prepared ones."""
    folder = tmp_path / "train"
    if prepared:
        prepare(numbered(5), folder)
    else:
        folder.mkdir()
        (folder / MANIFEST).write_text('{"audio": "a.wav"}')
    (folder / "a.wav").write_text("mine")
    before = contents(folder)
    with pytest.raises(UserError, match=r"it also holds a\.wav, which is not prepared data; give another folder"):
        prepare(numbered(6), folder)
    assert contents(folder) == before
    if prepared:
        prepare(numbered(5), folder)  # it is in nobody's way
    (folder / "a.wav").unlink()
    assert texts_of(prepare(numbered(6), folder)) == numbered(6)


def test_pairs_in_use_stay_readable_while_others_take_their_place(tmp_path):
    pairs = numbered(50)
    first = prepare(pairs, tmp_path / "train")
    prepare(numbered(20), tmp_path / "train")
    assert texts_of(first) == pairs and len(PreparedPairs(tmp_path / "train")) == 20
