"""Sample translations: what TensorBoard reads of them, and shows."""

import html
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import TENSORS, EventAccumulator
from tensorboard.plugin_util import markdown_to_safe_html

from tf_transformer.tensorboard import SampleTranslations


@pytest.fixture
def model():
    """A model that has taken a step."""
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    model.train_on_batch(np.ones((1, 1)), np.ones(1))
    return model


def cells(row):
    """The texts of a Markdown table's row: what a backslash precedes stands for itself; bold is not looked at."""
    assert row[:2] == "| " and row[-2:] == " |"
    plain = re.sub(r"(?<!\\)\*\*", "", row)
    return [html.unescape(re.sub(r"\\(.)", r"\1", cell.strip())) for cell in re.findall(r"(?:\\.|[^\\|])+", plain)]


def test_samples_can_be_read_in_tensorboard(model, tmp_path):
    pairs = [("A dog | a cat", "Ein Hund\noder 100 %"), ("C:\\x\\|", "<b>*fett*</b> 🐶")]

    def translate(texts):
        return [f"{text} at {int(model.optimizer.iterations)}" for text in texts]

    samples = SampleTranslations(translate, pairs, tmp_path)
    samples.set_model(model)
    for step in (4, 6):
        model.optimizer.iterations.assign(step)
        samples.on_epoch_end(0, {})

    events = EventAccumulator(str(tmp_path), size_guidance={TENSORS: 0}).Reload()
    assert events.SummaryMetadata("translations").plugin_data.plugin_name == "text"
    written = events.Tensors("translations")
    assert [event.step for event in written] == [4, 6]
    for event in written:
        head, rule, *rows = tf.make_ndarray(event.tensor_proto).item().decode().split("\n")
        assert cells(head) == ["source", "reference", "translation"]
        assert cells(rule) == ["---"] * 3
        assert [cells(row) for row in rows] == [
            ["A dog | a cat", "Ein Hund oder 100 %", f"A dog | a cat at {event.step}"],
            ["C:\\x\\|", "<b>*fett*</b> 🐶", f"C:\\x\\| at {event.step}"],
        ]


@pytest.mark.parametrize(
    ("reference", "translation", "marked"),
    [
        ("Ein Hund schläft", "Ein Hund schläft", ("Ein Hund schläft", "Ein Hund schläft")),
        ("Ein Hund schläft", "Ein Kater schläft fest", ("Ein **Hund** schläft", "Ein **Kater** schläft **fest**")),
        ("a b c", "c", ("**a b** c", "c")),
        ("a", "", ("**a**", "")),
        ("**a** <b>", "_a_ <b>", (r"**\*\*a\*\*** &lt;b&gt;", r"**\_a\_** &lt;b&gt;")),
    ],
)
def test_words_that_differ_from_the_reference_are_bold(model, tmp_path, reference, translation, marked):
    samples = SampleTranslations(lambda texts: [translation], [("source", reference)], tmp_path)
    samples.set_model(model)
    samples.on_epoch_end(0, {})
    events = EventAccumulator(str(tmp_path), size_guidance={TENSORS: 0}).Reload()
    text = tf.make_ndarray(events.Tensors("translations")[0].tensor_proto).item().decode()
    assert text.splitlines()[-1] == f"| source | {marked[0]} | {marked[1]} |"


def test_tensorboard_shows_every_character_as_it_is(model, tmp_path):
    text = "<b>x</b> &lt; *a* _b_ `c` [d](e) ~f~ #g 1. h! {i} | \\ +j -k"
    samples = SampleTranslations(lambda texts: [text], [(text, text)], tmp_path)
    samples.set_model(model)
    samples.on_epoch_end(0, {})
    events = EventAccumulator(str(tmp_path), size_guidance={TENSORS: 0}).Reload()
    written = tf.make_ndarray(events.Tensors("translations")[0].tensor_proto).item().decode()
    shown = re.findall(r"<td>(.*?)</td>", markdown_to_safe_html(written))
    assert [html.unescape(each) for each in shown] == [text] * 3
