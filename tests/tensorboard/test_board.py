"""The callback: what it writes, and when."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.errors import UserError
from tf_transformer.tensorboard import AttentionBoard
from tf_transformer.tensorboard.events import Index


def model_after(updates=0):
    """A model in training, as far as the callback looks at it."""
    return SimpleNamespace(optimizer=SimpleNamespace(iterations=updates))


def attend(texts):
    """As a model does it that says each word again, and attends to nothing else; it says nothing to a blank text."""
    texts = tf.constant(texts)
    tokens = [text.split() for text in texts.numpy()]
    length = len(tokens[0])
    weights = tf.eye(length)[None, None, None]
    return {
        "translation": texts,
        "source_tokens": tf.constant(tokens, tf.string, shape=[1, length]),
        "target_tokens": tf.constant(tokens, tf.string, shape=[1, length]),
        **{f"{kind}_attention": weights for kind in ("encoder", "decoder", "cross")},
        "alignment": tf.range(length)[None],
        "truncated": tf.constant([False]),
    }


@pytest.mark.parametrize(("every", "steps"), [(1, [10, 20, 30]), (2, [10, 30]), (9, [10])])
def test_it_writes_at_the_first_epoch_and_every_so_many_after(tmp_path, every, steps):
    board = AttentionBoard(["a b", ("c", "Verweis"), " "], attend, tmp_path, every)
    for epoch in range(3):
        board.set_model(model_after(10 * (epoch + 1)))
        board.on_epoch_end(epoch)
    index = Index(tmp_path)
    index.refresh()
    assert {tag: list(found) for tag, found in index.places["."].items()} == {"1 a b": steps, "2 c": steps}
    assert index.header(".", "1 a b", 10).reference is None
    assert index.header(".", "2 c", 10).reference == "Verweis"
    np.testing.assert_array_equal(index.layer(".", "1 a b", 10, "cross", 0), [np.eye(2)])
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("every", [0, -1])
def test_every_must_be_a_number_of_epochs(tmp_path, every):
    with pytest.raises(ValueError, match=f"every is {every}; give a whole number of at least 1"):
        AttentionBoard(["a"], attend, tmp_path, every)


def test_one_string_is_not_taken_letter_by_letter(tmp_path):
    with pytest.raises(UserError, match=r"^sentences is one string; give a list of strings"):
        AttentionBoard("a dog", attend, tmp_path)


def test_a_model_that_has_diverged_goes_on_training(tmp_path):
    def diverged(texts):
        output = attend(texts)
        return {**output, "cross_attention": output["cross_attention"] * float("nan")}

    board = AttentionBoard(["a b"], diverged, tmp_path)
    board.set_model(model_after())
    board.on_epoch_end(0)
    assert Index(tmp_path).refresh() == {}


def test_a_long_sentence_has_a_short_name(tmp_path):
    board = AttentionBoard(["a" * 180], attend, tmp_path)
    board.set_model(model_after())
    board.on_epoch_end(0)
    ((name,),) = Index(tmp_path).refresh().values()
    assert name == f"1 {'a' * 180}"[:99] + "…"
