"""What Keras's own calls do to a Transformer (export, save, clone, quantize), what is no pair, NumPy's numbers."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.eager import eagerly
from tf_transformer import SmoothedCrossEntropy, Transformer, TransformerAdam
from tf_transformer.errors import UserError

VOCABULARY = 300  # of which bfloat16 has no odd number above 256
random = np.random.default_rng(0)
SOURCE, TARGET, LABELS = (random.integers(200, VOCABULARY, (3, length)).astype("int32") for length in (6, 5, 5))

SIZES = {"num_layers": 1, "d_model": 8, "num_heads": 2, "dff": 12, "max_length": 9}
SIZES |= {"input_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY}


def small(**changes):
    return Transformer(**{**SIZES, "dropout_rate": 0.0, **changes})


def fitted(**changes):
    """A model that has been nothing but compiled and fitted."""
    model = small(**changes)
    model.compile(TransformerAdam(0.01), SmoothedCrossEntropy(0.1), run_eagerly=True)
    model.fit((SOURCE, TARGET), LABELS, verbose=0)
    return model


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module", params=["float32", pytest.param("mixed_bfloat16", marks=pytest.mark.thorough)])
def exported(request, tmp_path_factory):
    """What `compile`, `fit` and `export` write, and what they wrote it of."""
    model, path = fitted(dtype=request.param), tmp_path_factory.mktemp("exported")
    model.export(path, verbose=False)
    return model, tf.saved_model.load(path)


@pytest.mark.parametrize(("source_length", "target_length"), [(6, 5), (4, 9), (1, 1)])
def test_what_export_writes_gives_the_models_logits(exported, source_length, target_length):
    """Of sentences of other lengths than were seen before, too."""
    model, loaded = exported
    source = random.integers(0, VOCABULARY, (2, source_length)).astype("int32")
    target = random.integers(0, VOCABULARY, (2, target_length)).astype("int32")
    logits = loaded.serve((source, target))
    assert logits.shape == (2, target_length, VOCABULARY)
    near = {"rtol": 0, "atol": 1e-5 if model.compute_dtype == "float32" else 0.05}
    np.testing.assert_allclose(tf.cast(logits, "float32"), tf.cast(model((source, target)), "float32"), **near)
    by_name = loaded.signatures["serving_default"](source_ids=tf.constant(source), target_ids=tf.constant(target))
    np.testing.assert_array_equal(*(tf.cast(each, "float32") for each in (by_name["output_0"], logits)))


def test_too_long_a_sentence_is_told_in_what_export_writes(exported):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[10\] \[tokens is longer than the 9 positions"):
        exported[1].serve((np.ones((1, 3), "int32"), np.ones((1, 10), "int32")))


def test_a_file_keeps_what_was_compiled_and_how_many_parts_a_batch_is_worked_on_in(tmp_path):
    model = fitted()
    model.gradient_accumulation, model.parallel_parts = 3, 2
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert (loaded.gradient_accumulation, loaded.parallel_parts) == (3, 2)
    assert loaded.loss.label_smoothing == 0.1
    for each in model, loaded:
        each.gradient_accumulation = each.parallel_parts = 1
        with eagerly():
            each.train_on_batch((SOURCE, TARGET), LABELS)
        assert int(each.optimizer.iterations) == 2
    for one, other in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_a_file_without_what_was_compiled_has_no_parts(tmp_path):
    model = small()
    model((SOURCE, TARGET))
    model.save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").gradient_accumulation == 1


def test_a_clone_is_a_model_of_the_same_sizes(model):
    clone = keras.models.clone_model(model)
    assert clone((SOURCE, TARGET)).shape == (3, 5, VOCABULARY)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone((SOURCE, TARGET)), model((SOURCE, TARGET)))


def test_the_summary_counts_all_weights(model):
    lines = []
    model.summary(print_fn=lines.append)
    assert f"Trainable params: {model.count_params():,}" in "\n".join(lines)


def test_to_quantize_is_refused_and_told_what_can():
    model = small()
    model.build(((None, None), (None, None)))
    before = model.get_weights()
    told = 'Keras can\'t quantize a model of this package.*export_ctranslate2 with quantization="int8" can'
    with pytest.raises(UserError, match=told):
        model.quantize("int8")
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(UserError, match="dtype can't be int8_from_float32: Keras can't quantize"):
        small(dtype="int8_from_float32")


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize(
    "inputs",
    [(SOURCE, TARGET), (SOURCE,), ((SOURCE, TARGET, LABELS),), ({"source": SOURCE},), ((SOURCE, TARGET), LABELS)],
    ids=["two arguments", "one array", "three", "a dictionary", "a pair and more"],
)
def test_what_is_no_pair_is_told_so(inputs, built, model):
    with pytest.raises(UserError, match=r"^a Transformer reads one pair.*, model\(\(source_ids, target_ids\)\)"):
        (model if built else small())(*inputs)


def test_fit_and_predict_tell_what_is_no_pair(model):
    with pytest.raises(UserError, match="reads one pair"):
        model.fit(SOURCE, LABELS, verbose=0)
    with pytest.raises(UserError, match="reads one pair"):
        model.predict(SOURCE, verbose=0)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_ids_may_come_as_floats(dtype):
    """As those of a `keras.Input` do of which no dtype is told; the model's precision has not all of them."""
    model = small(dtype=dtype)
    model((SOURCE, TARGET))
    context = model.encoder(SOURCE)
    calls = [
        lambda source, target: model((source, target)),
        lambda source, target: model.encoder(source),
        lambda source, target: model.decoder(target, context),
        lambda source, target: model.encoder.embedding(source),
    ]
    for call in calls:
        outputs = call(SOURCE, TARGET), call(SOURCE.astype("float32"), TARGET.astype("float32"))
        np.testing.assert_array_equal(*(tf.cast(output, "float32") for output in outputs))


def test_numpy_s_numbers_are_sizes_and_rates(tmp_path):
    sizes = {**SIZES, "key_dim": 3, "value_dim": 5}
    rates = {"dropout_rate": 0.25, "attention_dropout_rate": 0.5, "activation_dropout_rate": 0.125}
    numpys = {name: np.int64(size) for name, size in sizes.items()}
    model = Transformer(**numpys, **{name: np.float32(rate) for name, rate in rates.items()})
    model((SOURCE, TARGET))
    for layer in model._flatten_layers():
        json.dumps(layer.get_config())
    config = model.get_config()
    assert {name: config[name] for name in (*sizes, *rates)} == {**sizes, **rates}
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded((SOURCE, TARGET)), model((SOURCE, TARGET)), atol=1e-6)
    with pytest.raises(ValueError, match="num_layers must be a positive integer"):
        small(num_layers=np.float64(2))
    with pytest.raises(ValueError, match="num_layers must be a positive integer"):
        small(num_layers=np.bool_(True))
