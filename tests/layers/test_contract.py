"""What every public layer and the model keep to, one case each, with no argument left at its default."""

import doctest
import functools
import inspect
import json
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest

import tf_transformer.layers
from tests import reference
from tf_transformer import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    NextWord,
    PositionEncoding,
    RecurrentModel,
    Residual,
    TokenEmbedding,
    Transformer,
    TreeState,
)

random = np.random.default_rng(0)


def vectors(length, width=8):
    return random.standard_normal((2, length, width)).astype("float32")


def tokens(length):
    """Two sentences, the second one word shorter."""
    ids = random.integers(1, 20, (2, length)).astype("int32")
    ids[1, -1] = 0
    return ids


@dataclass
class Case:
    """A layer's class, its arguments, inputs for it, and what the shapes of output and scores are."""

    cls: type
    arguments: dict[str, Any]
    inputs: list[np.ndarray]
    output: tuple
    scores: Any = None
    name: str = ""
    one_argument: bool = False

    def make(self, **more):
        return self.cls(**self.arguments, **more)

    def call(self, layer, inputs, **more):
        return layer(tuple(inputs), **more) if self.one_argument else layer(*inputs, **more)

    @functools.cached_property
    def example(self):
        """Such a layer with random weights, for tests that leave it as it is."""
        layer = self.make(name="somebody", dtype="float32")
        self.call(layer, self.inputs)
        return reference.randomise(layer)

    @functools.cached_property
    def example_output(self):
        return self.call(self.example, self.inputs).numpy()

    def like_the_example(self, layer):
        """Gives a layer the example's weights."""
        self.call(layer, self.inputs)
        layer.set_weights(self.example.get_weights())
        return layer

    def model(self, layer):
        """A functional model that is the layer alone, for any batch size and lengths."""
        inputs = [keras.Input((None, *x.shape[2:]), dtype=str(x.dtype)) for x in self.inputs]
        return keras.Model(inputs, self.call(layer, inputs))


HEADS = {"num_heads": 2, "key_dim": 3, "value_dim": 5}
RATES = {"dropout_rate": 0.2, "attention_dropout_rate": 0.3, "activation_dropout_rate": 0.4}
LAYER = {"d_model": 8, **HEADS, "dff": 16, **RATES, "norm_first": True, "activation": "gelu", "norm_epsilon": 1e-5}
BRACKETS = {"opening_brackets": [11, 13], "closing_brackets": [12, 14], "tree_loss": False}
WORDS = list(range(1, 11))  # so many that some are in any source
TREES = np.array([[11, 3, 13, 4], [13, 5, 6, 0]], "int32")
TOLD = {"next_word": None, "tree_state": [WORDS, WORDS, [11, 13], [12, 14]], "tree_loss": 0.0, "decoder_layers": 2}
STACK = {"num_layers": 1, **LAYER, "position": "learned", "max_length": 9, "scale_embeddings": False}

CASES = [
    Case(
        MultiHeadAttention,
        {"d_model": 6, **HEADS, "attention_dropout_rate": 0.3, "window": None},
        [vectors(4), vectors(5), vectors(5)],
        (2, 4, 6),
        (2, 2, 4, 5),
    ),
    Case(
        MultiHeadAttention,
        {"d_model": 6, **HEADS, "attention_dropout_rate": 0.3, "window": 1},
        [vectors(4), vectors(4), vectors(4)],
        (2, 4, 6),
        (2, 2, 4, 4),
        name="RestrictedAttention",
    ),
    Case(
        FeedForward,
        {"d_model": 8, "dff": 16, "activation_dropout_rate": 0.4, "activation": "swish"},
        [vectors(4)],
        (2, 4, 8),
    ),
    Case(
        Residual, {"dropout_rate": 0.2, "norm_first": False, "norm_epsilon": 1e-5}, [vectors(4), vectors(4)], (2, 4, 8)
    ),
    Case(TokenEmbedding, {"vocab_size": 20, "d_model": 8, "scaled": False}, [tokens(4)], (2, 4, 8)),
    Case(PositionEncoding, {"position": "learned", "max_length": 9}, [vectors(4)], (2, 4, 8)),
    Case(
        PositionEncoding,
        {"position": "sinusoidal_halves", "max_length": 9},
        [vectors(4)],
        (2, 4, 8),
        name="SinusoidalEncoding",
    ),
    Case(EncoderLayer, {**LAYER, "window": 2}, [vectors(4)], (2, 4, 8), (2, 2, 4, 4)),
    Case(DecoderLayer, LAYER, [vectors(4), vectors(5)], (2, 4, 8), [(2, 2, 4, 4), (2, 2, 4, 5)]),
    Case(Encoder, {**STACK, "vocab_size": 20, "window": 2}, [tokens(4)], (2, 4, 8), [(2, 2, 4, 4)]),
    Case(
        Decoder,
        {**STACK, "vocab_size": 20},
        [tokens(4), vectors(5)],
        (2, 4, 8),
        {"self": [(2, 2, 4, 4)], "cross": [(2, 2, 4, 5)]},
    ),
    Case(
        NextWord,
        {"input_vocab_size": 20, "target_vocab_size": 20, "opening": [3, 5, 6, 7, 8], "writing": [4, 9, 10]},
        [tokens(5), tokens(4), vectors(5)],
        (2, 4, 8),
    ),
    Case(
        TreeState,
        {
            "d_model": 8,
            "input_vocab_size": 20,
            "target_vocab_size": 20,
            "opening": WORDS,
            "writing": WORDS,
            **BRACKETS,
        },
        [tokens(5), TREES, vectors(5)],
        (2, 4, 8),
    ),
    Case(
        Transformer,
        {
            **STACK,
            "input_vocab_size": 20,
            "target_vocab_size": 20,
            "share_embeddings": "all",
            "output_bias": True,
            "window": 2,
            **TOLD,
            "alignment_head": (1, 0),
        },
        [tokens(5), TREES],
        (2, 4, 20),
        {"encoder": [(2, 2, 5, 5)], "decoder": 2 * [(2, 2, 4, 4)], "cross": 2 * [(2, 2, 4, 5)]},
        one_argument=True,
    ),
    Case(
        RecurrentModel,
        {
            **{"num_layers": 2, "d_model": 8, "dropout_rate": 0.2, "max_length": 9},
            **{"input_vocab_size": 20, "target_vocab_size": 20, "share_embeddings": "all", "output_bias": True},
        },
        [tokens(5), tokens(4)],
        (2, 4, 20),
        {"cross": [(2, 1, 4, 5)]},
        one_argument=True,
    ),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name or case.cls.__name__)


def test_every_public_layer_has_a_case():
    public = {getattr(tf_transformer, name) for name in tf_transformer.layers.__all__} | {Transformer, RecurrentModel}
    assert {thing for thing in public if inspect.isclass(thing)} == {case.cls for case in CASES}


def shapes_of(scores):
    """The scores with a shape in place of each tensor, a tuple of several as a list."""
    if isinstance(scores, dict):
        return {name: shapes_of(value) for name, value in scores.items()}
    if isinstance(scores, list | tuple):
        return [shapes_of(value) for value in scores]
    return tuple(scores.shape)


@every_case
def test_eager_and_symbolic_calls_have_the_same_shapes(case):
    layer = case.example
    symbolic = [keras.Input(batch_shape=x.shape, dtype=str(x.dtype)) for x in case.inputs]
    for inputs in (symbolic, case.inputs):
        if case.scores is None:
            assert case.call(layer, inputs).shape == case.output
        else:
            output, *scores = case.call(layer, inputs, return_attention_scores=True)
            assert output.shape == case.output
            assert shapes_of(scores if len(scores) > 1 else scores[0]) == case.scores


@pytest.mark.parametrize("case", [case for case in CASES if case.scores], ids=lambda case: case.cls.__name__)
def test_scores_come_only_when_asked_for(case):
    output, *_ = case.call(case.example, case.inputs, return_attention_scores=True)
    np.testing.assert_allclose(case.example_output, output, atol=1e-6)


@every_case
@pytest.mark.filterwarnings("ignore:The model does not have any trainable weights")
def test_in_a_model_of_unknown_lengths_it_is_the_same_and_trains_every_weight(case):
    layer = case.make()
    model = case.model(layer)
    assert model.output_shape == (None, None, case.output[-1])
    reference.randomise(layer)
    np.testing.assert_allclose(model(case.inputs), case.call(layer, case.inputs), atol=1e-6)

    before = {weight.path: weight.numpy() for weight in layer.trainable_weights}
    # The layers' own dropout would make the losses below noise.
    for part in layer._flatten_layers():
        if isinstance(part, keras.layers.Dropout):
            part.rate = 0.0
    target = random.standard_normal(case.output)
    # To trace each takes long; in a graph, test_project_recipes_train.py trains every weight.
    model.compile(keras.optimizers.SGD(0.03), "mse", jit_compile=False, run_eagerly=True)
    losses = [model.train_on_batch(case.inputs, target) for _ in range(2)]
    assert np.isfinite(losses).all()
    if before:
        assert losses[-1] < losses[0]
    for weight in layer.trainable_weights:
        change = np.abs(weight.numpy() - before[weight.path]).max()
        if weight.path.endswith("key/bias"):
            # It adds the same to all logits of a query, which the softmax takes away again.
            assert change < 1e-6, weight.path
        else:
            assert change > 1e-6, weight.path


@every_case
def test_every_argument_is_kept_and_is_in_the_config(case):
    parameters = {}
    for cls in case.cls.__mro__:
        if cls.__module__.startswith("tf_transformer."):
            parameters |= inspect.signature(cls.__init__).parameters
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    names = {name for name, p in parameters.items() if p.kind in named and name != "self"}
    assert names - {"embedding"} == set(case.arguments)
    layer = case.make(name="somebody", dtype="mixed_bfloat16")
    config = layer.get_config()
    for name, value in case.arguments.items():
        assert getattr(layer, name) == value
        assert config[name] == value
    assert names <= set(config)
    assert all(hasattr(layer, name) for name in names)
    assert layer.name == config["name"] == "somebody"
    assert {part.dtype_policy.name for part in case.cls.from_config(config)._flatten_layers()} == {"mixed_bfloat16"}


@every_case
def test_config_round_trip(case):
    config = case.example.get_config()
    twin = case.cls.from_config(json.loads(json.dumps(config)))
    assert twin.get_config() == config
    assert twin.dtype_policy.name == "float32"
    case.like_the_example(twin)
    assert [w.path for w in twin.weights] == [w.path for w in case.example.weights]
    np.testing.assert_allclose(case.call(twin, case.inputs), case.example_output, atol=1e-6)


@every_case
def test_defaults_survive_the_config_round_trip(case):
    parameters = inspect.signature(case.cls.__mro__[0].__init__).parameters
    optional = {name for name, p in parameters.items() if p.default is not p.empty}
    layer = case.cls(**{name: value for name, value in case.arguments.items() if name not in optional})
    assert case.cls.from_config(layer.get_config()).get_config() == layer.get_config()


@pytest.mark.parametrize("cls", [Transformer, RecurrentModel])
def test_keras_file_round_trip(cls, tmp_path):
    (case,) = (case for case in CASES if case.cls is cls)
    model = case.make()
    case.call(model, case.inputs)
    check_file(model, tuple(case.inputs), tmp_path)


def test_keras_file_round_trip_of_layers(tmp_path):
    """Side by side in one model, since a file takes longer than a layer."""
    cases = [case for case in CASES if not issubclass(case.cls, keras.Model)]
    parts = [case.model(case.make()) for case in cases]
    model = keras.Model([each for part in parts for each in part.inputs], [part.output for part in parts])
    check_file(model, [x for case in cases for x in case.inputs], tmp_path)


def check_file(model, inputs, folder):
    reference.randomise(model)
    model.save(folder / "model.keras")
    loaded = keras.saving.load_model(folder / "model.keras")
    outputs = (keras.tree.flatten(each(inputs)) for each in (loaded, model))
    for ours, theirs in zip(*outputs, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert [w.path for w in loaded.weights] == [w.path for w in model.weights]


@every_case
@pytest.mark.parametrize(
    ("policy", "output_dtype", "weight_dtype", "mean_error"),
    [("mixed_bfloat16", "bfloat16", "float32", 0.05), ("float64", "float64", "float64", 1e-6)],
)
def test_precisions(case, policy, output_dtype, weight_dtype, mean_error):
    layer = case.like_the_example(case.make(dtype=policy))
    output = case.call(layer, case.inputs)
    assert output.dtype == output_dtype
    assert {weight.dtype for weight in layer.weights} <= {weight_dtype}
    assert {part.dtype_policy.name for part in layer._flatten_layers()} == {policy}
    assert np.abs(keras.ops.cast(output, "float32") - case.example_output).mean() < mean_error


@every_case
def test_the_layer_is_registered(case):
    name = f"tf_transformer>{case.cls.__name__}"
    assert keras.saving.get_registered_object(name) is case.cls


def test_a_shared_embedding_stays_shared_in_a_keras_file(tmp_path):
    """Of the layers alone, in a model of one's own."""
    embedding = TokenEmbedding(20, 8)
    source, target = keras.Input((5,), dtype="int32"), keras.Input((4,), dtype="int32")
    encoder = Encoder(**STACK, vocab_size=20, embedding=embedding)
    decoder = Decoder(**STACK, vocab_size=20, embedding=embedding)
    model = reference.randomise(keras.Model([source, target], decoder(target, encoder(source))))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert sum(weight.shape == (20, 8) for weight in loaded.weights) == 1
    inputs = [tokens(5), tokens(4)]
    np.testing.assert_allclose(loaded(inputs), model(inputs), atol=1e-6)


def test_every_public_name_has_an_example():
    finder = doctest.DocTestFinder(recurse=False)
    for name in {*tf_transformer.layers.__all__, "Transformer"}:
        (found,) = finder.find(getattr(tf_transformer, name), name)
        assert found.examples, name
