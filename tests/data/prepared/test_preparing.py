"""Prepared pairs: the same as the text has, made once, made anew when they must be, and whole whatever happens."""

import errno
import io
import itertools
import os
import random
import resource
import signal
import sys
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.bounded import eventually, started
from tests.data.prepared.small import FEW, prepare, texts_of
from tests.data.test_batching import judged, texts
from tests.mistakes import refused
from tests.tiny_run import write_pairs
from tf_transformer.data.changed import TaggedPairs
from tf_transformer.data.counting import count_pairs
from tf_transformer.data.fingerprint import fingerprint
from tf_transformer.data.mixture import Mixture, WeightedSource
from tf_transformer.data.prepared import preparing
from tf_transformer.data.prepared.store import MANIFEST, PreparedPairs
from tf_transformer.data.sources import TextFiles
from tf_transformer.errors import UserError
from tf_transformer.tokenizers import TokenizerPair
from tf_transformer.tokenizers.brackets import BracketTokenizer


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


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=300)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(preparing, "PART", 100)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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


def test_of_several_sources_each_is_counted(tmp_path):
    """With a tag before the texts of one, but for those that are empty."""
    clean, crawled = numbered(230), [("x", "y"), ("", "empty"), ("x", "y")]
    both = Mixture([WeightedSource("clean", clean), WeightedSource("crawled", TaggedPairs(crawled, "<bt>"), 0.5)])
    prepared = prepare(both, tmp_path / "train")
    assert texts_of(prepared) == [*clean, ("<bt> x", "y"), ("<bt> x", "y")]
    first, second = prepared.manifest.sources
    assert (first.name, first.counts.kept, second.name, second.counts.kept) == ("clean", 230, "crawled", 2)
    assert (second.counts.empty, second.counts.repeated) == (1, 1)


def test_what_was_left_out_of_the_text_is_told_from_then_on(tmp_path):
    source, target = write_pairs(tmp_path, numbered(230))
    source.write_bytes(source.read_bytes().replace(b"7", b"\xff"))
    lines = source.read_bytes().splitlines()
    broken = sum(b"\xff" in line for line in lines)
    for _ in range(2):
        prepared = prepare(TextFiles(source, target, invalid_utf8="skip"), tmp_path / "store" / "train")
        assert prepared.manifest.sources[0].skipped == broken > 0 and len(prepared) == 230 - broken


def test_a_mistake_in_the_text_is_told_with_its_place(tmp_path):
    source, target = write_pairs(tmp_path, numbered(230))
    lines = source.read_bytes().splitlines(keepends=True)
    lines[149] = b"\xff\n"
    source.write_bytes(b"".join(lines))
    with pytest.raises(UserError, match=r"pairs\.en, line 150: not valid UTF-8"):
        prepare(TextFiles(source, target), tmp_path / "store" / "train")
    assert not (tmp_path / "store" / "train").exists()


# -- once, and anew ----


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


def test_other_text_of_the_same_size_is_noticed(tmp_path, console):
    source, target = write_pairs(tmp_path, numbered(50))
    prepare(TextFiles(source, target), tmp_path / "store" / "train")
    source.write_bytes(source.read_bytes().replace(b"s", b"z", 1))
    os.utime(source, ns=(0, 0))  # a file system's clock may be slower than this test
    prepared = prepare(TextFiles(source, target), tmp_path / "store" / "train", console=console)
    assert "train: other pairs were prepared (50 pairs, CRC-32 " in console.file.getvalue()
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
    assert "train: other pairs were prepared" in console.file.getvalue()
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
    assert console.file.getvalue() == f"train: what was prepared {told}; preparing it anew\n"
    expected = prepare(pairs, tmp_path / "other", **{"files": ["a"], **changes})
    assert texts_of(prepared) == texts_of(expected)
    assert contents(tmp_path / "train") == contents(tmp_path / "other")


def test_a_setting_that_was_taken_out_is_told(tmp_path, console):
    prepare(numbered(50), tmp_path / "train", files=["a"], alignments=["b"])
    prepare(numbered(50), tmp_path / "train", files=["a"], console=console)
    assert console.file.getvalue() == "train: what was prepared differs in alignments; preparing it anew\n"


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
        assert "damaged, or of another version; preparing it anew" in console.file.getvalue()
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
    with pytest.raises(UserError, match=r"it holds a\.wav too, which is not of prepared data; give another folder"):
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


# -- whole, or not at all ----

# It prepares 2,000 pairs, and begins to prepare others, but after 1,000 goes on no more.
SLOW = """
import sys, time
from pathlib import Path
from tests.data.prepared.small import prepare
from tests.data.prepared.test_preparing import numbered
from tf_transformer.data.prepared import preparing

preparing.PART = 100

class Pairs:
    def __init__(self, last=-1):
        self.last = last

    def __iter__(self):
        for number, pair in enumerate(numbered(2000)):
            if number == self.last:
                time.sleep(10**6)
            if number % 100 == 0:
                time.sleep(0.05)
            yield pair

prepare(Pairs(), Path(sys.argv[1]))
prepare(Pairs(1000), Path(sys.argv[2]))
"""


def test_two_at_once_make_one_and_one_that_is_killed_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch):
    """This process begins while another is at work, which is killed at the next work that it has begun."""
    both, later = tmp_path / "both", tmp_path / "later"
    parts = later / ".parts-train"
    with started([sys.executable, "-c", SLOW, both / "train", later / "train"]) as other:
        eventually((both / ".parts-train").exists)
        assert not (both / "train").exists()
        assert texts_of(prepare(numbered(2000), both / "train")) == numbered(2000)
        eventually(lambda: len(list(parts.glob("0*.npz"))) >= 5 or other.poll() is not None)
        assert other.poll() is None
    assert {path.name for path in both.iterdir()} == {"train", "lock"}
    assert texts_of(PreparedPairs(both / "train")) == numbered(2000)

    made = len(list(parts.glob("0*.npz")))
    assert 5 <= made < 20 and not (later / "train").exists()
    # One of the parts is damaged, and made again.
    with (parts / "000001.npz").open("r+b") as file:
        file.truncate(1000)
    calls = []
    make_part = preparing.make_part
    monkeypatch.setattr(preparing, "make_part", lambda *given: calls.append(1) or make_part(*given))
    prepare(numbered(2000), later / "train")
    assert len(calls) == 20 - made + 1
    prepare(numbered(2000), tmp_path / "undisturbed")
    assert contents(later / "train") == contents(tmp_path / "undisturbed")
    assert not parts.exists()


def test_parts_of_other_text_or_limits_are_not_gone_on_with(tmp_path, monkeypatch):
    pairs = numbered(450)

    def broken(after):
        yield from pairs[:after]
        raise UserError("the disk is gone")

    class Broken:
        def __iter__(self):
            return broken(350)

    with pytest.raises(UserError, match="the disk is gone"):
        prepare(Broken(), tmp_path / "train")
    changed = [pair if number != 150 else ("new", "neu") for number, pair in enumerate(pairs)]
    prepared = prepare(changed, tmp_path / "train")
    assert texts_of(prepared) == changed
    with pytest.raises(UserError, match="the disk is gone"):
        prepare(Broken(), tmp_path / "train")
    short = prepare(pairs, tmp_path / "train", max_length=12)
    assert texts_of(short) == [pair for pair in pairs if max(map(len, pair)) < 12]


def test_a_full_disk_is_told_in_one_line(tmp_path):
    """No file may have more than some bytes, which is as if the disk were full."""
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for size in (100, 5_000):  # in the first part; where all are put together
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            with pytest.raises(UserError, match="can't be written: File too large") as error:
                prepare(numbered(400), tmp_path / "train")
            assert "\n" not in str(error.value) and not (tmp_path / "train").exists()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert len(prepare(numbered(400), tmp_path / "train")) == 400


def test_many_read_through_what_is_there_at_once(tmp_path):
    class NobodyWaits:
        def print(self, told, **how):
            raise AssertionError(told)

    pairs = Counted(numbered(10), [1])
    prepare(pairs, tmp_path / "train")
    with preparing.locked(tmp_path, NobodyWaits(), shared=True):
        prepare(pairs, tmp_path / "train", console=NobodyWaits())
        with pytest.raises(AssertionError, match="waiting for another process"):
            prepare(pairs, tmp_path / "train", console=NobodyWaits(), tag="de")
    assert pairs.passes == 1


def test_without_locks_nothing_is_prepared(tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", flock)
    told = refused(prepare, numbered(10), tmp_path / "train")
    assert told.startswith(
        f"{tmp_path}: can't be locked (Function not implemented), since its file system has no locks"
    )
    assert told.endswith("choose a folder on another file system with data.prepared")


def test_a_corpus_is_read_ahead_by_some_parts_alone(tmp_path, monkeypatch):
    """However slowly it is tokenised, so that it is never in memory as a whole."""
    read, furthest, done = itertools.count(), [0], []

    class Pairs:
        def __iter__(self):
            for pair in numbered(5000):
                furthest[0] = next(read)
                yield pair

    make_part = preparing.make_part

    def slow(*given):
        time.sleep(0.01)
        done.append(furthest[0] - 100 * len(done))
        return make_part(*given)

    monkeypatch.setattr(preparing, "make_part", slow)
    prepare(Pairs(), tmp_path / "train")
    assert max(done) <= 100 * (2 * len(os.sched_getaffinity(0)) + 3)
