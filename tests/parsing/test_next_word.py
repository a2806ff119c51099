"""A parser whose decoder is told which word comes next, or the state of the tree, from its recipe to its SavedModel."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from tests.parsing.random_parser import SENTENCES, assert_scores_are_those_of_the_trees, make_parser
from tests.recipe.recipes import DEMO, refusal
from tests.translation.conftest import with_nothing_but
from tf_transformer import UserError
from tf_transformer.export import export_ctranslate2, export_saved_model
from tf_transformer.layers.next_word import NO_WORD
from tf_transformer.parsing import read_tree
from tf_transformer.tokenizers.base import END_ID

RECIPE = DEMO.parent / "parsing_demo.yaml"
TEXTS = [sentence for sentence, _ in SENTENCES]


@pytest.fixture(scope="module", params=[pytest.param("next_word", marks=pytest.mark.thorough), "tree_state"])
def told(request):
    return request.param


@pytest.fixture(scope="module")
def parser(told):
    """Of random weights; its beams move about."""
    return make_parser(seed=1, told=told, beam_size=3, extra_length=12)


def test_a_score_is_that_of_the_tree(parser):
    """A search step by step, among hypotheses of as many words or not, against one pass over the tree it found."""
    assert_scores_are_those_of_the_trees(parser)


def test_words_of_any_kind_have_a_tree(parser):
    """Where a word's pieces and its blanks don't agree, as at a blank of another kind, there is still a tree."""
    texts = ["a\u2009b c", "\u200b d", "XX ▁ ▁▁", "-LRB- ( )", ""]
    for text, tree in zip(texts, parser.parse(texts)["tree"].numpy(), strict=True):
        words = text.replace("(", "-LRB-").replace(")", "-RRB-").split()
        assert (read_tree(tree.decode()).words() if words else []) == words


# A blank, or nothing at all, is in the normal form of each of these.
ODD = [
    "5´",
    "don´t",
    "a\u200bb",
    "\u200b",
    "\ufeff",
    "\u2009",
    "ﷺ",
    "▁",
    "▁▁",
    "a▁b",
    "\x07",
    "\ufffd",
    "\udcff",
    "b▁\udcffc",
]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([*ODD, "cat", "´", "\u0301"]) | st.text("ab´\u0301\u200b\ufeff▁\u3000", min_size=1)))
@example(ODD)
def test_a_word_is_one_to_the_decoder_whatever_its_normal_form(parser, words):
    source, told = parser.tokenizers.source, parser.model.told
    text = " ".join(words).encode(errors="surrogateescape")
    ids = [*source.tokenize([text]).to_list()[0], END_ID]
    places = told.word_index(np.array([ids])).numpy()[0]
    assert places[places != NO_WORD].tolist() == list(range(len(words) + 1))
    of_words = np.split(ids, np.flatnonzero(places != NO_WORD)[1:])
    as_ever = SentencePieceProcessor(model_proto=source.to_bytes())
    for word, pieces in zip(text.split(b" ") if words else [], of_words[: len(words)], strict=True):
        normal = as_ever.normalize(word).decode().lstrip("▁")
        if normal and "▁" not in normal:
            assert pieces.tolist() == as_ever.encode(word)


def test_its_files_hold_it(parser, told, tmp_path):
    parser.model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.get_config() == parser.model.get_config()
    with pytest.raises(UserError, match=f"does not support model.{told}"):
        export_ctranslate2(parser.model, parser.tokenizers, tmp_path / "ct2")


@pytest.mark.thorough  # as tests/export/test_saved_model.py has it of one that is told the tree's state
def test_its_export_holds_it(parser, tmp_path):
    """It can do nothing but parse, which takes less time than all signatures."""
    folder = export_saved_model(with_nothing_but(parser, "parse"), tmp_path / "parser")
    loaded = tf.saved_model.load(folder).signatures["parse"](text=tf.constant(TEXTS))
    np.testing.assert_array_equal(loaded["tree"], parser.parse(TEXTS)["tree"])


def test_recipes_that_can_t_have_it_or_tags():
    assert "only trees tell" in refusal(DEMO, "model.next_word=true")
    assert "only the words of trees have tags" in refusal(DEMO, "data.tags=true")
    assert "writes no trees" in refusal(DEMO, "model.tree_state=true")
    assert "a translation is not a tree" in refusal(DEMO, "model.tree_loss=0.5")
    assert "0 without model.tree_state" in refusal(RECIPE, "model.tree_loss=0.5")
    for key in "next_word", "tree_state":
        message = refusal(RECIPE, f"model.{key}=true", "tokenizer.kind=wordpiece")
        assert f"model.{key} is true" in message and "splits words at punctuation" in message
    assert "which includes it" in refusal(RECIPE, "model.next_word=true", "model.tree_state=true")
