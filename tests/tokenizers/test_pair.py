"""What holds for every kind: special ids, tf.data, files, and the export in a process of its own."""

import gc
import itertools
import json
import subprocess
import sys
import weakref

import keras
import pytest
import tensorflow as tf

from tests.mistakes import refused
from tests.tokenizers.conftest import JOINT_SIZES, SEPARATE_SIZES
from tf_transformer.tokenizers import END_ID, PAD_ID, START_ID, UNKNOWN_ID, TokenizerPair, train_tokenizers

TEXTS = ["The girl sees a house.", "", "Mein Bruder kauft Äpfel, auch heute!", "  ", "강아지 " * 50]


def test_special_ids(pair):
    assert (PAD_ID, UNKNOWN_ID, START_ID, END_ID) == (0, 1, 2, 3)
    names = [piece.strip("<>[]").lower() for piece in pair.source.pieces(range(4))]
    assert names in (["pad", "unk", "s", "/s"], ["pad", "unk", "start", "end"])


@pytest.mark.parametrize("text", ["<s>", "</s>", "<pad>", "<unk>", "[PAD]", "[START] [END]"])
def test_text_cannot_spell_a_special_piece(pair, text):
    assert not {PAD_ID, START_ID, END_ID} & set(pair.source.tokenize([text]).to_list()[0])


def test_pairs_are_the_same_where_both_sides_are(joint_pairs):
    bpe, unigram = joint_pairs["bpe"].source, joint_pairs["unigram"].source
    pairs = [TokenizerPair(*sides, "bpe") for sides in itertools.product([bpe, unigram], repeat=2)]
    for one, other in itertools.product(pairs, repeat=2):
        assert one.same_as(other) == (one is other)
    assert pairs[0].same_as(joint_pairs["bpe"]) and not pairs[0].same_as(TokenizerPair(bpe, bpe, "unigram"))


def test_special_ids_leave_no_text(pair):
    tokenizer = pair.target
    ids = tokenizer.tokenize(TEXTS)
    plain = tokenizer.detokenize(ids).numpy().tolist()
    framed = [[START_ID, *row[:2], PAD_ID, *row[2:], END_ID, PAD_ID] for row in ids.to_list()]
    framed = tf.ragged.constant(framed, dtype=tf.int32)
    assert tokenizer.detokenize(framed).numpy().tolist() == plain
    assert tokenizer.detokenize(framed.to_tensor()).numpy().tolist() == plain
    assert tokenizer.detokenize(tf.cast(framed.to_tensor(), tf.int64)).numpy().tolist() == plain


def test_rows_of_padding_and_empty_batches(pair):
    tokenizer = pair.target
    assert tokenizer.detokenize(tf.zeros((3, 4), tf.int32)).numpy().tolist() == [b"", b"", b""]
    assert tokenizer.detokenize(tf.zeros((2, 0), tf.int32)).numpy().tolist() == [b"", b""]
    assert tokenizer.detokenize(tf.zeros((0, 4), tf.int32)).shape == (0,)
    none = tokenizer.tokenize(tf.zeros((0,), tf.string))
    assert none.to_list() == []
    assert tokenizer.detokenize(none).shape == (0,)


def test_a_batch_gives_what_each_text_gives_alone(pair):
    ids = pair.source.tokenize(TEXTS)
    assert ids.to_list() == [pair.source.tokenize([text]).to_list()[0] for text in TEXTS]
    assert pair.source.detokenize(ids).numpy().tolist() == [
        pair.source.detokenize([row]).numpy()[0] if row else b"" for row in ids.to_list()
    ]


def test_in_tf_data(pair):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(2).map(pair.source.tokenize)
    rows = [row for batch in dataset for row in batch.to_list()]
    assert rows == pair.source.tokenize(TEXTS).to_list()
    assert dataset.element_spec.dtype == tf.int32


def test_in_a_function_of_any_batch_size(pair):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def there_and_back(texts):
        return pair.target.detokenize(pair.source.tokenize(texts).to_tensor())

    for size in (0, 1, len(TEXTS)):
        texts = tf.constant(TEXTS[:size], tf.string)
        expected = pair.target.detokenize(pair.source.tokenize(texts)).numpy().tolist()
        assert there_and_back(texts).numpy().tolist() == expected


def test_it_survives_what_drops_tensorflow_s_kernels(pair):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def in_a_graph(texts):
        ids = pair.source.tokenize(texts).to_tensor()
        return pair.source.piece_texts(ids), pair.source.detokenize(ids), pair.source.words(texts)[1]

    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(2).map(pair.source.tokenize)
    begun = iter(dataset.repeat())
    next(begun)

    def everything():
        ids = pair.source.tokenize(TEXTS)
        eager = ids.to_list(), pair.source.detokenize(ids).numpy().tolist()
        return eager, [part.numpy().tolist() for part in in_a_graph(TEXTS)], [batch.to_list() for batch in dataset]

    before = everything()
    for clear in (keras.utils.clear_session, lambda: keras.utils.set_random_seed(1)):  # sets TensorFlow's seed too
        clear()
        assert everything() == before
        following = [next(begun).to_list() for _ in before[2]]
        assert following == [*before[2][1:], before[2][0]]


def test_two_tokenizers_of_one_vocabulary_do_not_need_each_other(pair):
    first, second = (type(pair.source).from_bytes(pair.source.to_bytes()) for _ in range(2))
    expected = pair.source.tokenize(TEXTS).to_list()
    assert first.tokenize(TEXTS).to_list() == expected
    del first
    gc.collect()
    assert second.tokenize(TEXTS).to_list() == expected


def test_a_graph_outlives_its_tokenizer(pair):
    tokenizer = type(pair.source).from_bytes(pair.source.to_bytes())
    graph = tf.function(tokenizer.tokenize).get_concrete_function(tf.TensorSpec([None], tf.string))
    gone = weakref.ref(tokenizer)
    del tokenizer
    gc.collect()
    assert gone() is None
    assert graph(tf.constant(TEXTS)).to_list() == pair.source.tokenize(TEXTS).to_list()


@pytest.mark.parametrize("joint", [True, False])
def test_save_and_load(pairs, kind, joint, tmp_path):
    pair = train_tokenizers(pairs, kind, (JOINT_SIZES if joint else SEPARATE_SIZES)[kind], joint)
    pair.save(tmp_path / "new" / "folder")
    loaded = TokenizerPair.load(str(tmp_path / "new" / "folder"))
    assert (loaded.joint, loaded.kind) == (joint, kind)
    assert (loaded.source is loaded.target) == joint
    for before, after in ((pair.source, loaded.source), (pair.target, loaded.target)):
        assert after.to_bytes() == before.to_bytes()
        assert after.tokenize(TEXTS).to_list() == before.tokenize(TEXTS).to_list()
    names = {path.stem for path in (tmp_path / "new" / "folder").iterdir()}
    assert names == {"SHA256SUMS", "tokenizer", *(["joint"] if joint else ["source", "target"])}


def test_a_missing_file_is_named(pair, tmp_path):
    assert str(tmp_path / "none" / "tokenizer.json") in refused(TokenizerPair.load, tmp_path / "none")
    pair.save(tmp_path)
    vocabulary = tmp_path / f"joint{pair.source.file_suffix}"
    vocabulary.unlink()
    assert str(vocabulary) in refused(TokenizerPair.load, tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"kind": "bpe"}', '{"kind": "x", "joint": true}', "\xff"])
def test_a_damaged_description_is_named(pair, tmp_path, content):
    pair.save(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()  # as an earlier version wrote it
    (tmp_path / "tokenizer.json").write_bytes(content.encode("latin-1"))
    assert str(tmp_path / "tokenizer.json") in refused(TokenizerPair.load, tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x00\xffjunk"])
def test_a_damaged_vocabulary_is_named(pair, tmp_path, content):
    pair.save(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()  # as an earlier version wrote it
    vocabulary = tmp_path / f"joint{pair.source.file_suffix}"
    vocabulary.write_bytes(content)
    assert str(vocabulary) in refused(TokenizerPair.load, tmp_path)


class RoundTrip(tf.Module):
    """What an export is: a module that holds tokenizers."""

    def __init__(self, pairs: dict[str, TokenizerPair]) -> None:
        super().__init__()
        self.pairs = pairs

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, texts):
        return {
            kind: pair.target.detokenize(pair.source.tokenize(texts).to_tensor()) for kind, pair in self.pairs.items()
        }


IN_ANOTHER_PROCESS = """
import json, sys
import tensorflow as tf
import tensorflow_text
result = tf.saved_model.load(sys.argv[1])(tf.constant(json.loads(sys.argv[2])))
assert not {"tf_transformer", "sentencepiece"} & set(sys.modules)
print(json.dumps({kind: [text.decode() for text in texts.numpy()] for kind, texts in result.items()}))
"""


@pytest.mark.thorough  # as tests/export/test_saved_model.py has it of exports with a model
def test_an_export_works_in_another_process_without_the_files(joint_pairs, tmp_path):
    loaded = {}
    for kind, pair in joint_pairs.items():
        pair.save(tmp_path / kind)
        loaded[kind] = TokenizerPair.load(tmp_path / kind)
    tf.saved_model.save(RoundTrip(loaded), str(tmp_path / "export"))
    for kind in loaded:
        for path in (tmp_path / kind).iterdir():
            path.unlink()
    (tmp_path / "export").rename(tmp_path / "moved")
    process = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, str(tmp_path / "moved"), json.dumps(TEXTS)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert process.returncode == 0, process.stderr
    normal = ["The girl sees a house.", "", "Mein Bruder kauft Äpfel, auch heute!", "", " ".join(["강아지"] * 50)]
    words = ["The girl sees a house .", "", "Mein Bruder kauft Äpfel , auch heute !", "", " ".join(["[UNK]"] * 50)]
    expected = {"bpe": normal, "unigram": normal, "wordpiece": words}
    assert json.loads(process.stdout) == expected
