"""A step of `fit` and `evaluate` in which the loss projects is Keras's own step over logits; so is one in parts."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.steps import (
    ROWS,
    SHARING,
    VOCABULARY,
    OverLogits,
    adam,
    assert_same,
    batch,
    compiled,
    sgd,
    train,
    untrained_weights,
)
from tf_transformer import Perplexity, SmoothedCrossEntropy, TokenAccuracy, Transformer
from tf_transformer.training import TransformerAdam
from tf_transformer.training.loss_scaling import LossScaling
from tf_transformer.training.projected_loss import CHUNK_LOGITS

pytestmark = pytest.mark.usefixtures("optimised")


@pytest.mark.parametrize("share", SHARING)
def test_the_projecting_step_is_the_step_over_logits(share, over_logits):
    ours = train(share)
    assert_same(ours, over_logits[share])
    assert max(np.abs(a - b).max() for a, b in zip(ours[1], untrained_weights(share), strict=True)) > 0.01


@pytest.mark.parametrize("share", ["all", pytest.param("none", marks=pytest.mark.thorough)])
def test_a_bias_on_the_logits_is_trained_as_over_logits(share):
    biased = partial(Transformer, output_bias=True)
    ours = train(share, make=biased)
    assert_same(ours, train(share, OverLogits(0.1), make=biased))
    assert max(np.abs(weight).max() for weight in ours[1] if weight.shape == (VOCABULARY,)) > 0.01


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_the_step_that_xla_compiles_is_the_step_over_logits(parts, over_logits):
    assert_same(train("target", parts=parts, xla=True), over_logits["target"])


@pytest.mark.parametrize("share", ["all", pytest.param("none", marks=pytest.mark.thorough)])
def test_three_parts_of_ten_rows_are_one_batch(share, over_logits):
    """They don't divide, nor have the parts alike many tokens; those that XLA compiles share the target's matrices."""
    assert_same(train(share, parts=3), over_logits[share])


@pytest.mark.parametrize(
    ("share", "parts", "beside"),
    [("all", 2, 2), pytest.param("target", 2, 3, marks=pytest.mark.thorough), ("none", 1, 3)],
)
def test_parts_side_by_side_are_one_batch(share, parts, beside, over_logits):
    """Three of them, or twice two or three."""
    assert_same(train(share, parts=parts, beside=beside, graph=share == "all"), over_logits[share])


def test_more_parts_than_rows_are_one_batch():
    usual = train(loss=OverLogits(0.1), rows=2, steps=1)
    assert_same(train(rows=2, steps=1, parts=2, beside=2), usual)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "parts",
    [{"parts": 2}, pytest.param({"parts": 2, "graph": True}, marks=pytest.mark.slow), {"beside": 2}],
    ids=str,
)
def test_parts_drop_other_numbers(parts):
    """Two equal halves of a batch: were the same numbers dropped, the loss would be that of one of them."""
    inputs, labels = (tuple(ids[:5] for ids in each) if isinstance(each, tuple) else each[:5] for each in batch())
    twice = (tuple(np.concatenate([ids, ids]) for ids in inputs), np.concatenate([labels, labels]))

    def loss(data, **options):
        return compiled(dropout_rate=0.3, **options).train_on_batch(*data, return_dict=True)["loss"]

    assert loss(twice, **parts) == pytest.approx(loss(twice, **parts), rel=1e-6)
    assert loss(twice, **parts) != pytest.approx(loss((inputs, labels)), rel=1e-3)


@pytest.mark.parametrize("parts", [{}, {"parts": 2, "beside": 2}], ids=str)
def test_a_batch_of_padding_alone_changes_nothing(parts):
    model = compiled(**parts)
    inputs, labels = batch()
    model.build(tuple(ids.shape for ids in inputs))
    before = model.get_weights()
    figures = model.train_on_batch(inputs, np.zeros_like(labels), return_dict=True)
    assert figures == {"loss": 0, "perplexity": 1, "accuracy": 0, "tokens": 0}
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_fit_and_evaluate_take_these_steps():
    """Over batches of 4 and 2 rows, in a graph; another metric, which needs logits, makes `fit` go over them.

    The graph is traced once: what makes variables while it is traced, as for momentum, would be traced again.
    """
    inputs, labels = batch()
    inputs, labels = tuple(ids[:6] for ids in inputs), labels[:6]
    outcomes, traced = [], []

    class Counting(Transformer):
        def train_step(self, data):
            traced.append(data)
            return super().train_step(data)

    for more in ((), (keras.metrics.SparseCategoricalAccuracy(name="plain"),)):
        make = Transformer if more else Counting
        model = compiled(more=more, graph=not more, make=make, optimizer=partial(keras.optimizers.SGD, 0.5, 0.5))
        history = model.fit(inputs, labels, batch_size=4, epochs=2, shuffle=False, verbose=0).history
        told = model.evaluate(inputs, labels, batch_size=4, verbose=0, return_dict=True)
        assert ("plain" in told) == bool(more)
        figures = [{name: values[epoch] for name, values in history.items()} for epoch in range(2)] + [told]
        outcomes.append(([{k: v for k, v in each.items() if k != "plain"} for each in figures], model.get_weights()))
    assert_same(*outcomes)
    assert len(traced) == 1


@pytest.mark.thorough
def test_r_drop_without_dropout_is_the_usual_step(over_logits):
    """Both predictions of a sentence are then one; validation has no R-Drop in any case."""
    assert_same(train(loss=SmoothedCrossEntropy(0.1, r_drop=2.0)), over_logits["all"])
    assert_same(train(loss=SmoothedCrossEntropy(0.1, r_drop=2.0), parts=2, beside=2), over_logits["all"])


@pytest.mark.thorough
def test_r_drop_draws_the_predictions_of_a_sentence_together():
    """Its term is in the first step's loss, and less later."""

    def losses(alpha, steps, **options):
        model = compiled(loss=SmoothedCrossEntropy(0.1, alpha), optimizer=adam, dropout_rate=0.3, **options)
        return [model.train_on_batch(*batch(), return_dict=True)["loss"] for _ in range(steps)]

    drawn = losses(5.0, steps=20, graph=True)
    assert drawn[-1] < 0.8 * drawn[0]
    (usual,), (in_parts,) = losses(0.0, steps=1), losses(5.0, steps=1, parts=2)
    assert min(drawn[0], in_parts) > usual + 0.5


def scaled():
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5), initial_scale=2.0**10)


@pytest.mark.parametrize(
    ("dtype", "optimizer", "share", "parts"),
    [
        pytest.param("mixed_float16", scaled, "all", 1, marks=pytest.mark.thorough),
        ("mixed_float16", scaled, "none", 3),
        pytest.param("mixed_bfloat16", sgd, "all", 3, marks=pytest.mark.thorough),
        pytest.param("mixed_bfloat16", sgd, "target", 1, marks=pytest.mark.thorough),
    ],
)
def test_mixed_precision_is_near_float32(dtype, optimizer, share, parts, over_logits):
    """What two steps change, all weights as one vector; float16 with a scaled loss.

    Roundings make 0.1 % (float16) and 4 % (bfloat16), and a hidden unit within one of them of ReLU's kink makes 2 %.
    """
    figures, weights = train(share, optimizer=optimizer, dtype=dtype, parts=parts)
    expected_figures, expected_weights = over_logits[share]
    for ours, theirs in zip(figures, expected_figures, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=5e-3)
    difference, change = (
        np.concatenate([np.ravel(a - b) for a, b in zip(expected_weights, others, strict=True)])
        for others in (weights, untrained_weights(share))
    )
    assert np.linalg.norm(difference) < 0.06 * np.linalg.norm(change)


def test_a_scale_too_high_is_halved_and_the_step_left_out():
    """Also where it shows in one part of a batch only."""

    def far_too_high():
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5), initial_scale=2.0**40)

    for parts in (1, 3):
        model = compiled(optimizer=far_too_high, dtype="mixed_float16", parts=parts)
        model.build(((None, None), (None, None)))
        before = model.get_weights()
        model.train_on_batch(*batch())
        assert float(model.optimizer.dynamic_scale) == 2.0**39
        for one, other in zip(before, model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.thorough
def test_float16_learns_where_one_token_takes_nearly_all_rows():
    """40,000 tokens predicted rightly: what is summed over them is beyond float16, whatever the loss is scaled by."""
    keras.utils.set_random_seed(3)
    model = Transformer(1, 8, 2, 8, 8, 8, share_embeddings="all", dtype="mixed_float16")
    optimizer = LossScaling(TransformerAdam(0.02), initial_scale=16.0)
    model.compile(optimizer, SmoothedCrossEntropy(0.1), jit_compile=False, run_eagerly=True)
    ids = np.full((800, 50), 5, "int32")
    losses = [model.train_on_batch((ids, ids), ids) for _ in range(5)]
    assert losses[-1] < 0.9 * losses[0]
    assert int(optimizer.iterations) == int(optimizer.steps) == 5


class WithAnIdleWeight(Transformer):
    """Has a weight that the loss doesn't depend on."""

    def build(self, input_shape):
        super().build(input_shape)
        self.idle = self.add_weight((3,), initializer="ones", name="idle")


@pytest.mark.filterwarnings("ignore:Gradients do not exist for variables")
def test_parts_are_one_batch_under_adam():
    """And a weight that the loss does not depend on stays as it is."""
    whole = train(optimizer=adam, make=WithAnIdleWeight)
    assert_same(train(optimizer=adam, make=WithAnIdleWeight, parts=2, beside=2), whole, 1e-4)
    assert sum(np.array_equal(weight, np.ones(3)) for weight in whole[1]) == 1


def largest_tensor(model, rows, length):
    """Elements of the largest tensor in the graph of a training step, in its loops too, where shapes are known."""
    ids = tf.TensorSpec((rows, length), tf.int32)
    model.build(((None, None), (None, None)))
    model.optimizer.build(model.trainable_variables)
    step = tf.function(lambda *data: model.train_step(data), autograph=False)
    graph = step.get_concrete_function((ids, ids), ids).graph.as_graph_def(add_shapes=True)
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    shapes = [tf.TensorShape(shape) for node in nodes for shape in node.attr["_output_shapes"].list.shape]
    return max(shape.num_elements() for shape in shapes if shape.is_fully_defined())


def test_no_step_makes_all_logits():
    """A step whose logits would be 49 million numbers, by a vocabulary of 24,000: three chunks, or with R-Drop six."""
    vocabulary, rows, length = 24_000, 16, 128

    def largest(loss):
        model = Transformer(1, 16, 2, 16, vocabulary, vocabulary, share_embeddings="all")
        # As for XLA, so that all shapes are known: otherwise padding is left out first.
        model.compile(sgd(), loss, metrics=[Perplexity(), TokenAccuracy()], jit_compile=True)
        return largest_tensor(model, rows, length)

    assert largest(OverLogits(0.1)) >= rows * length * vocabulary
    for r_drop in (0.0, 1.0):
        # Were there no chunk of this size, the shapes of the logits would be hidden.
        assert CHUNK_LOGITS / 2 < largest(SmoothedCrossEntropy(0.1, r_drop)) <= CHUNK_LOGITS


def test_xla_on_several_devices_is_refused():
    strategy = tf.distribute.MirroredStrategy([device.name for device in tf.config.list_logical_devices("CPU")])
    with strategy.scope():
        model = Transformer(1, 16, 4, 32, VOCABULARY, VOCABULARY)
        model.compile(sgd(), SmoothedCrossEntropy(0.1), jit_compile=True)
    data = tf.data.Dataset.from_tensors(batch())
    with pytest.raises(ValueError, match="several devices share: compile with jit_compile=False"):
        model.fit(data, shuffle=False, verbose=0)


@pytest.mark.parametrize(
    "options",
    [{"loss": SmoothedCrossEntropy(0.1, r_drop=1.0)}, {"parts": 2}, {"beside": 2}],
    ids=["r_drop", "accumulation", "side by side"],
)
def test_what_the_step_over_logits_cannot_do_is_refused(options):
    """Whether a metric or the sentences' weights need logits."""
    with pytest.raises(ValueError, match="parallel_parts and alignments need the loss SmoothedCrossEntropy"):
        compiled(**options, more=[keras.metrics.SparseCategoricalAccuracy()]).train_on_batch(*batch())
    with pytest.raises(ValueError, match="parallel_parts and alignments need the loss SmoothedCrossEntropy"):
        compiled(**options).train_on_batch(*batch(), sample_weight=np.ones(ROWS, "float32"))
