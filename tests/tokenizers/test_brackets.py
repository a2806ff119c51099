"""The closed vocabulary of linearised trees, and a pair of tokenizers of two kinds."""

import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.errors import UserError
from tf_transformer.tokenizers import UNKNOWN_ID, BracketTokenizer, TokenizerPair
from tf_transformer.tokenizers.training import train_parsing_tokenizers

LABELS = ["S", "SBAR", "NP", "X-Y", "Ä", "#"]
TREES = [
    ("A dog sleeps .", "(S (NP XX XX )NP (VP XX )VP XX )S"),
    ("What it sees -LRB- !", "(SBAR (WHNP XX )WHNP (S (NP XX )NP (VP XX )VP )S XX XX )SBAR"),
]


@pytest.fixture(scope="module")
def tokenizer():
    return BracketTokenizer(LABELS)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["XX", *(bracket + label for label in LABELS for bracket in "()")])))
def test_a_tree_comes_back_as_it_was(tokenizer, tokens):
    text = " ".join(tokens)
    ids = tokenizer.tokenize([text])
    assert ids.row_lengths().numpy().tolist() == [len(tokens)]  # one each
    assert tokenizer.detokenize(ids).numpy()[0].decode() == text
    assert tokenizer.pieces(ids.to_list()[0]) == tokens


@pytest.mark.parametrize("token", ["(SB", "(SX", "S", "(", ")", "XXX", "X", "##S", "[PAD]", "[END]", "[UNK]", "(S)S"])
def test_what_is_no_token_is_one_unknown(tokenizer, token):
    ids = tokenizer.tokenize([f"XX {token}", token])
    assert ids.to_list() == [[4, UNKNOWN_ID], [UNKNOWN_ID]]
    assert tokenizer.detokenize(ids).numpy().tolist() == [b"XX [UNK]", b"[UNK]"]


def test_each_bracket_knows_its_label(tokenizer):
    for bracket, numbers in ("(", tokenizer.opens), (")", tokenizer.closes):
        assert len(numbers) == tokenizer.vocab_size
        for token, number in zip(tokenizer.pieces(range(tokenizer.vocab_size)), numbers, strict=True):
            assert token == bracket + LABELS[number - 1] if number else token[0] != bracket


@pytest.mark.parametrize(
    ("labels", "problem"), [(["S", "S"], "twice"), (["S", ""], "''"), (["N P"], "'N P'"), (["(S"], "'(S'")]
)
def test_labels_that_can_not_be(labels, problem):
    with pytest.raises(UserError, match=problem.replace("(", r"\(")):
        BracketTokenizer(labels)


@pytest.mark.parametrize(
    ("tags", "problem"), [(["NN", "NN"], "twice"), ([""], "''"), (["N N"], "'N N'"), (["[NN]"], r"'\[NN\]'")]
)
def test_tags_that_can_not_be(tags, problem):
    with pytest.raises(UserError, match=problem):
        BracketTokenizer(LABELS, tags)


def test_a_word_may_be_written_as_its_tag():
    trees = ["(S (NP DT NN )NP (VP VBZ )VP . )S", "(NP -LRB- NN `` )NP"]
    tokenizer = BracketTokenizer.of_trees(trees)
    assert tokenizer.tags == ["-LRB-", ".", "DT", "NN", "VBZ", "``"]
    again = BracketTokenizer.from_bytes(tokenizer.to_bytes())
    assert (again.labels, again.vocabulary) == (tokenizer.labels, tokenizer.vocabulary)
    assert [text.decode() for text in again.detokenize(again.tokenize(trees)).numpy()] == trees
    pieces = np.array(again.pieces(range(again.vocab_size)))
    assert pieces[again.stands_for_word].tolist() == again.tags
    assert pieces[np.array(again.opens) > 0].tolist() == ["(NP", "(S", "(VP"]
    assert again.tokenize(["XX"]).to_list() == [[UNKNOWN_ID]]


def test_a_pair_of_two_kinds_is_read_as_it_was_written(tmp_path):
    pair = train_parsing_tokenizers(TREES, "wordpiece", 48)
    assert pair.target.labels == ["NP", "S", "SBAR", "VP", "WHNP"]
    assert not pair.joint
    pair.save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    for side, text in ("source", "A dog sees !"), ("target", TREES[1][1]):
        one, other = getattr(pair, side), getattr(loaded, side)
        assert type(one) is type(other)
        np.testing.assert_array_equal(one.tokenize([text]).to_list(), other.tokenize([text]).to_list())
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / "SHA256SUMS").read_bytes() == (tmp_path / "SHA256SUMS").read_bytes()
    assert (loaded.kind, loaded.target_kind) == ("wordpiece", "brackets")


@pytest.mark.parametrize("change", [{"target_kind": "none"}, {"kind": "brackets"}, {"target_kind": []}])
def test_a_pair_of_kinds_that_are_none(tmp_path, change):
    train_parsing_tokenizers(TREES, "wordpiece", 48).save(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()
    description = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(description | change))
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        TokenizerPair.load(tmp_path)


def test_it_goes_along_in_a_saved_model(tmp_path):
    module = tf.Module()
    module.tokenizer = BracketTokenizer(LABELS)
    module.ids = tf.function(
        lambda texts: module.tokenizer.tokenize(texts).to_tensor(), [tf.TensorSpec([None], tf.string)]
    )
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert loaded.ids(tf.constant(["(SBAR XX )SBAR", ""])).numpy().tolist() == [[7, 4, 8], [0, 0, 0]]
