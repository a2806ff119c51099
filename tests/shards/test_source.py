"""The lines of a file in shards: those that are read without, each with its number, plain or gzip."""

import gzip
import hashlib
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.errors import UserError
from tf_transformer.shards.source import Source
from tf_transformer.terminal.lines import open_sentences, read_lines

# What ends lines, what does not, and a byte order mark, which only the first line may have.
TEXT = st.lists(st.sampled_from(["a", "ü", "\n", "\n", "\r\n", "\r", "\u2028", "\ufeff", " "]), max_size=40).map(
    "".join
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("source")


@settings(deadline=None, max_examples=200)
@given(TEXT, st.integers(1, 9), st.booleans(), st.randoms())
def test_the_shards_in_any_order_are_the_lines_of_the_file(folder, text, shard_lines, packed, random):
    file = folder / "text"
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    expected = list(enumerate(read_lines(*open_sentences(file)), start=1))
    source = Source(file, shard_lines)
    assert (source.lines, source.sha256) == (len(expected), hashlib.sha256(text.encode()).hexdigest())
    order = random.sample(range(len(source)), len(source))
    shards = {index: source.shard(index) for index in order}
    assert [line for index in range(len(source)) for line in shards[index]] == expected
    assert all(0 < len(shards[index]) == source.lines_of(index) <= shard_lines for index in order)
    assert all(len(shards[index]) == shard_lines for index in range(len(source) - 1))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a\nb\nT\xfcr\n", r"line 3: not valid UTF-8 at byte 2 \(0xfc\); convert"),
        (gzip.compress(b"a dog\n")[:-4], r"incomplete or damaged gzip file \(.*after line 1\)"),
        (None, "does not exist"),
    ],
    ids=["latin 1", "half a gzip file", "none"],
)
def test_a_mistake_anywhere_in_it_is_told_at_once(tmp_path, content, told):
    file = tmp_path / "text"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=told):
        Source(file, 1)


@pytest.mark.parametrize("change", ["other text", "gone"])
def test_a_file_that_changes_meanwhile_is_not_read_on(tmp_path, change):
    file = tmp_path / "text"
    file.write_text("a\nb\n")
    source = Source(file, 1)
    assert source.shard(0) == [(1, "a")]
    if change == "gone":
        file.unlink()
    else:
        file.write_text("a\nc\n")
        os.utime(file, ns=(0, 0))  # a file system's clock may be slower than this test
    with pytest.raises(UserError, match="restore it, and give the command again"):
        source.shard(1)
