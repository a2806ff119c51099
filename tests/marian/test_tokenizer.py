"""The tokenizer of an imported model: SentencePiece's own library and a dictionary say what it must give."""

import json
import subprocess
import sys

import pytest
import sentencepiece
import tensorflow as tf

from tests.marian.folders import marian_ids
from tf_transformer.errors import UserError
from tf_transformer.tokenizers import MarianTokenizer, TokenizerPair
from tf_transformer.tokenizers.base import END_ID, START_ID, UNKNOWN_ID

TEXTS = [
    "A man sees a house.",
    ">>deu<< A man sees a house.",
    ">>nld<<Our dog",
    ">>xyz<< the",
    "the >>deu<< dog",
    "",
    "  a   dog ",
    "Ünheärd 狗 things",
    "ﬁnds ①",
    ">> a << b",
    ">>deu<<",
    "</s> <unk> <pad>",
]


@pytest.fixture(scope="module", params=["joint", "separate"])
def imported(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def tokenizers(imported):
    return imported.run.load_tokenizers()


@pytest.mark.parametrize("side", ["source", "target"])
def test_ids_are_those_of_the_library_and_the_dictionary(imported, tokenizers, side):
    tokenizer = getattr(tokenizers, side)
    vocabulary = (
        "target_vocab.json" if side == "target" and (imported.folder / "target_vocab.json").exists() else "vocab.json"
    )
    theirs = tokenizer.marian_ids
    for text, ids in zip(TEXTS, tokenizer.tokenize(tf.constant(TEXTS)).to_list(), strict=True):
        expected = marian_ids(imported.folder, text, f"{side}.spm", vocabulary)
        assert [theirs[i] for i in [*ids, END_ID]] == expected, text
        assert START_ID not in ids


def test_a_known_tag_is_one_token(joint):
    tokenizer = joint.run.load_tokenizers().source
    (with_tag, without) = tokenizer.tokenize([">>deu<< A man", "A man"]).to_list()
    assert tokenizer.pieces(with_tag[:1]) == [">>deu<<"]
    assert with_tag[1:] == without
    assert tokenizer.tokenize([">>xyz<<"]).to_list() == [[UNKNOWN_ID]]


def test_texts_come_back(tokenizers):
    texts = ["Ein Mann sieht ein Haus.", "Unser Hund findet den grünen Apfel.", ""]
    ids = tokenizers.target.tokenize(tf.constant(texts))
    assert [text.decode() for text in tokenizers.target.detokenize(ids).numpy()] == texts


def test_pieces_of_the_other_language_are_joined_like_its_own(joint):
    """A joint vocabulary lets a model say any of them; SentencePiece's library joins them to the same text."""
    tokenizer = joint.run.load_tokenizers().target
    processor = sentencepiece.SentencePieceProcessor(model_file=str(joint.folder / "target.spm"))
    for text in ("A man sees a house.", "Our dog finds the green apple."):
        ids = joint.run.load_tokenizers().source.tokenize([text])
        expected = processor.decode_pieces(tokenizer.pieces(ids.to_list()[0])).replace("▁", " ").strip()
        assert tokenizer.detokenize(ids).numpy()[0].decode() == expected == text


def test_what_is_unknown_or_special_leaves_no_text(tokenizers):
    (ids,) = tokenizers.target.tokenize(["Ein Mann"]).to_list()
    scattered = [[START_ID, *ids[:1], UNKNOWN_ID, *ids[1:], END_ID, 0, 0]]
    assert tokenizers.target.detokenize(scattered).numpy()[0] == b"Ein Mann"
    with_word = tokenizers.target.detokenize_with(
        tf.constant([[*ids, UNKNOWN_ID]]), tf.constant([[""] * len(ids) + ["狗"]])
    )
    assert with_word.numpy()[0].decode() == "Ein Mann 狗"


def test_each_token_is_of_its_word(joint):
    tokenizer, text = joint.run.load_tokenizers().source, ">>deu<< Our dog finds 狗"
    words, places = tokenizer.words(tf.constant([text]))
    assert [word.decode() for word in words.to_list()[0]] == text.split()
    (ids,) = tokenizer.tokenize([text]).to_list()
    by_word = {}
    for piece, place in zip(tokenizer.pieces(ids), places.numpy()[0], strict=True):
        by_word.setdefault(text.split()[place], []).append(piece)
    joined = {word: "".join(pieces).replace("▁", "") for word, pieces in by_word.items()}
    assert {word: text for word, text in joined.items() if word != "狗"} == {
        word: word for word in [">>deu<<", "Our", "dog", "finds"]
    }


def test_it_is_saved_and_loaded(tokenizers, tmp_path):
    tokenizers.save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.kind == "marian" and not loaded.joint
    for one, other in (tokenizers.source, loaded.source), (tokenizers.target, loaded.target):
        assert one.to_bytes() == other.to_bytes()
        assert one.tokenize(tf.constant(TEXTS)).to_list() == other.tokenize(tf.constant(TEXTS)).to_list()
        assert one.pieces(range(one.vocab_size)) == other.pieces(range(other.vocab_size))


def test_a_damaged_file_is_told():
    for data in b"{", b"[]", b'{"vocabulary": []}', b'{"vocabulary": [], "model": "!"}':
        with pytest.raises(UserError, match="not the tokenizer of an imported"):
            MarianTokenizer.from_bytes(data)
    with pytest.raises(UserError, match="not a SentencePiece model"):
        MarianTokenizer(b"nonsense", ["</s>", "<unk>", "<pad>"])


def test_a_vocabulary_that_can_t_be_is_refused(joint):
    model = (joint.folder / "source.spm").read_bytes()
    with pytest.raises(UserError, match="no padding piece, '<pad>'"):
        MarianTokenizer(model, ["</s>", "<unk>", "▁a"])
    with pytest.raises(UserError, match="a piece twice"):
        MarianTokenizer(model, ["</s>", "<unk>", "<pad>", "▁a", "▁a"])


@pytest.mark.thorough  # as test_pair.py has it of the other kinds
def test_its_graph_works_in_a_process_that_knows_nothing_of_the_package(joint, tmp_path):
    tokenizer = joint.run.load_tokenizers().source
    module = tf.Module()
    module.tokenizer = tokenizer
    there = tf.function(
        lambda texts: tokenizer.tokenize(texts).to_tensor(), input_signature=[tf.TensorSpec([None], tf.string)]
    )
    module.there = there
    tf.saved_model.save(module, str(tmp_path / "saved"))
    code = (
        "import json, sys, tensorflow as tf, tensorflow_text\n"
        "loaded = tf.saved_model.load(sys.argv[1])\n"
        "print(json.dumps(loaded.there(tf.constant(json.loads(sys.argv[2]))).numpy().tolist()))"
    )
    texts = [">>deu<< A man sees", "Our dog"]
    output = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "saved"), json.dumps(texts)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(output.stdout) == tokenizer.tokenize(tf.constant(texts)).to_tensor().numpy().tolist()
