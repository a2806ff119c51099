"""Graphs end with what they were made for: TensorFlow's registry of gradients would keep them for ever.

`benchmarks/memory.py` looks at the memory itself.
"""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_transformer as tt
from tf_transformer import make_strategy
from tf_transformer.training import TransformerAdam


def living_graphs():
    gc.collect()
    return sum(issubclass(type(thing), tf.Graph) for thing in gc.get_objects())


def assert_no_graph_stays(once):
    before = living_graphs()
    once()
    assert living_graphs() == before


def batch():
    ids = np.random.default_rng(0).integers(1, 20, (4, 6)).astype("int32")
    return (ids, ids), ids


def train(distribution="single", optimizer=lambda: TransformerAdam(0.001), metrics=None, dtype=None):
    with make_strategy(distribution).scope():
        model = tt.Transformer(1, 8, 2, 8, 20, 20, max_length=8, dtype=dtype)
        model.compile(
            optimizer(), tt.SmoothedCrossEntropy(0.1), metrics=metrics or [tt.Perplexity()], jit_compile=False
        )
    model.fit(tf.data.Dataset.from_tensors(batch()), verbose=0, shuffle=False)


@pytest.fixture(scope="module", autouse=True)
def shared_graphs():
    """Those that all models share come to stay with the first one; tests look at what the next one leaves."""
    train()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"optimizer": lambda: keras.optimizers.Adam(0.001)}, marks=pytest.mark.slow),
        pytest.param(
            {"distribution": "mirrored", "optimizer": lambda: TransformerAdam(0.001, clip_norm=1.0)},
            marks=pytest.mark.thorough,
        ),
        {"metrics": ["sparse_categorical_accuracy"]},  # of logits, so that the loss is worked out over them
        pytest.param({"dtype": "mixed_float16"}, marks=pytest.mark.slow),
    ],
    ids=["Keras's Adam", "two devices", "over logits", "float16"],
)
def test_of_training(options):
    assert_no_graph_stays(lambda: train(**options))


def test_of_translating(tiny_run_directory):
    model, tokenizers = tt.load_model(tiny_run_directory.path), tiny_run_directory.load_tokenizers()
    assert_no_graph_stays(lambda: tt.Translator(model, tokenizers).translate(["A man sees a house."]))


def test_of_a_loaded_export(tiny_saved_model):
    """Its graphs have no gradients of this package's, which each load would enter in the registry."""
    assert_no_graph_stays(lambda: tf.saved_model.load(str(tiny_saved_model)).signatures["translate"])
    text = (tiny_saved_model / "saved_model.pb").read_bytes()
    assert b"_gradient_op_type" not in text and b"CustomGradient" not in text


def test_variables_have_the_same_names_in_each_model():
    """TensorFlow keeps some 30 kB for each name that a variable ever had."""

    def names():
        model = tt.Transformer(1, 8, 2, 8, 20, 20)
        model.build(((None, None), (None, None)))
        optimizer = TransformerAdam(0.001)
        optimizer.build(model.trainable_variables)
        return [variable.value.name for variable in (*model.weights, *optimizer.variables)]

    assert names() == names()
