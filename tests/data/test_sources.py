"""Pairs out of files and datasets: aligned, streamed, and every mistake told in one line."""

import errno
import gzip
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mistakes import refused
from tf_transformer.data.sources import TextFiles, TfdsSource, TsvFile
from tf_transformer.errors import UserError
from tf_transformer.experiment.corpus import OPENERS
from tf_transformer.recipe.data_settings import SPLITS


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def files(folder: Path, source: bytes | str, target: bytes | str, **options) -> TextFiles:
    return TextFiles(write(folder / "s.en", source), write(folder / "t.de", target), **options)


def told(make) -> str:
    """The message of the UserError that making or reading a source raises."""
    return refused(lambda: list(make()))


def test_every_kind_of_data_that_a_recipe_may_name_can_be_opened():
    assert set(OPENERS) == set(SPLITS)


# -- text files ----


def test_pairs_come_aligned_in_order_and_again(tmp_path):
    source = files(tmp_path, "one\ntwo\nthree\n", "eins\nzwei\ndrei\n")
    expected = [("one", "eins"), ("two", "zwei"), ("three", "drei")]
    assert list(source) == expected
    assert list(source) == expected


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_line_endings_marks_and_a_missing_last_newline_leave_no_trace(tmp_path, ending, last, bom):
    lines = ["Grüße", "", "日本語 👍", "x"]
    text = bom + ending.join(lines) + (ending if last else "")
    assert list(files(tmp_path, text, "a\nb\nc\nd\n")) == list(zip(lines, "abcd", strict=True))


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "a\rb", "\ufeff"])
def test_only_a_newline_ends_a_line(tmp_path, inside):
    source = files(tmp_path, f"one {inside} still one\ntwo\n", "eins\nzwei\n")
    assert list(source) == [(f"one {inside} still one", "eins"), ("two", "zwei")]


@given(
    st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), min_size=1),
    st.booleans(),
)
def test_any_text_survives(tmp_path_factory, lines, packed):
    lines = [line.removesuffix("\r") for line in lines]
    lines[0] = lines[0].removeprefix("\ufeff")
    content = ("\n".join(lines) + "\n").encode()
    path = tmp_path_factory.mktemp("any") / "text"
    write(path, gzip.compress(content) if packed else content)
    assert list(TextFiles(path, path)) == [(line, line) for line in lines]


@pytest.mark.parametrize("name", ["packed.gz", "packed"])
def test_gzip_reads_as_plain_whatever_its_name(tmp_path, name):
    content = b"one\ntwo\n"
    packed = write(tmp_path / name, gzip.compress(content[:4]) + gzip.compress(content[4:]))
    plain = write(tmp_path / "plain", content)
    assert list(TextFiles(packed, plain)) == [("one", "one"), ("two", "two")]


def test_lists_of_files_are_read_one_after_the_other(tmp_path):
    parts = [write(tmp_path / name, name + "\n") for name in ("a", "b", "x", "y")]
    assert list(TextFiles(parts[:2], [str(part) for part in parts[2:]])) == [("a", "x"), ("b", "y")]
    message = told(lambda: TextFiles(parts[:3], parts[3]))
    assert "3 source" in message and "1 target" in message
    assert "0 source" in told(lambda: TextFiles([], []))


def test_unequal_files_in_a_list_are_caught_even_when_the_sums_agree(tmp_path):
    one, two = write(tmp_path / "one", "1\n"), write(tmp_path / "two", "1\n2\n")
    message = told(lambda: TextFiles([one, two], [two, one]))
    assert f"{one} has 1 lines" in message and f"{two} has 2" in message


def test_a_home_folder_is_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "a", "x\n")
    assert list(TextFiles("~/a", "~/a")) == [("x", "x")]
    assert "~no-such-user/a does not exist" in told(lambda: TextFiles("~no-such-user/a", "~/a"))
    assert "no such folder ~no-such-user/a" in told(
        lambda: TfdsSource("translate_folder", "train", "en", "de", data_dir="~no-such-user/a")
    )


def test_reading_streams(tmp_path):
    source = files(tmp_path, b"good\n" * 9 + b"\xff\n", b"gut\n" * 9)
    assert len(list(itertools.islice(source, 9))) == 9  # the tenth line, bad and alone, is not yet looked at


@pytest.mark.parametrize("missing", ["source", "target"])
def test_missing_file(tmp_path, missing):
    there, gone = write(tmp_path / "there", "x\n"), tmp_path / "gone"
    with pytest.raises(UserError, match=re.escape(f"{gone} does not exist")):
        TextFiles(**{"source": there, "target": there, missing: gone})  # before anything is read


def test_folder_and_pipe_are_no_files(tmp_path):
    there, pipe = write(tmp_path / "there", "x\n"), tmp_path / "pipe"
    os.mkfifo(pipe)
    assert f"{tmp_path} is not a regular file" in told(lambda: TextFiles(tmp_path, there))
    assert f"{pipe} is not a regular file" in told(lambda: TextFiles(pipe, there))


def test_unreadable_file(tmp_path):
    locked = write(tmp_path / "locked", "x\n")
    locked.chmod(0)
    if os.access(locked, os.R_OK):
        pytest.skip("this user may read everything")
    assert f"cannot read {locked} (Permission denied)" in told(lambda: TextFiles(locked, locked))


@pytest.mark.parametrize("damage", ["cut", "flipped", "mislabelled"])
def test_broken_gzip(tmp_path, damage):
    good = gzip.compress(os.urandom(5000).hex().encode() + b"\n")
    content = {
        "cut": good[: len(good) // 2],
        "flipped": good[:1000] + bytes([good[1000] ^ 0xFF]) + good[1001:],
        "mislabelled": b"plain text\n",
    }[damage]
    path = write(tmp_path / "broken.gz", content)
    assert f"{path}: incomplete or damaged gzip file" in told(lambda: TextFiles(path, path))


@pytest.mark.parametrize("source, target, counts", [(5, 3, ("5", "3")), (3, 5, ("3", "5")), (0, 1200, ("0", "1,200"))])
def test_unequal_lengths_tell_both_counts_and_names(tmp_path, source, target, counts):
    message = told(lambda: files(tmp_path, "x\n" * source, "y\n" * target))
    assert f"{tmp_path / 's.en'} has {counts[0]} lines" in message
    assert f"{tmp_path / 't.de'} has {counts[1]}:" in message


def test_of_a_relative_path_the_folder_is_told_that_it_is_looked_for_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told(lambda: TsvFile("none.tsv")).startswith(f"none.tsv does not exist in {tmp_path}, the current folder: ")


def test_invalid_utf8_tells_file_and_line(tmp_path):
    message = told(lambda: files(tmp_path, "a\nb\nc\n", b"x\ny\xff\nz\n"))
    assert f"{tmp_path / 't.de'}, line 2: not valid UTF-8 at byte 2 (0xff)" in message
    assert 'invalid_utf8 to "skip"' in message


def test_invalid_utf8_skips_the_pair_on_both_sides_and_counts_each_pass(tmp_path):
    source = files(tmp_path, b"a\nb\xc3\nc\nd\xff\ne\n", b"v\nw\nx\xed\xa0\x80\ny\xff\nz\n", invalid_utf8="skip")
    for _ in range(2):
        assert list(source) == [("a", "v"), ("e", "z")]
        assert source.skipped == 3


def test_invalid_utf8_takes_no_other_word(tmp_path):
    assert "'ignore'" in told(lambda: files(tmp_path, "x", "y", invalid_utf8="ignore"))


def test_empty_corpus(tmp_path):
    message = told(lambda: files(tmp_path, "", ""))
    assert f"no sentence pairs in {tmp_path / 's.en'} and {tmp_path / 't.de'}:" in message
    message = told(lambda: files(tmp_path, b"\xff\n\xff\n", "x\ny\n", invalid_utf8="skip"))
    assert "2 skipped as invalid UTF-8" in message


# -- tab-separated files ----


@pytest.mark.parametrize("packed", [False, True])
def test_tsv_takes_the_first_two_columns(tmp_path, packed):
    content = '\ufeffHi.\tHallo.\nRun "now"!\tLauf!\tCC-BY 2.0\r\n\tleer\n'.encode()
    source = TsvFile(write(tmp_path / "pairs", gzip.compress(content) if packed else content))
    expected = [("Hi.", "Hallo."), ('Run "now"!', "Lauf!"), ("", "leer")]
    assert list(source) == list(source) == expected


def test_tsv_without_a_tab(tmp_path):
    path = write(tmp_path / "pairs.tsv", "a\tb\nc d\n")
    assert f"{path}, line 2: only 1 column" in told(lambda: TsvFile(path))


def test_tsv_invalid_utf8_matters_in_the_columns_used(tmp_path):
    path = write(tmp_path / "pairs.tsv", b"a\tb\t\xff\nc\xff\td\ne\tf\n")
    assert f"{path}, line 2: not valid UTF-8" in told(lambda: TsvFile(path))
    source = TsvFile(path, invalid_utf8="skip")
    assert list(source) == [("a", "b"), ("e", "f")]
    assert source.skipped == 1


def test_tsv_missing_or_empty(tmp_path):
    assert "does not exist" in told(lambda: TsvFile(tmp_path / "none.tsv"))
    assert "no sentence pairs" in told(lambda: TsvFile(write(tmp_path / "empty.tsv", "")))


# -- TensorFlow Datasets ----


@pytest.fixture(scope="module")
def tfds():
    import tensorflow_datasets

    return tensorflow_datasets


def test_importing_sources_loads_no_tensorflow():
    code = "import sys; from tf_transformer.data import TextFiles; print('tensorflow' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_wmt14_by_name(tfds, tmp_path, capfd):
    texts = [{"en": f"sentence {n}", "de": f"Satz {n}"} for n in range(2500)]

    def as_dataset(builder, *args, **kwargs):
        import tensorflow as tf

        return tf.data.Dataset.from_generator(
            lambda: iter(texts),
            output_signature={lang: tf.TensorSpec((), tf.string) for lang in ("en", "de")},
        )

    with tfds.testing.mock_data(as_dataset_fn=as_dataset):
        source = TfdsSource("wmt14_translate/de-en", "train", "en", "de", data_dir=tmp_path)
        expected = [(pair["en"], pair["de"]) for pair in texts]
        assert list(source) == list(source) == expected
        swapped = TfdsSource("wmt14_translate/de-en", "train", "de", "en", data_dir=tmp_path)
        assert next(iter(swapped)) == ("Satz 0", "sentence 0")
        assert "no text in 'fr': choose from de, en" in told(
            lambda: TfdsSource("wmt14_translate/de-en", "train", "fr", "en", data_dir=tmp_path)
        )
    assert capfd.readouterr().out == ""


@pytest.fixture(scope="module")
def prepared(tfds, tmp_path_factory):
    """A real, if small, dataset, written to disk as TensorFlow Datasets writes them."""
    pytest.importorskip("importlib_resources", reason="tensorflow-datasets needs it to prepare a dataset")

    class TinyTranslate(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = tfds.features.Translation(languages=("de", "en"))
            return self.dataset_info_from_configs(features=features)

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples(40), "test": self._generate_examples(2)}

        def _generate_examples(self, count):
            for n in range(count):
                yield n, {"de": f"Nummer {n} – ü", "en": f"number {n}"}

    return tmp_path_factory.mktemp("tfds")


def test_a_dataset_is_prepared_then_read(prepared, capfd):
    def read(split):
        return list(TfdsSource("tiny_translate", split, "en", "de", data_dir=prepared))

    train = read("train")
    assert sorted(train) == sorted((f"number {n}", f"Nummer {n} – ü") for n in range(40))
    assert read("train") == train
    assert read("train[:25%]") == train[:10]
    assert len(read("test")) == 2
    assert capfd.readouterr().out == ""


def test_a_dataset_that_another_process_prepares_meanwhile_is_taken(prepared, tfds, tmp_path, monkeypatch):
    """The later of two can't rename its folder to a place that is taken."""
    prepare = tfds.core.DatasetBuilder.download_and_prepare

    def too_slowly(builder, **options):
        prepare(tfds.builder("tiny_translate", data_dir=tmp_path))
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", too_slowly)
    assert len(list(TfdsSource("tiny_translate", "train", "en", "de", data_dir=tmp_path))) == 40


def test_unknown_split_names_those_there_are(prepared):
    message = told(lambda: TfdsSource("tiny_translate", "dev", "en", "de", data_dir=prepared))
    assert "no split 'dev'" in message and "train" in message and "test" in message


def test_empty_split(prepared):
    message = told(lambda: TfdsSource("tiny_translate", "test[:0%]", "en", "de", data_dir=prepared))
    assert "'test[:0%]'" in message and "no data" in message


def test_unknown_dataset_and_configuration(tfds, tmp_path):
    assert "wmt14_translate" in told(lambda: TfdsSource("wmt14_translat/de-en", "train", "en", "de", tmp_path))
    assert "xx-en" in told(lambda: TfdsSource("wmt14_translate/xx-en", "train", "en", "de", tmp_path))


@pytest.mark.parametrize(
    "error, words",
    [
        (ConnectionError("no\nroute"), "cannot be downloaded (no route)"),
        (ImportError(name="beam"), "pip install beam"),
    ],
)
def test_data_that_cannot_be_fetched(tfds, tmp_path, monkeypatch, error, words):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    message = told(lambda: TfdsSource("wmt14_translate/de-en", "train", "en", "de", data_dir=tmp_path))
    assert words in message and "wmt14_translate/de-en" in message


def test_a_folder_reads_as_translate_folder_does(tfds, tmp_path):
    lines = {"en": [f"line {n}" for n in range(50)], "de": [f"Zeile {n} ü" for n in range(50)]}
    for split, count in (("train", 50), ("test", 5)):
        for language, texts in lines.items():
            write(tmp_path / f"{language}.{split}.txt", "\n".join(texts[:count]) + "\n")
    for split in ("train", "test"):
        theirs = tfds.TranslateFolder(root_dir=str(tmp_path)).as_dataset(split=split, shuffle_files=False)
        expected = [(pair["en"].decode(), pair["de"].decode()) for pair in tfds.as_numpy(theirs)]
        assert list(TfdsSource("translate_folder", split, "en", "de", data_dir=tmp_path)) == expected


def test_a_folder_may_hold_what_translate_folder_chokes_on(tmp_path):
    write(tmp_path / "README", "about these files")
    write(tmp_path / "en.train.txt", "one\u2028still one\ntwo\n")
    write(tmp_path / "de.train.txt.gz", gzip.compress(b"eins\nzwei\n"))
    source = TfdsSource("translate_folder", "train", "en", "de", data_dir=tmp_path)
    assert list(source) == [("one\u2028still one", "eins"), ("two", "zwei")]


def test_a_folder_without_the_file_or_with_two(tmp_path):
    write(tmp_path / "en.train.txt", "one\n")

    def message():
        return told(lambda: TfdsSource("translate_folder", "train", "en", "de", data_dir=tmp_path))

    assert f"{tmp_path} must contain one file de.train.txt" in message() and "found none" in message()
    write(tmp_path / "de.train.txt", "eins\n")
    write(tmp_path / "de.train.bak", "eins\n")
    assert "found de.train.bak, de.train.txt" in message()


@pytest.mark.parametrize("folder", [None, "no/such/folder"])
def test_a_folder_that_is_none(folder):
    assert "data_dir" in told(lambda: TfdsSource("translate_folder", "train", "en", "de", data_dir=folder))
