"""Ensembles: against a search in plain Python, and against the models' own log-probabilities in float64."""

import functools
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.decoding import by_hand
from tests.decoding.by_hand import END, LONGEST, ROWS, START, of_row, tokens_of
from tests.decoding.test_fixed_memory import FixedTable
from tf_transformer import (
    Ensemble,
    Perplexity,
    RecurrentModel,
    SmoothedCrossEntropy,
    Transformer,
    TransformerAdam,
    UserError,
    load_model,
)
from tf_transformer.decoding import EnsembleStepper, beam_search, greedy_search, sample

SHIFT = 7  # the second model says of a row what the first one says of the row so many further on
LIMITS = [row % (LONGEST + 1) for row in range(ROWS)]


def shifted(model):
    """The same model of other rows."""

    class Shifted(model):
        def start_cache(self, rows, *arguments):
            return super().start_cache((tf.convert_to_tensor(rows, "int32") + SHIFT) % ROWS, *arguments)

    return Shifted()


class Either(EnsembleStepper):
    """Two tables, which start a cache for any rows."""

    def __init__(self, table):
        super().__init__([table(), shifted(table)])

    def start_cache(self, rows, beams, steps=None):
        more = () if steps is None else (steps,)
        return [stepper.start_cache(rows, beams, *more) for stepper in self.steppers]


def together(row):
    """The mean of the two models' log-probabilities, token by token."""
    both = of_row(row), of_row((row + SHIFT) % ROWS)
    return lambda tokens: [sum(each) / 2 for each in zip(*(one(tokens) for one in both), strict=True)]


@functools.cache
def expected(row, beam_size, alpha, wanted):
    return by_hand.beam(together(row), LIMITS[row], beam_size, alpha, wanted).hypotheses


@pytest.mark.parametrize("steps", [None, LONGEST], ids=["growing", "fixed"])
@pytest.mark.parametrize(
    ("beam_size", "alpha", "wanted"),
    [
        pytest.param(2, 0.0, 1, marks=pytest.mark.thorough),
        (4, 0.6, 4),
        pytest.param(5, 1.0, 2, marks=pytest.mark.thorough),
    ],
)
def test_beam_search_finds_what_plain_python_finds(beam_size, alpha, wanted, steps):
    model = Either(by_hand.TableModel if steps is None else FixedTable)

    @functools.partial(tf.function, autograph=False)
    def search():
        cache = model.start_cache(list(range(ROWS)), beam_size, steps)
        return beam_search(model, cache, LIMITS, START, END, beam_size, alpha, wanted, steps=steps)

    ids, scores, *done = (output.numpy() for output in search())
    assert all(each.all() for each in done)
    for row in range(ROWS):
        found = expected(row, beam_size, alpha, wanted)
        assert [tokens_of(each) for each in ids[row][: len(found)]] == [tokens for _, tokens in found]
        np.testing.assert_allclose(scores[row][: len(found)], [score for score, _ in found], atol=1e-4)
    # No model alone finds the same.
    alone = by_hand.beam(of_row(5), LIMITS[5], beam_size, alpha, wanted).hypotheses
    assert alone != expected(5, beam_size, alpha, wanted)


def test_greedy_search_finds_what_plain_python_finds():
    model = Either(by_hand.TableModel)
    ids, log_probs = greedy_search(model, model.start_cache(list(range(ROWS)), 1), LIMITS, START, END)
    for row in range(ROWS):
        tokens, log_probability = by_hand.greedy(together(row), LIMITS[row])
        assert tokens_of(ids.numpy()[row]) == tokens
        assert log_probs.numpy()[row] == pytest.approx(log_probability, abs=1e-4)


def test_samples_are_drawn_with_the_ensemble_s_probabilities():
    """The sampler is given the means of what the models say of tokens that may be drawn."""
    model, row = Either(by_hand.TableModel), 3
    shares = []

    def note(log_probs, keys, position):
        shares.append(np.exp(log_probs.numpy()))
        return tf.zeros_like(keys, "int32")

    keys = np.zeros(2, "uint32")
    sample(model, model.start_cache([row, row], 1), [1, 1], START, END, note, keys, by_hand.VOCABULARY)
    probabilities = np.exp(together(row)([]))
    np.testing.assert_allclose(shares[0][0], [*sorted(probabilities[1:], reverse=True), 0], atol=1e-6)


SOURCE = np.array([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0], [3, 0, 0, 0, 0]], "int32")


def built(model):
    model.build(((None, None), (None, None)))
    return model


@pytest.fixture(scope="module")
def models():
    """Of other sizes, kinds and most lengths."""
    keras.utils.set_random_seed(3)
    return [
        built(Transformer(2, 16, 4, 32, 23, 23, share_embeddings="all", max_length=32)),
        built(RecurrentModel(2, 8, 23, 23, max_length=24)),
        built(Transformer(1, 8, 2, 16, 23, 23, norm_first=True, max_length=40)),
    ]


def test_a_token_has_the_mean_of_its_log_probabilities(models):
    """All but padding, which has what they leave, so that all of them are a distribution."""
    target = np.array([[2, 7, 8], [2, 9, 0], [2, 4, 4]])
    mean = np.mean([by_hand.log_softmax(model((SOURCE, target))) for model in models], axis=0)
    found = Ensemble(models)((SOURCE, target)).numpy()
    np.testing.assert_allclose(found[..., 1:], mean[..., 1:], rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.exp(found.astype("float64")).sum(axis=-1), 1, atol=1e-6)
    assert Ensemble(models).max_length == 24


def test_its_steps_equal_the_whole(models):
    ensemble = Ensemble(models)
    by_hand.check_hypotheses_when_settled(ensemble, ensemble.stepper(), SOURCE, steps=8, beams=3)


def test_order_does_not_matter(models):
    inputs = SOURCE, np.array([[2, 7, 8]] * 3)
    some, others = (Ensemble(each)(inputs) for each in (models, models[::-1]))
    np.testing.assert_allclose(some, others, rtol=0, atol=1e-5)


def test_a_model_with_itself_is_that_model(models):
    inputs = SOURCE, np.array([[2, 7, 8]] * 3)
    for model in models:
        np.testing.assert_allclose(
            Ensemble([model, model])(inputs)[..., 1:], by_hand.log_softmax(model(inputs))[..., 1:], rtol=0, atol=1e-5
        )


def test_what_is_worked_out_from_the_weights_can_be_held(models):
    """What stands in the place of a model's own changes that model's share."""
    ensemble = Ensemble(models)
    seen, ids = np.ones((3, 1, 1), bool), np.full(3, 2)

    def first(stepper):
        return stepper.step(ids, 0, stepper.start_cache(SOURCE), seen)[0].numpy()

    stepper = ensemble.stepper()
    before, held = first(stepper), stepper.derived
    assert len(held) == sum(len(model.stepper().derived) for model in models)
    stepper.derived = [each * 0 for each in held]
    for part in stepper.steppers:
        assert not any(np.any(each) for each in part.derived)
    stepper.derived = held
    np.testing.assert_array_equal(first(stepper), before)


def test_attention_is_one_layer_a_model(models):
    target = np.array([[2, 7, 8]] * 3)
    _, scores = Ensemble(models)((SOURCE, target), return_attention_scores=True)
    assert list(scores) == ["cross"]  # the recurrent model has no other
    for found, model in zip(scores["cross"], models, strict=True):
        _, own = model((SOURCE, target), return_attention_scores=True)
        heads = np.concatenate(own["cross"], axis=1)
        np.testing.assert_allclose(found[:, 0], heads.mean(axis=1), rtol=0, atol=1e-6)


def test_it_is_saved_as_any_keras_model(models, tmp_path):
    ensemble = built(Ensemble(models[1:]))
    ensemble.save(tmp_path / "ensemble.keras")
    inputs = SOURCE, np.array([[2, 7, 8]] * 3)
    np.testing.assert_array_equal(keras.saving.load_model(tmp_path / "ensemble.keras")(inputs), ensemble(inputs))


@pytest.mark.parametrize("earlier", [False, True], ids=["file", "file of an earlier version"])
def test_models_that_were_compiled_are_loaded_without_the_classes_for_training(earlier, tmp_path, monkeypatch):
    """Which a new process has not imported. What an optimizer has learned is in the file, and left there."""
    trained = [built(Transformer(1, 8, 2, 16, 23, 23)) for _ in range(2)]
    for model in trained:
        model.compile(TransformerAdam(1e-3), SmoothedCrossEntropy(), metrics=[Perplexity()], jit_compile=False)
        model.optimizer.build(model.trainable_variables)
    with monkeypatch.context() as before:
        if earlier:
            before.setattr("tf_transformer.models.ensemble._uncompiled", lambda config: config)
        ensemble = built(Ensemble(trained))
        ensemble.save(tmp_path / "ensemble.keras")
    for name in ("TransformerAdam", "SmoothedCrossEntropy", "Perplexity"):
        monkeypatch.delitem(keras.saving.get_custom_objects(), f"tf_transformer>{name}")
    loaded = load_model(tmp_path / "ensemble.keras")
    inputs = SOURCE, np.array([[2, 7, 8]] * 3)
    np.testing.assert_array_equal(loaded(inputs), ensemble(inputs))
    assert not any(model.compiled for model in loaded.models)


def test_keras_s_own_export_takes_ids_of_any_length(models, tmp_path):
    ensemble = Ensemble(models[1:])
    first = SOURCE[:2], np.array([[2, 7]] * 2)
    ensemble(first)
    ensemble.export(tmp_path / "ensemble", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "ensemble")
    inputs = SOURCE, np.array([[2, 7, 9, 8]] * 3, "int32")
    np.testing.assert_allclose(loaded.serve(inputs), ensemble(inputs), rtol=0, atol=1e-5)


def test_of_models_that_are_built_it_is_built(tmp_path):
    """So that Keras saves it without a warning that weights may be missing, and exports it."""
    trained = [built(Transformer(1, 8, 2, 16, 23, 23)) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        Ensemble(trained).save(tmp_path / "ensemble.keras")
    loaded = load_model(tmp_path / "ensemble.keras")
    assert loaded.built
    inputs = SOURCE, np.array([[2, 7]] * 3)
    np.testing.assert_array_equal(loaded(inputs), Ensemble(trained)(inputs))
    assert not Ensemble([trained[0], Transformer(1, 8, 2, 16, 23, 23)]).built


def test_ids_may_come_as_floats():
    """Of which bfloat16 has no 257."""
    half = [Transformer(1, 8, 2, 16, 300, 300, dtype="mixed_bfloat16") for _ in range(2)]
    inputs = np.array([[257, 299, 3]]), np.array([[2, 271]])
    ensemble = Ensemble(half)
    np.testing.assert_array_equal(ensemble(inputs), ensemble(tuple(ids.astype("float32") for ids in inputs)))


def test_to_quantize_and_what_is_no_pair_are_refused(models):
    ensemble = built(Ensemble(models))
    with pytest.raises(UserError, match="Keras can't quantize a model of this package"):
        ensemble.quantize("int8")
    with pytest.raises(UserError, match="^an Ensemble reads one pair of integer arrays"):
        ensemble(SOURCE, SOURCE)


def test_models_that_do_not_fit(models):
    with pytest.raises(UserError, match="an ensemble of 1 models; give two or more"):
        Ensemble(models[:1])
    other = Transformer(1, 8, 2, 16, 23, 24)
    with pytest.raises(UserError, match=r"target_vocab_size is 24 for models\[1\], but 23 for models\[0\]"):
        Ensemble([models[0], other])
    half = Transformer(1, 8, 2, 16, 23, 23, dtype="mixed_bfloat16")
    with pytest.raises(UserError, match=r"dtype_policy is mixed_bfloat16 for models\[1\], but float32 for models\[0\]"):
        Ensemble([models[0], half])
