"""What weights, regularizers, a layer or a subclass change of the loss counts in these steps too, or is refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.eager import eagerly
from tests.training.steps import ROWS, OverLogits, WithItsOwnCall, assert_same, batch, compiled, train
from tf_transformer import SmoothedCrossEntropy, TokenAccuracy, make_strategy

pytestmark = pytest.mark.usefixtures("optimised")


def test_weights_of_one_change_nothing(over_logits):
    model = compiled()
    figures = model.train_on_batch(*batch(), sample_weight=np.ones(ROWS, "float32"), return_dict=True)
    assert figures["loss"] == pytest.approx(over_logits["all"][0][0]["loss"], rel=1e-5)


def test_regularizers_count():
    """Their loss is the model's."""
    model = compiled()
    without = model.test_on_batch(*batch(), return_dict=True)["loss"]
    weight = next(each for each in model.trainable_variables if len(each.shape) == 2)
    weight.regularizer = keras.regularizers.L2(0.5)
    expected = without + 0.5 * float(np.sum(np.square(weight)))
    assert model.test_on_batch(*batch(), return_dict=True)["loss"] == pytest.approx(expected, rel=1e-5)
    model.gradient_accumulation = 2
    with pytest.raises(ValueError, match="parallel_parts don't support regularizers and add_loss"):
        model.train_on_batch(*batch())


@pytest.mark.parametrize(
    "graph",
    [pytest.param(False, marks=pytest.mark.slow), pytest.param(True, marks=pytest.mark.thorough)],
    ids=["eager", "graph"],
)
def test_what_a_layer_adds_in_its_call_counts_from_the_first_step_on(graph, over_logits):
    """Against Keras's own step; where it can't count, before anything has changed it is refused."""
    activity = keras.regularizers.L2(0.01)
    ours = train(activity=activity, graph=graph)
    assert_same(ours, train(loss=OverLogits(0.1), activity=activity))
    assert ours[0][0]["loss"] > over_logits["all"][0][0]["loss"] + 0.01
    for parts in ({"parts": 2}, {"beside": 2}):
        model = compiled(activity=activity, graph=graph, **parts)
        with pytest.raises(ValueError, match="parallel_parts don't support regularizers and add_loss"):
            model.train_on_batch(*batch())


@pytest.mark.thorough
def test_what_a_layer_adds_counts_on_several_devices_as_on_one():
    """Each device's share of five sentences, of as many tokens."""
    (source, target), labels = batch()
    labels[[3, 7]] = labels[0]
    data = tf.data.Dataset.from_tensor_slices(((source, target), labels)).batch(ROWS)
    weights = []
    for strategy in (make_strategy("single"), make_strategy("mirrored")):
        with strategy.scope():
            model = compiled(activity=keras.regularizers.L2(0.01), graph=True)
        with eagerly():
            model.fit(data, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    assert strategy.num_replicas_in_sync == 2
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("parts", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_loss_weights_count(parts, over_logits):
    usual = over_logits["all"][0][0]["loss"]
    weighted = train(loss=OverLogits(0.1), loss_weights=0.25, steps=1)
    for loss_weights in (0.25, [0.25]):
        ours = train(loss_weights=loss_weights, parts=parts, steps=1)
        assert_same(ours, weighted)
        assert ours[0][0]["loss"] == pytest.approx(usual / 4, rel=1e-5)


def test_the_only_loss_of_a_list_is_the_loss():
    """R-Drop too, which only the step that projects can do; of several losses it is refused."""

    def loss(loss, **options):
        return compiled(loss=loss, dropout_rate=0.3, **options).train_on_batch(*batch(), return_dict=True)["loss"]

    r_drop = SmoothedCrossEntropy(0.1, r_drop=5.0)
    assert loss([r_drop]) == pytest.approx(loss(r_drop), rel=1e-6)
    with pytest.raises(ValueError, match="r_drop, .* need the loss SmoothedCrossEntropy"):
        loss([SmoothedCrossEntropy(0.1), r_drop])


def test_what_a_subclass_changes_counts(over_logits):
    """The model's `call`, the loss's and a metric's: their steps go over logits."""
    model = compiled(make=WithItsOwnCall)
    logits = model(batch()[0])
    figures = model.train_on_batch(*batch(), return_dict=True)
    expected = float(SmoothedCrossEntropy(0.1)(batch()[1], logits)) + 0.01 * float(np.mean(np.square(logits)))
    assert figures["loss"] == pytest.approx(expected, rel=1e-5)

    class Doubled(SmoothedCrossEntropy):
        def call(self, y_true, y_pred, sample_weight=None):
            return 2 * super().call(y_true, y_pred, sample_weight)

    class Errors(TokenAccuracy):
        def of_tokens(self, labels, logits):
            return 1 - super().of_tokens(labels, logits)

    told = compiled(loss=Doubled(0.1), more=[Errors("errors")]).train_on_batch(*batch(), return_dict=True)
    usual = over_logits["all"][0][0]
    assert told["loss"] == pytest.approx(2 * usual["loss"], rel=1e-5)
    assert told["errors"] == pytest.approx(1 - usual["accuracy"], rel=1e-5)
    with pytest.raises(ValueError, match="a Transformer whose call, .* no subclass has changed"):
        compiled(make=WithItsOwnCall, parts=2).train_on_batch(*batch())


def test_labels_are_asked_for():
    with pytest.raises(ValueError, match="need labels too"):
        compiled().train_on_batch(batch()[0])


def test_another_loss_with_accumulation_is_refused():
    with pytest.raises(ValueError, match="need the loss SmoothedCrossEntropy"):
        compiled(loss=SmoothedCrossEntropy(0.1).call, parts=2).train_on_batch(*batch())
