"""The loss of given alignments, and a head that learns them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Ensemble, SmoothedCrossEntropy, TokenAccuracy, Transformer, make_strategy
from tf_transformer.decoding import align
from tf_transformer.distributed.multi_worker import worker_share
from tf_transformer.tokenizers.base import END_ID, START_ID
from tf_transformer.training import AlignmentLoss, TransformerAdam, alignment_loss
from tf_transformer.training.alignment import with_alignment

VOCABULARY, ROWS, LENGTH, WEIGHT = 40, 10, 7, 0.4
VOCABULARIES = {"input_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY}


def by_hand(weights, alignment):
    """Garg et al.'s equation 4, without the number of target tokens: a loop over these, in float64."""
    total = 0.0
    for row, links in zip(np.asarray(weights, "float64"), alignment, strict=True):
        for of_source, linked in zip(row, links, strict=True):
            if linked.any():
                total -= np.log(of_source[linked == 1]).mean()
    return total


def random_links(random, share=0.2):
    """Links between tokens, where each has some, several or none."""
    return (random.random((ROWS, LENGTH, LENGTH)) < share).astype("uint8")


def random_weights(random, rows=ROWS):
    weights = random.random((rows, LENGTH, LENGTH))
    return (weights / weights.sum(-1, keepdims=True)).astype("float32")


def test_the_loss_is_that_of_the_paper():
    random = np.random.default_rng(0)
    weights, links = random_weights(random), random_links(random)
    assert {0, 1, 2} <= set(links.sum(-1).ravel())
    assert float(alignment_loss(weights, links)) == pytest.approx(by_hand(weights, links), rel=1e-5)
    twice = random_weights(random, 2 * ROWS)
    mean = (by_hand(twice[:ROWS], links) + by_hand(twice[ROWS:], links)) / 2
    assert float(alignment_loss(twice, links, copies=2)) == pytest.approx(mean, rel=1e-5)
    assert float(alignment_loss(weights, np.zeros_like(links))) == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_its_gradient_is_finite_where_a_weight_is_nothing(dtype):
    weights = tf.cast([[[1.0, 1e-7, 0.0]]], dtype)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = alignment_loss(weights, np.ones((1, 1, 3), "uint8"))
    assert np.isfinite(float(loss)) and np.isfinite(tf.cast(tape.gradient(loss, weights), "float32")).all()


# -- a step ----


def batch():
    """Sentences of unequal lengths, one of them nothing but padding; of some no word is aligned."""
    random = np.random.default_rng(1)
    source, target, labels = (random.integers(4, VOCABULARY, (ROWS, LENGTH)).astype("int32") for _ in range(3))
    labels[3, 4:] = source[5, 3:] = labels[7] = source[7] = 0
    links = random_links(random) & (labels != 0)[:, :, None] & (source != 0)[:, None]
    links[8:] = 0
    return (source, target), labels, links


def compiled(parts=1, beside=1, head=(1, 2), loss=None, graph=False, share="all", **options):
    keras.utils.set_random_seed(3)
    sizes = {"num_layers": 1, "decoder_layers": 2, "d_model": 16, "num_heads": 4, "dff": 32, "dropout_rate": 0.0}
    model = Transformer(**sizes, **VOCABULARIES, share_embeddings=share, alignment_head=head, **options)
    loss = loss or SmoothedCrossEntropy(0.1, alignment_weight=WEIGHT)
    model.compile(keras.optimizers.SGD(0.5), loss, metrics=[AlignmentLoss()], jit_compile=False, run_eagerly=not graph)
    model.gradient_accumulation, model.parallel_parts = parts, beside
    model.build(((None, None), (None, None)))
    return model


@pytest.fixture(scope="module")
def expected():
    """One step by hand: Keras's cross-entropy over logits and the plain equation, and SGD's update."""
    inputs, labels, links = batch()
    model = compiled()
    real = labels != 0
    smoothed = 0.9 * np.eye(VOCABULARY)[labels] + 0.1 / VOCABULARY
    with tf.GradientTape() as tape:
        logits, scores = model(inputs, return_attention_scores=True, training=True)
        losses = -tf.reduce_sum(smoothed * tf.cast(tf.nn.log_softmax(logits), "float64"), axis=-1)
        chosen = tf.cast(scores["cross"][1][:, 2], "float64")
        of_each = links / np.maximum(links.sum(-1, keepdims=True), 1)
        of_head = -tf.reduce_sum(of_each * tf.math.log(tf.where(links == 1, chosen, 1.0))) / real.sum()
        loss = tf.reduce_sum(tf.where(real, losses, 0.0)) / real.sum() + WEIGHT * of_head
    gradients = tape.gradient(loss, model.trainable_variables)
    assert float(of_head) == pytest.approx(by_hand(chosen.numpy(), links) / real.sum())
    updated = [
        weight.numpy() - 0.5 * tf.convert_to_tensor(gradient).numpy()
        for weight, gradient in zip(model.trainable_variables, gradients, strict=True)
    ]
    return float(loss), float(of_head), updated


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"graph": True},
        pytest.param({"parts": 3}, marks=pytest.mark.thorough),
        pytest.param({"beside": 3}, marks=pytest.mark.thorough),
        {"parts": 2, "beside": 2},
        pytest.param({"parts": 12}, marks=pytest.mark.thorough),
        {"loss": SmoothedCrossEntropy(0.1, r_drop=2.0, alignment_weight=WEIGHT)},
        {"loss": SmoothedCrossEntropy(0.1, r_drop=2.0, alignment_weight=WEIGHT), "parts": 2},
    ],
    ids=["whole", "graph", "parts", "side by side", "both", "more parts than rows", "R-Drop", "R-Drop in parts"],
)
def test_a_step_is_the_one_by_hand(options, expected):
    """In parts as well, whose sentences have unequal numbers of tokens and of links; with R-Drop without dropout."""
    model = compiled(**options)
    inputs, labels, links = batch()
    figures = model.train_on_batch(inputs, with_alignment(labels, links), return_dict=True)
    loss, of_head, updated = expected
    assert figures == pytest.approx({"loss": loss, "alignment_loss": of_head}, rel=1e-5)
    for weight, other in zip(model.trainable_variables, updated, strict=True):
        np.testing.assert_allclose(weight.numpy(), other, rtol=0, atol=1e-5)


@pytest.mark.thorough
def test_devices_that_share_a_batch_take_the_same_step(expected):
    """Two of them, each with half of its rows: unequal numbers of tokens and of links."""
    inputs, labels, links = batch()
    strategy = make_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 2
    with strategy.scope():
        model = compiled(graph=True)
    data = tf.data.Dataset.from_tensors((inputs, with_alignment(labels, links)))
    history = model.fit(worker_share(data, strategy), shuffle=False, verbose=0).history
    loss, of_head, updated = expected
    assert history["alignment_loss"] == pytest.approx([of_head], rel=1e-5)
    for weight, other in zip(model.trainable_variables, updated, strict=True):
        np.testing.assert_allclose(weight.numpy(), other, rtol=0, atol=1e-5)


def test_without_alignments_a_model_with_a_head_learns_as_any():
    inputs, labels, links = batch()
    weights = []
    for head, y in ((1, 2), labels), ((1, 2), with_alignment(labels, np.zeros_like(links))), (None, labels):
        model = compiled(head=head)
        model.train_on_batch(inputs, y)
        weights.append(model.get_weights())
    for with_head, unaligned, usual in zip(*weights, strict=True):
        np.testing.assert_array_equal(with_head, usual)
        np.testing.assert_allclose(unaligned, usual, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": None}, "alignments need a Transformer with an alignment_head"),
        ({"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}, "alignments need the loss Smoothed"),
    ],
    ids=["no head", "another loss"],
)
def test_what_can_learn_no_alignment_says_so(options, message):
    inputs, labels, links = batch()
    with pytest.raises(ValueError, match=message):
        compiled(**options).train_on_batch(inputs, with_alignment(labels, links))


@pytest.mark.parametrize("head", [(2, 0), (0, 4), (-1, 0), (0,), 3, ("0", 0)], ids=str)
def test_a_head_that_is_none_is_refused(head):
    with pytest.raises(ValueError, match="alignment_head must be a layer of the decoder, below 2, and a head, below 4"):
        compiled(head=head)


def test_the_head_is_kept_with_the_model():
    model = Transformer.from_config(compiled(head=np.array([1, 2]).tolist()).get_config())
    assert model.alignment_head == (1, 2)
    assert (
        SmoothedCrossEntropy.from_config(SmoothedCrossEntropy(alignment_weight=0.3).get_config()).alignment_weight
        == 0.3
    )


# -- what it learns ----


def reversed_pairs(number, seed):
    """Sentences whose translation has the words in reverse, of 3 to 6 words out of 12.

    The links are not those of the words, which attention finds by itself: each word goes with the one in its place.
    """
    random = np.random.default_rng(seed)
    source, target, links = (
        np.zeros((number, 7, *more), kind) for more, kind in (((), int), ((), int), ((7,), "uint8"))
    )
    for row in range(number):
        length = random.integers(3, 7)
        words = random.integers(0, 12, length)
        source[row, : length + 1] = *(4 + words), END_ID
        target[row, : length + 1] = *(16 + words[::-1]), END_ID
        links[row, np.arange(length), np.arange(length)] = 1
    inputs = source, np.concatenate([np.full((number, 1), START_ID), target[:, :-1]], axis=1)
    return inputs, target, links


def error_rate(model):
    """The alignment error rate over sentences that no training has seen, closing tokens not counted."""
    (source, shifted), target, links = reversed_pairs(100, seed=2)
    _, scores = model((source, shifted), return_attention_scores=True)
    weights = np.stack(scores["cross"], axis=1)
    places = align(weights, source, target, END_ID, model.alignment_head).numpy()
    found = places[(target != 0) & (target != END_ID)]
    return np.mean(found != np.argmax(links, axis=2)[links.any(axis=2)])


@pytest.mark.slow
def test_a_head_learns_the_links_that_it_is_given_and_attention_alone_does_not_have_them():
    inputs, target, links = reversed_pairs(1_000, seed=1)
    models = []
    for head, y in ((0, 0), with_alignment(target, links)), (None, target):
        keras.utils.set_random_seed(1)
        model = Transformer(2, 32, 2, 64, 28, 28, dropout_rate=0.0, share_embeddings="all", alignment_head=head)
        loss = SmoothedCrossEntropy(0.1, alignment_weight=0.5)
        model.compile(TransformerAdam(0.005), loss, metrics=[TokenAccuracy()], jit_compile=False)
        history = model.fit(inputs, y, batch_size=100, epochs=30, verbose=0).history
        assert history["accuracy"][-1] > 0.85
        models.append(model)
    taught, untaught = map(error_rate, models)
    assert taught < 0.02 and untaught > 0.7, (taught, untaught)
    assert error_rate(Ensemble([models[0], models[0]])) == taught
