import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.models.test_presets import no_weights
from tf_transformer import Transformer

SIZES = {"num_layers": 1, "d_model": 32, "num_heads": 4, "dff": 48}
VOCABULARY = {"input_vocab_size": 23, "target_vocab_size": 23}

# Unequal lengths on both sides; 0 is padding. The target starts with the start token.
SOURCE = np.array([[5, 9, 14, 22, 7, 3], [8, 17, 3, 0, 0, 0], [3, 0, 0, 0, 0, 0]], "int32")
TARGET = np.array([[2, 6, 11, 0, 0], [2, 19, 4, 4, 21], [2, 13, 0, 0, 0]], "int32")


def small(**changes):
    """A small model with random weights."""
    model = Transformer(**{**SIZES, **VOCABULARY, "max_length": 12, **changes})
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


# Every combination of these three, with the heads' own widths in every other one: so each pair of options meets.
OPTIONS = [
    pytest.param(
        {
            "norm_first": norm_first,
            "position": position,
            "share_embeddings": share,
            "key_dim": 5 if (norm_first + (position == "learned") + (share == "target")) % 2 else None,
            "value_dim": 7 if (norm_first + (position == "learned") + (share == "target")) % 2 else None,
        },
        # In those that are quick there is each value with each of another.
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
    model = small(num_layers=2, **request.param)
    return model, logits_and_scores(model)


@pytest.fixture(scope="module")
def model():
    return small(num_layers=2)


def logits_and_scores(model, source=SOURCE, target=TARGET):
    return model((source, target), return_attention_scores=True)


def test_logits_and_attention_weights_equal_the_reference(any_model):
    model, (logits, scores) = any_model
    expected, expected_scores = reference.transformer(
        reference.weights_of(model),
        SOURCE,
        TARGET,
        num_layers=2,
        num_heads=4,
        norm_first=model.norm_first,
        position=model.position,
        share_embeddings=model.share_embeddings,
        **reference.departures(model),
    )
    assert logits.dtype == "float32"
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
    assert scores.keys() == expected_scores.keys()
    for kind, layers in expected_scores.items():
        assert len(scores[kind]) == 2
        for got, wanted in zip(scores[kind], layers, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
            np.testing.assert_array_equal(got.numpy() == 0, wanted == 0)


def test_the_tutorials_sizes():
    model = Transformer(2, 512, 8, 2048, input_vocab_size=8500, target_vocab_size=8000)
    source, target = (keras.Input(batch_shape=(64, length), dtype="int32") for length in (38, 36))
    logits, scores = model((source, target), return_attention_scores=True)
    assert logits.shape == (64, 36, 8000)
    assert [x.shape for x in scores["encoder"]] == [(64, 8, 38, 38)] * 2
    assert [x.shape for x in scores["decoder"]] == [(64, 8, 36, 36)] * 2
    assert [x.shape for x in scores["cross"]] == [(64, 8, 36, 38)] * 2


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_later_target_token_changes_no_earlier_logit(norm_first):
    model = small(norm_first=norm_first)
    target = np.array([[2, 6, 11, 9, 15]] * 5)
    # In row i the token at position i is another.
    target[np.arange(1, 5), np.arange(1, 5)] = [7, 12, 10, 16]
    logits = model((np.repeat(SOURCE[:1], 5, axis=0), target)).numpy()
    for position in range(1, 5):
        np.testing.assert_allclose(logits[position, :position], logits[0, :position], atol=1e-6)
        assert (np.abs(logits[position] - logits[0])[position:].max(axis=-1) > 1e-3).all()


def test_every_source_token_changes_every_logit(model):
    source = np.repeat(SOURCE[:1], 7, axis=0)
    source[np.arange(6), np.arange(6)] = 20
    logits = model((source, np.repeat(TARGET[1:2], 7, axis=0))).numpy()
    assert (np.abs(logits[:6] - logits[6]).max(axis=-1) > 1e-4).all()


def test_more_padding_changes_nothing(model):
    expected, expected_scores = logits_and_scores(model)
    wide_source, wide_target = np.pad(SOURCE, ((0, 0), (0, 5))), np.pad(TARGET, ((0, 0), (0, 4)))
    logits, scores = logits_and_scores(model, wide_source, wide_target)
    np.testing.assert_allclose(logits[:, :5], expected, atol=1e-5)
    for kind, (queries, keys) in {"encoder": (6, 6), "decoder": (5, 5), "cross": (5, 6)}.items():
        for got, wanted in zip(scores[kind], expected_scores[kind], strict=True):
            np.testing.assert_allclose(got[:, :, :queries, :keys], wanted, atol=1e-5)


def test_a_sentence_alone_is_as_in_a_batch(model):
    expected = model((SOURCE, TARGET)).numpy()
    for i in range(3):
        source, target = SOURCE[i : i + 1], TARGET[i : i + 1]
        source, target = source[:, source[0] > 0], target[:, target[0] > 0]
        np.testing.assert_allclose(model((source, target))[0], expected[i, : target.shape[1]], atol=1e-5)


def test_paddings_own_embedding_has_no_part_in_real_positions():
    model = small(share_embeddings="none")
    before = model((SOURCE, TARGET)).numpy()
    for stack in (model.encoder, model.decoder):
        matrix = stack.embedding.embeddings.numpy()
        matrix[0] = 100
        stack.embedding.embeddings.assign(matrix)
    after = model((SOURCE, TARGET)).numpy()
    real = TARGET > 0
    np.testing.assert_allclose(after[real], before[real], atol=1e-5)
    assert np.abs(after - before)[~real].max() > 0.1


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_an_empty_source_is_finite_and_so_is_its_gradient(policy):
    model = small(dtype=policy)
    source = SOURCE.copy()
    source[1] = 0
    with tf.GradientTape() as tape:
        logits, scores = logits_and_scores(model, source)
        loss = tf.reduce_mean(tf.square(tf.cast(logits, "float32")))
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    every_score = [score for layers in scores.values() for score in layers]
    for x in (logits, *every_score, *gradients):
        assert np.isfinite(tf.cast(x, "float32")).all()
    # In the other sentences nothing that is forbidden has any weight.
    for kind in ("encoder", "cross"):
        for score in scores[kind]:
            weights = tf.cast(score, "float32").numpy()
            for i in (0, 2):
                np.testing.assert_array_equal((weights[i] > 0).all(axis=(0, 1)), source[i] > 0)
                np.testing.assert_array_equal((weights[i] == 0).all(axis=(0, 1)), source[i] == 0)
    for score in scores["decoder"]:
        later = np.triu(np.ones((5, 5), bool), 1)
        assert (tf.cast(score, "float32").numpy()[..., later] == 0).all()


def test_a_batch_of_empty_sources_alone_is_finite(model):
    logits = model((np.zeros((2, 4), "int32"), TARGET[:2]))
    assert np.isfinite(logits).all()


def matrices(model):
    """All weights that have a row, or a column, for each token."""
    return [weight for weight in model.weights if 23 in weight.shape]


@pytest.mark.parametrize(("share_embeddings", "count"), [("all", 1), ("target", 2), ("none", 3)])
def test_matrices_are_shared_and_stay_so(share_embeddings, count, tmp_path):
    model = small(share_embeddings=share_embeddings)
    assert len(matrices(model)) == count
    assert (model.decoder.embedding is model.encoder.embedding) == (share_embeddings == "all")
    x = np.random.default_rng(0).standard_normal((1, 2, 32)).astype("float32")
    target_rows = model.decoder.embedding.embeddings.numpy()
    tied = np.allclose(model.project(x), x @ target_rows.T, atol=1e-5)
    assert tied == (share_embeddings != "none")

    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert len(matrices(loaded)) == count
    assert (loaded.decoder.embedding is loaded.encoder.embedding) == (share_embeddings == "all")
    np.testing.assert_allclose(loaded((SOURCE, TARGET)), model((SOURCE, TARGET)), atol=1e-6)


def test_vocabularies_of_two_sizes():
    model = small(input_vocab_size=40, share_embeddings="target")
    assert model((SOURCE + 17, TARGET)).shape == (3, 5, 23)
    assert model.encoder.embedding.embeddings.shape == (40, 32)
    with pytest.raises(ValueError, match="input_vocab_size=40 and target_vocab_size=23"):
        small(input_vocab_size=40, share_embeddings="all")


@pytest.mark.parametrize("share_embeddings", ["all", "target", "none"])
def test_gradients_are_dense_and_those_of_float64_differences(share_embeddings):
    """The tied matrix's gradient is the sum over all its uses, some entries of which only the reference knows."""
    model = small(share_embeddings=share_embeddings)
    weights = reference.weights_of(model)
    direction = np.random.default_rng(1).standard_normal((3, 5, 23))

    def loss(changed):
        logits, _ = reference.transformer(
            changed, SOURCE, TARGET, 1, 4, norm_first=False, position="sinusoidal", share_embeddings=share_embeddings
        )
        return (logits * direction).sum()

    with tf.GradientTape() as tape:
        got = tf.reduce_sum(model((SOURCE, TARGET)) * direction.astype("float32"))
    gradients = tape.gradient(got, [weight.value for weight in model.trainable_weights])
    assert all(isinstance(gradient, tf.Tensor) for gradient in gradients)
    by_path = dict(zip(weights, gradients, strict=True))

    # A word of the source alone, of both sides, of the target alone, of neither (a projection still), padding.
    entries = [(path, (token, 3)) for path in weights if "embedding" in path for token in (9, 3, 11, 20, 0)]
    entries += [
        ("encoder/layer_0/self_attention/query/kernel", (4, 5)),
        ("decoder/layer_0/cross_attention/value/kernel", (6, 7)),
        ("decoder/layer_0/feed_forward_residual/norm/gamma", (2,)),
    ]
    for path, entry in entries:
        nudge = np.zeros_like(weights[path])
        nudge[entry] = 1e-5
        difference = loss({**weights, path: weights[path] + nudge}) - loss({**weights, path: weights[path] - nudge})
        assert by_path[path].numpy()[entry] == pytest.approx(difference / 2e-5, rel=1e-3, abs=1e-4), (path, entry)


def test_the_paths_of_the_weights():
    model = small(norm_first=True, position="learned")
    dense, norm = ("kernel", "bias"), ("gamma", "beta")

    def layer(*attentions):
        for attention in attentions:
            yield from (f"{attention}/{part}/{kind}" for part in ("query", "key", "value", "output") for kind in dense)
        yield from (f"feed_forward/{part}/{kind}" for part in ("hidden", "output") for kind in dense)
        yield from (f"{name}_residual/norm/{kind}" for name in (*attentions, "feed_forward") for kind in norm)

    expected = {"projection/kernel"}
    for stack, attentions in {"encoder": ["self_attention"], "decoder": ["self_attention", "cross_attention"]}.items():
        expected |= {f"{stack}/{name}" for name in ("embedding/embeddings", "position/positions")}
        expected |= {f"{stack}/norm/{kind}" for kind in norm}
        expected |= {f"{stack}/layer_0/{path}" for path in layer(*attentions)}
    assert set(reference.weights_of(model)) == expected


@pytest.mark.parametrize(
    ("changes", "by_hand"),
    [
        # d 8, dff 16. Attention 4 (8 * 8 + 8) = 288; feed-forward 8 * 16 + 16 + 16 * 8 + 8 = 280; norm 16.
        # Encoder layer 288 + 280 + 2 * 16 = 600, decoder layer 2 * 288 + 280 + 3 * 16 = 904. Matrices 3 * 23 * 8 = 552.
        ({}, 600 + 904 + 552),
        ({"num_layers": 3}, 3 * (600 + 904) + 552),
        ({"share_embeddings": "target"}, 600 + 904 + 368),
        ({"share_embeddings": "all"}, 600 + 904 + 184),
        # One closing norm a stack; a table of 12 positions a stack.
        ({"norm_first": True}, 600 + 904 + 552 + 2 * 16),
        ({"position": "learned"}, 600 + 904 + 552 + 2 * 12 * 8),
        # Two heads with keys of 3: two projections from 8 to 6 in place of 8 to 8, in three attentions.
        ({"key_dim": 3}, 600 + 904 + 552 - 3 * 2 * (2 * 8 + 2)),
        # Values of 5: 8 to 10, and 10 back to 8.
        ({"value_dim": 5}, 600 + 904 + 552 + 3 * (2 * 8 + 2 + 2 * 8)),
    ],
)
def test_parameter_counts(changes, by_hand):
    arguments = {"num_layers": 1, "d_model": 8, "num_heads": 2, "dff": 16, **VOCABULARY, "max_length": 12, **changes}
    model = Transformer(**arguments)
    model.build(((None, None), (None, None)))
    assert model.count_params() == by_hand


def test_the_base_models_parameters():
    with no_weights():
        model = Transformer.from_preset("base", input_vocab_size=37_000, target_vocab_size=37_000)
        model.build(((None, None), (None, None)))
    assert model.count_params() == 63_082_496
    assert all(weight.trainable for weight in model.weights)


def test_a_preset_can_be_changed():
    model = Transformer.from_preset("base", input_vocab_size=50, target_vocab_size=60, share_embeddings="none")
    assert (model.num_layers, model.dff, model.num_heads, model.dropout_rate) == (6, 2048, 8, 0.1)
    assert (model.input_vocab_size, model.target_vocab_size, model.share_embeddings) == (50, 60, "none")
    with pytest.raises(ValueError, match="bass"):
        Transformer.from_preset("bass", input_vocab_size=50, target_vocab_size=50)


def test_dropout_acts_in_training_only():
    model = small(dropout_rate=0.3)
    first, second = (model((SOURCE, TARGET), training=True).numpy() for _ in range(2))
    assert np.abs(first - second).max() > 0.1
    np.testing.assert_array_equal(model((SOURCE, TARGET)), model((SOURCE, TARGET), training=False))


def test_a_sentence_longer_than_the_positions_is_refused(model):
    long = np.ones((1, 13), "int32")
    with pytest.raises(ValueError, match="13 tokens is longer than the 12 positions"):
        model((long, TARGET[:1]))
    with pytest.raises(ValueError, match="13 tokens is longer than the 12 positions"):
        model((SOURCE[:1], long))
