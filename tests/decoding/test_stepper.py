"""The Transformer's steps against its whole passes, and against the NumPy reference."""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.decoding import by_hand
from tf_transformer import Transformer
from tf_transformer.decoding import Stepper

# Unequal lengths; 0 is padding. The target starts with the start token.
SOURCE = np.array([[5, 9, 14, 22, 7, 3], [8, 17, 3, 0, 0, 0], [3, 0, 0, 0, 0, 0]], "int32")
TARGET = np.array([[2, 6, 11, 4, 18, 9], [2, 19, 4, 4, 21, 3], [2, 13, 1, 22, 5, 8]], "int32")


def small(num_layers=1, **changes):
    """A small model with random weights."""
    sizes = {"num_layers": num_layers, "d_model": 32, "num_heads": 4, "dff": 48, "max_length": 12}
    model = Transformer(**sizes, input_vocab_size=23, target_vocab_size=23, **changes)
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


WIDTHS = {"key_dim": 5, "value_dim": 7}
# Every combination of these three, with the heads' own widths, which are unequal, in every other one. In those that
# are quick there is each value with each of another.
OPTIONS = [
    pytest.param(
        {
            "norm_first": norm_first,
            "position": position,
            "share_embeddings": share,
            **(WIDTHS if (norm_first + (position == "learned") + (share == "target")) % 2 else {}),
        },
        marks=[] if (norm_first == (position == "learned")) == (share != "none") else pytest.mark.thorough,
    )
    for norm_first in (False, True)
    for position in ("sinusoidal", "learned")
    for share in ("all", "target", "none")
]
# As MarianMT has them, and each with another that is the paper's.
MARIAN = {"activation": "swish", "norm_epsilon": 1e-3, "position": "sinusoidal_halves", "scale_embeddings": False}
OPTIONS += [
    {**MARIAN, "output_bias": True, "share_embeddings": "all"},
    {**MARIAN, "activation": "gelu", "norm_first": True, "output_bias": True},
    {"activation": "gelu", "output_bias": True, "share_embeddings": "target"},
]


@pytest.fixture(scope="module", params=OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def any_model(request):
    return small(**request.param)


@pytest.fixture(scope="module")
def model():
    return small(num_layers=2, key_dim=5, value_dim=7)


def one_beam(position):
    """The history of a hypothesis that has no others beside it."""
    return np.ones((1, 1, position + 1), bool)


def step_by_step(model, source, target):
    """The logits of all positions, (batch, target_len, vocabulary), worked out one after the other."""
    stepper = Stepper(model)
    cache = stepper.start_cache(source)
    logits = []
    for position in range(target.shape[1]):
        step, cache = stepper.step(target[:, position], position, cache, one_beam(position))
        logits.append(step)
    return tf.stack(logits, axis=1)


def test_steps_equal_the_whole_and_the_reference(any_model):
    got = step_by_step(any_model, SOURCE, TARGET)
    assert got.dtype == "float32"
    np.testing.assert_allclose(got, any_model((SOURCE, TARGET)), rtol=0, atol=1e-5)
    expected, _ = reference.transformer(
        reference.weights_of(any_model),
        SOURCE,
        TARGET,
        num_layers=1,
        num_heads=4,
        norm_first=any_model.norm_first,
        position=any_model.position,
        share_embeddings=any_model.share_embeddings,
        **reference.departures(any_model),
    )
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


def test_each_hypothesis_s_steps_equal_the_whole_of_its_own_tokens(any_model):
    steps, beams = 7, 3
    stepper = Stepper(any_model)
    cache = stepper.start_cache(SOURCE, beams)
    hypotheses = by_hand.Beams(len(SOURCE), beams, seed=0)
    got, targets = [], []
    for position in range(steps):
        ids = hypotheses.tokens[:, :, -1].reshape(-1)
        logits, cache = stepper.step(ids, position, cache, hypotheses.history)
        got.append(logits)
        targets.append(by_hand.padded(hypotheses.tokens.reshape(-1, position + 1), steps))
        hypotheses.go_on()
    by_hand.assert_those_of_whole_passes(any_model, got, SOURCE.repeat(beams, axis=0), targets)


def test_what_a_cache_holds(model):
    """And that rows can leave, or go on in another order, and entries that nothing descends from any more."""
    stepper = Stepper(model)
    cache = stepper.start_cache(SOURCE, beams=2)
    history = np.eye(2, dtype=bool)[None].repeat(3, axis=0)
    first, after = stepper.step(np.full(6, 2), 0, cache, history)
    for layer, grown in zip(cache["layers"], after["layers"], strict=True):
        assert (layer["keys"].shape, layer["values"].shape) == ((3, 4, 0, 5), (3, 4, 0, 7))
        assert (grown["keys"].shape, grown["values"].shape) == ((3, 4, 2, 5), (3, 4, 2, 7))
        assert (layer["context_keys"].shape, layer["context_values"].shape) == ((3, 4, 6, 5), (3, 4, 6, 7))
        assert grown["context_keys"] is layer["context_keys"]

    # Of the last sentence both hypotheses, of the others two that go on from one.
    order, entries = np.array([2, 0, 0, 1], "int32"), np.array([[1, 0], [1, 0], [0, 1], [1, 0]], "int32")
    settled = stepper.settle(after, order, entries)
    for layer in settled["layers"]:
        assert (layer["settled_keys"].shape, layer["settled_values"].shape) == ((4, 4, 2, 5), (4, 4, 2, 7))
        assert (layer["keys"].shape, layer["values"].shape) == ((4, 4, 0, 5), (4, 4, 0, 7))
    tokens = np.array([[4, 5], [6, 7], [8, 9], [10, 11]])
    descent = np.eye(2, dtype=bool)[None, ::-1].repeat(4, axis=0)
    own = np.eye(2, dtype=bool)[None].repeat(4, axis=0)
    logits, _ = stepper.step(tokens.reshape(-1), 1, settled, np.concatenate([descent, own], axis=2))
    targets = np.stack([np.full(8, 2), tokens.reshape(-1)], axis=1)
    whole = model((SOURCE[order].repeat(2, axis=0), targets))
    np.testing.assert_allclose(logits, whole[:, -1], rtol=0, atol=1e-5)
    # A step leaves the cache that it was given alone.
    np.testing.assert_array_equal(stepper.step(np.full(6, 2), 0, cache, history)[0], first)


def test_hypotheses_go_on_as_themselves_when_the_cache_is_settled(model):
    by_hand.check_hypotheses_when_settled(model, Stepper(model), SOURCE, steps=9, beams=3)


SHAPES = {
    "dynamic": ((None, None), (None, None, None), (None, None, None, None)),
    "static": ((3, 6), (6, 3, 4), (6, 3, 4, 24)),
}


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize(
    "shapes",
    [SHAPES["dynamic"], pytest.param(SHAPES["static"], marks=pytest.mark.thorough)],
    ids=["dynamic", "static"],
)
def test_steps_in_a_compiled_loop_equal_the_whole(model, shapes):
    """Unless all axes are known beforehand, none is; nor is the position."""
    source_shape, ids_shape, histories_shape = shapes
    signature = (
        tf.TensorSpec(source_shape, "int32"),
        tf.TensorSpec(ids_shape, "int32"),
        tf.TensorSpec(histories_shape, "bool"),
    )

    @tf.function(autograph=False, input_signature=signature)
    def all_steps(source, ids, histories):
        stepper = Stepper(model)
        count = tf.shape(ids)[0]
        # A static number of beams comes with static shapes.
        beams = ids.shape[2] or tf.shape(ids)[2]

        def one_step(position, cache, logits):
            history = histories[position][:, :, : (position + 1) * beams]
            step, cache = stepper.step(tf.reshape(ids[position], (-1,)), position, cache, history)
            return position + 1, cache, logits.write(position, step)

        logits = tf.TensorArray("float32", count, element_shape=(None, 23))
        first = (tf.constant(0), stepper.start_cache(source, beams), logits)
        *_, logits = tf.while_loop(lambda position, *_: position < count, one_step, first)
        return logits.stack()

    hypotheses, ids, histories = by_hand.Beams(3, 4, seed=0), [], np.zeros((6, 3, 4, 24), bool)
    expected = []
    for position in range(6):
        ids.append(hypotheses.tokens[:, :, -1])
        histories[position, :, :, : (position + 1) * 4] = hypotheses.history
        targets = hypotheses.tokens.reshape(12, -1)
        expected.append(model((SOURCE.repeat(4, axis=0), targets))[:, -1])
        hypotheses.go_on()
    ids = np.array(ids, "int32")
    np.testing.assert_allclose(all_steps(SOURCE, ids, histories), expected, rtol=0, atol=1e-5)
    if shapes is SHAPES["dynamic"]:
        short = all_steps(SOURCE[:2, :4], ids[:1, :2, :1], histories[:1, :2, :1, :1])
        whole = model((SOURCE[:2, :4], ids[0, :2, :1]))
        np.testing.assert_allclose(short[0], whole[:, 0], rtol=0, atol=1e-5)


def test_more_padding_and_other_company_change_nothing(model):
    expected = step_by_step(model, SOURCE, TARGET)
    got = step_by_step(model, np.pad(SOURCE, ((0, 0), (0, 4))), TARGET)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(step_by_step(model, SOURCE[1:2, :3], TARGET[1:2])[0], expected[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("policy", "norm_first"),
    [
        ("mixed_bfloat16", True),
        ("mixed_float16", False),
        pytest.param("mixed_bfloat16", False, marks=pytest.mark.thorough),
        pytest.param("mixed_float16", True, marks=pytest.mark.thorough),
    ],
)
def test_steps_of_half_precision_are_about_those_of_float32(policy, norm_first):
    """No farther from them than the whole pass in half precision is, but for chance."""
    exact = small(norm_first=norm_first)
    half = small(norm_first=norm_first, dtype=policy)
    assert half.compute_dtype == policy.removeprefix("mixed_")
    expected = exact((SOURCE, TARGET)).numpy()
    got = tf.cast(step_by_step(half, SOURCE, TARGET), "float32").numpy()
    whole = tf.cast(half((SOURCE, TARGET)), "float32").numpy()
    error, whole_error = (np.sqrt(np.square(x - expected).mean()) for x in (got, whole))
    assert 0 < error < 1.5 * whole_error


def test_squares_beyond_float16_are_normalised_too():
    """What runs through the layers of a pre-norm model is never normalised, and may grow."""
    half = small(norm_first=True, dtype="mixed_float16")
    embedding = half.decoder.embedding.embeddings
    embedding.assign(embedding * (400 / np.abs(np.array(embedding)).max()))
    got, whole = (tf.cast(x, "float32").numpy() for x in (step_by_step(half, SOURCE, TARGET), half((SOURCE, TARGET))))
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(got, whole, rtol=0, atol=0.02 * np.abs(whole).max())


def test_an_empty_source_s_steps_are_finite_and_those_of_the_whole(model):
    source = np.zeros((3, 4), "int32")
    got = step_by_step(model, source, TARGET)
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got, model((source, TARGET)), rtol=0, atol=1e-5)
