"""Files that are damaged, vanish or change: told with file and place, or left out and counted; never trained on."""

import gzip
import os
import re
from pathlib import Path

import pytest

from tests.mistakes import refused
from tests.tiny_run import PAIRS, RECIPE, settings, write_pairs
from tf_transformer.data.batching import make_batches
from tf_transformer.data.failures import original_errors
from tf_transformer.data.lines import LINES_BETWEEN_LOOKS
from tf_transformer.data.sources import TextFiles, TfdsSource, TsvFile
from tf_transformer.errors import UserError

LINES = [f"Zeile {n} {os.urandom(8).hex()}" for n in range(3000)]
TEXT = "".join(line + "\n" for line in LINES).encode()


def flip(path: Path, place: float) -> None:
    """Flips a bit as a failing disk does: no time of change tells of it."""
    state = path.stat()
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 4
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


# -- gzip ----


@pytest.fixture
def packed(tmp_path) -> tuple[Path, Path]:
    """A packed file, and its lines again in one that is not."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT))
    (tmp_path / "b").write_bytes(TEXT)
    return tmp_path / "a.gz", tmp_path / "b"


def line_reached(message: str) -> int:
    return int(re.search(r"after line ([\d,]+)", message)[1].replace(",", ""))


def test_a_gzip_file_that_is_cut_off(packed):
    path, whole = packed
    path.write_bytes(path.read_bytes()[:-20_000])
    message = refused(list, TextFiles(path, whole))
    assert message.startswith(f"{path}: incomplete or damaged gzip file (") and 'if damaged is set to "skip"' in message
    reached = line_reached(message)
    assert 100 < reached < len(LINES)
    source = TextFiles(path, whole, damaged="skip")
    for _ in range(2):
        # What was read is right, and not a line is half.
        assert list(source) == [(line, line) for line in LINES[:reached]]
        lost = f"{path} is cut off after line {reached:,}: {reached:,} pairs read, {len(LINES) - reached:,} lost"
        assert source.lost == [lost]
    assert list(TextFiles(whole, path, damaged="skip")) == list(source)


@pytest.mark.parametrize("place", [0.2, 0.9, -5])
def test_of_a_gzip_file_with_a_flipped_bit_nothing_is_read(packed, place):
    path, whole = packed
    if place < 0:  # the checksum itself
        place = (path.stat().st_size + place) / path.stat().st_size
    flip(path, place)
    assert refused(list, TextFiles(path, whole)).startswith(f"{path}: incomplete or damaged gzip file (")
    # The checksum stands at the end, behind lines that look like others.
    source = TextFiles([path, whole], [whole, whole], damaged="skip")
    assert list(source) == [(line, line) for line in LINES]
    (lost,) = source.lost
    assert lost.startswith(f"{path} is damaged (") and lost.endswith(": 0 pairs read, 3,000 lost")
    alone = TextFiles(path, whole, damaged="skip")
    assert "no sentence pairs in" in refused(list, alone) and "3,000 lost" in refused(list, alone)


def test_both_files_cut_and_a_file_of_columns(tmp_path):
    path, other = tmp_path / "a.gz", tmp_path / "b.gz"
    whole = gzip.compress(TEXT.replace(b" ", b"\t"))
    path.write_bytes(whole[: len(whole) // 2])
    other.write_bytes(whole[: len(whole) // 3])
    source = TextFiles(path, other, damaged="skip")
    fewer = len(list(source))
    assert len(source.lost) == 1 and source.lost[0].endswith(f": {fewer:,} pairs read, the rest lost")
    columns = TsvFile(path, damaged="skip")
    assert len(list(columns)) > fewer > 0
    assert columns.lost[0].startswith(f"{path} is cut off after line ")


def test_what_is_whole_loses_nothing(packed):
    source = TextFiles(*packed, damaged="skip")
    assert len(list(source)) == len(LINES) and source.lost == []
    with pytest.raises(UserError, match="damaged is 'ignore'"):
        TextFiles(*packed, damaged="ignore")
    # To leave out what is damaged is not to put up with files that don't belong together.
    packed[1].write_bytes(TEXT[: len(TEXT) // 2])
    assert "make them equal" in refused(list, TextFiles(*packed, damaged="skip"))


# -- change ----


def rewrite(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(0, 0))  # a file system's clock may be slower than this test


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more\n")


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1000)


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes()[::-1])
    other.replace(path)


CHANGES = [rewrite, grow, shrink, replace]


@pytest.mark.parametrize("damaged", ["error", "skip"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_between_two_passes(packed, change, damaged):
    for path in packed:
        source = TextFiles(*packed, damaged=damaged)
        assert len(list(source)) == len(LINES)
        change(path)
        assert refused(list, source).startswith(f"{path} has changed since reading began (after line 0): ")
        path.write_bytes(gzip.compress(TEXT) if path.suffix else TEXT)


@pytest.mark.parametrize("change", [rewrite, grow, shrink])
def test_a_file_that_changes_as_it_is_read(packed, change):
    for path in packed:
        pairs = iter(TextFiles(*packed))
        next(pairs)
        change(path)
        message = refused(list, pairs)
        assert message.startswith(f"{path} has changed since reading began")
        assert message.endswith("or start again with another (training in another folder)")
        assert line_reached(message) <= LINES_BETWEEN_LOOKS
        path.write_bytes(gzip.compress(TEXT) if path.suffix else TEXT)


def test_a_file_that_is_gone(packed):
    source = TextFiles(*packed, damaged="skip")
    list(source)
    packed[0].unlink()
    assert refused(list, source).startswith(f"{packed[0]} is gone; it existed when reading began: restore it")


# -- TensorFlow Datasets ----


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """The sentences that the tiny run knows, fifty times, as TensorFlow Datasets writes them: in two files."""
    pytest.importorskip("importlib_resources", reason="tensorflow-datasets needs it to prepare a dataset")
    import tensorflow_datasets as tfds

    class DamagedTranslate(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            return self.dataset_info_from_configs(features=tfds.features.Translation(languages=("de", "en")))

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples(50), "validation": self._generate_examples(1)}

        def _generate_examples(self, times):
            for n, (source, target) in enumerate(PAIRS * times):
                yield n, {"en": source, "de": target}

    folder = tmp_path_factory.mktemp("prepared")
    builder = DamagedTranslate(data_dir=folder)
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=2))
    assert len(records(folder)) == 2
    return folder


def records(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*-train.tfrecord-*"))


@pytest.fixture
def dataset(prepared):
    """Opens its training split; what a test does to the files is undone."""
    kept = {path: (path.read_bytes(), path.stat()) for path in records(prepared)}

    def open_it(**options) -> TfdsSource:
        return TfdsSource("damaged_translate", "train", "en", "de", data_dir=prepared, **options)

    yield open_it
    for path, (content, state) in kept.items():
        path.write_bytes(content)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def cut(path: Path, place: float) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * place)])


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_damaged_record(dataset, prepared, damage):
    whole = list(dataset())
    assert len(whole) == 50 * len(PAIRS)
    first, second = records(prepared)
    damage(second, 0.5)
    message = refused(list, dataset())
    assert message.startswith("dataset damaged_translate, split train: damaged at or shortly after pair ")
    place = re.search(rf"\({re.escape(str(second))}, record ([\d,]+)\)", message)
    record = int(place[1].replace(",", ""))
    assert 275 < record < 325  # half of 600, give or take the lengths of the sentences
    source = dataset(damaged="skip")
    read = list(source)
    assert len(read) == 600 + record - 1  # the other file is read to its end
    assert set(read) <= set(whole)
    assert source.lost == [
        f"dataset damaged_translate, split train: {second}, record {record:,}: "
        f"{len(read):,} pairs read, {len(whole) - len(read):,} lost"
    ]
    assert len(list(source)) == len(read)


def test_a_file_that_can_t_be_read(dataset, prepared):
    """As one without permission; root, whom nothing is forbidden, can't read a folder either."""
    path = records(prepared)[1]
    path.unlink()
    path.mkdir()
    message = refused(list, dataset())
    path.rmdir()
    assert f"({path}: " in message and "\n" not in message


def test_records_that_are_missing_without_a_trace(dataset, prepared):
    """The file ends between two records, so that nothing but the dataset's own count tells."""
    import tensorflow as tf

    path = records(prepared)[0]
    content = path.read_bytes()
    ends, size = [], 0
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        size += 8 + 4 + len(record) + 4  # its length and that one's checksum, and the content's
        ends.append(size)
    assert size == len(content)
    path.write_bytes(content[: ends[-11]])
    assert "records are missing from its files: 1,190 pairs read, 10 lost; prepare it again" in refused(list, dataset())
    source = dataset(damaged="skip")
    assert len(list(source)) == 1190 and "10 lost" in source.lost[0]


@pytest.mark.parametrize("damaged", ["error", "skip"])
def test_a_datasets_file_that_changes_or_is_gone(dataset, prepared, damaged):
    path = records(prepared)[1]
    source = dataset(damaged=damaged)
    pairs = iter(source)
    next(pairs)
    grow(path)
    assert refused(list, pairs).startswith(f"{path} has changed since reading began (after pair ")
    assert refused(list, source).startswith(f"{path} has changed since reading began (after pair 0)")
    path.unlink()
    assert refused(list, source).startswith(f"{path} is gone (after pair 0): restore the original")


def test_size_and_time_of_change_of_a_datasets_files_tell_it_from_another(dataset, prepared):
    path, state = records(prepared)[1], dataset().state()
    assert dataset().state() == state
    os.utime(path, ns=(1, 1))
    older = dataset().state()
    grow(path)
    os.utime(path, ns=(1, 1))
    assert state != older != dataset().state()


# -- in the middle of a training ----


def test_what_a_source_raises_comes_out_of_tf_data_as_it_is(packed):
    from tf_transformer.tokenizers import train_tokenizers

    tokenizers = train_tokenizers([(line, line) for line in LINES[:50]], vocab_size=320)
    source = TextFiles(*packed)
    batches = make_batches(source, tokenizers, batch_tokens=200, max_length=100)
    with pytest.raises(UserError, match="has changed since reading began"), original_errors(PAIRS, source):
        for number, _ in enumerate(batches):
            if number == 0:
                grow(packed[1])
    # An error of an earlier pass is not told for another's.
    with pytest.raises(ZeroDivisionError), original_errors(source):
        print(1 / 0)


@pytest.mark.thorough
def test_a_training_needs_its_text_no_more_once_it_is_prepared(tmp_path, monkeypatch):
    """It vanishes in mid-training; what comes after is made from the prepared pairs."""
    from tf_transformer import experiment, load_recipe
    from tf_transformer.experiment import fitting
    from tf_transformer.training import EpochEnds

    class Vanishes(EpochEnds):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if int(self.model.optimizer.iterations) == 10:
                source.unlink()

    monkeypatch.setattr(fitting, "EpochEnds", Vanishes)
    write_pairs(tmp_path)
    source = tmp_path / "train.en"
    source.write_bytes((tmp_path / "pairs.en").read_bytes())
    steps = {"training__steps": 30, "training__validate_every": 10, "data__train": "[train.en, pairs.de]"}
    run = experiment.train(load_recipe(RECIPE, settings(tmp_path, **steps)), tmp_path / "run")
    assert not source.exists()
    assert run.step_checkpoints()[-1].name == "step-00000030.keras"
