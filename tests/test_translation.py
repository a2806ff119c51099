"""Translating many texts: in order, whatever the batches; and finding what translates."""

import random
import shutil

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_run import PAIRS, tiny_export, tiny_run
from tf_transformer.errors import UserError
from tf_transformer.translation import Translation, load_translate, translate_texts


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    return tiny_export(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def translate(saved_model):
    return load_translate(saved_model)


def shout(texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """A translator into capitals, whose score is the length."""
    length = tf.strings.length(texts, unit="UTF8_CHAR")
    return {
        "translation": tf.strings.upper(texts, encoding="utf-8"),
        "score": -tf.cast(length, tf.float32),
        "truncated": length > 5,
    }


# Nothing that TensorFlow's and Python's capitals disagree on.
TEXT = st.text(st.sampled_from("abcxyzäöü éà \t\n.🐕강"), max_size=12)


@settings(deadline=None, max_examples=50)
@given(st.lists(TEXT, max_size=20), st.integers(1, 25))
def test_every_text_once_in_order_in_batches(texts, batch_size):
    batches = []

    def recording(batch):
        batches.append([text.decode() for text in batch.numpy()])
        return shout(batch)

    translations = list(translate_texts(recording, texts, batch_size))
    assert translations == [Translation(text.upper(), -len(text), len(text) > 5) for text in texts]
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    assert sorted(text for batch in batches for text in batch) == sorted(texts)
    # As few batches as can be, and of like length: no text is longer than one of a later batch.
    assert len(batches) == -(-len(texts) // batch_size)
    lengths = [len(text) for batch in batches for text in batch]
    assert lengths == sorted(lengths)


def test_any_batch_size_gives_the_same(translate):
    shuffled = random.Random(3).sample(PAIRS * 2, 2 * len(PAIRS))
    texts = [text for source, _ in shuffled for text in (source, source[:5], "")]
    whole = list(translate_texts(translate, texts, 1000))
    assert [translation.text for translation in whole[::3]] == [target for _, target in shuffled]
    assert {translation.text for translation in whole[2::3]} == {""}
    for batch_size in (1, 7):
        some = list(translate_texts(translate, texts, batch_size))
        assert [(t.text, t.truncated) for t in some] == [(t.text, t.truncated) for t in whole]
        assert [t.score for t in some] == pytest.approx([t.score for t in whole], abs=1e-4)


def test_a_run_and_its_export_translate_alike(run, translate):
    texts = [PAIRS[0][0], "A man", "", "the " * 100]
    from_run, from_export = (
        list(translate_texts(function, texts)) for function in (load_translate(run.path), translate)
    )
    assert from_run[0].text == PAIRS[0][1]
    assert [t.truncated for t in from_run] == [False, False, False, True]
    assert [t._replace(score=0) for t in from_run] == [t._replace(score=0) for t in from_export]
    assert [t.score for t in from_run] == pytest.approx([t.score for t in from_export], abs=1e-4)


def fails(path) -> str:
    """The message of `load_translate`, one line of it, which names the path."""
    with pytest.raises(UserError) as raised:
        load_translate(path)
    message = str(raised.value)
    assert "\n" not in message
    assert message.startswith(f"{path}")
    return message


def test_what_is_no_model(tmp_path, saved_model):
    assert "neither a run nor a SavedModel (no such folder)" in fails(tmp_path / "none")
    assert fails(tmp_path).endswith("neither a run nor a SavedModel; give the folder of one")
    assert "neither a run nor a SavedModel" in fails(saved_model / "saved_model.pb")


def test_a_folder_of_versions_is_told_with_the_newest(tmp_path):
    for name in ("9", "10", "11-broken", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()
    (tmp_path / "12").mkdir()  # holds none
    assert fails(tmp_path).endswith(f"give one of its versions, such as {tmp_path / '10'}")


def test_a_saved_model_of_something_else(tmp_path):
    module = tf.Module()
    module.double = tf.function(lambda x: x * 2, input_signature=[tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "doubler"))
    assert "without the signature translate" in fails(tmp_path / "doubler")


@pytest.mark.parametrize("kept", [0, 0.5])
def test_a_damaged_saved_model(saved_model, tmp_path, kept):
    damaged = tmp_path / "damaged"
    shutil.copytree(saved_model, damaged)
    graph = (saved_model / "saved_model.pb").read_bytes()
    (damaged / "saved_model.pb").write_bytes(graph[: int(kept * len(graph))])
    assert "export it again" in fails(damaged)


def test_a_run_without_a_checkpoint_or_a_tokenizer(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    (copy / "tokenizer" / "tokenizer.json").unlink()
    assert "tokenizer.json" in fails(copy)
    shutil.rmtree(copy / "checkpoints")
    assert "no checkpoint yet" in fails(copy)
