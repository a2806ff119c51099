"""The optimizer against Adam, AdamW, clipping and a moving average in NumPy, on one device and on two."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import (
    CosineSchedule,
    InverseSqrtSchedule,
    Transformer,
    TransformerAdam,
    TransformerSchedule,
    make_strategy,
)
from tf_transformer.recipe import TrainingSettings
from tf_transformer.training import make_optimizer

STEPS = 6
SHAPES = [(3, 4), (4,), (2, 3, 2), ()]


def gradients():
    """For each step one a variable; their length goes up and down."""
    random = np.random.default_rng(0)
    return [[random.normal(size=shape) * length for shape in SHAPES] for length in (1, 10, 0.01, 3, 30, 0.1)]


def start():
    random = np.random.default_rng(1)
    return [random.normal(size=shape) for shape in SHAPES]


def by_hand(rate=0.01, decay=0.0, clip=np.inf, momentum=None):
    """Weights and their moving average after STEPS steps, float64."""
    weights = start()
    means, squares = [[np.zeros(shape) for shape in SHAPES] for _ in range(2)]
    averages = None
    for step, grads in enumerate(gradients(), start=1):
        norm = np.sqrt(sum((grad**2).sum() for grad in grads))
        for i, grad in enumerate(grads):
            grad = grad * min(1, clip / norm)
            means[i] = 0.9 * means[i] + 0.1 * grad
            squares[i] = 0.98 * squares[i] + 0.02 * grad**2
            change = (means[i] / (1 - 0.9**step)) / (np.sqrt(squares[i] / (1 - 0.98**step)) + 1e-9)
            own = decay if len(SHAPES[i]) > 1 else 0
            weights[i] = weights[i] - rate * (change + own * weights[i])
        if momentum is not None:
            averages = [
                weight if step == 1 else momentum * average + (1 - momentum) * weight
                for weight, average in zip(weights, averages or weights, strict=True)
            ]
    return weights, averages


def written_down(optimizer):
    """The same optimizer, as a file would have it."""
    return keras.optimizers.deserialize(json.loads(json.dumps(keras.optimizers.serialize(optimizer))))


def variables():
    return [keras.Variable(value.astype("float32")) for value in start()]


def on_one_device(optimizer):
    weights = variables()
    for grads in gradients():
        optimizer.apply([tf.constant(grad, "float32") for grad in grads], weights)
    return weights


def with_a_scaled_loss(optimizer):
    """As Keras wraps it for float16."""
    weights = variables()
    optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=64.0)
    for grads in gradients():
        optimizer.apply([tf.constant(64 * grad, "float32") for grad in grads], weights)
    return weights


def with_a_fixed_scale(optimizer):
    """As Keras's optimizers have it of themselves."""
    weights = variables()
    optimizer.loss_scale_factor = 64.0
    for grads in gradients():
        optimizer.apply([tf.constant(64 * grad, "float32") for grad in grads], weights)
    return weights


def on_two_devices(optimizer):
    """Each has a share of every gradient, which is nothing like the other's."""
    strategy = make_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 2
    random = np.random.default_rng(2)
    with strategy.scope():
        optimizer, weights = written_down(optimizer), variables()
        optimizer.build(weights)

    @tf.function(autograph=False)
    def step(shares):
        strategy.run(optimizer.apply, args=(shares,))

    for grads in gradients():
        first = [random.normal(size=grad.shape) for grad in grads]
        shares = [first, [grad - share for grad, share in zip(grads, first, strict=True)]]
        step(
            strategy.experimental_distribute_values_from_function(
                lambda context, shares=shares: [
                    tf.constant(share, "float32") for share in shares[context.replica_id_in_sync_group]
                ]
            )
        )
    for weight in weights:
        one, two = strategy.experimental_local_results(weight.value)
        np.testing.assert_array_equal(one, two)
    # For `finalize_variable_values`, which is the optimizer's that took the steps.
    on_two_devices.optimizer = optimizer
    return weights


@pytest.mark.parametrize("train", [on_one_device, with_a_scaled_loss, with_a_fixed_scale, on_two_devices])
@pytest.mark.parametrize("clip_norm", [None, 0.01])
def test_it_tells_how_long_the_last_gradient_was(train, clip_norm):
    optimizer = written_down(TransformerAdam(0.01, clip_norm=clip_norm, keep_gradient_norm=True))
    train(optimizer)
    trained = on_two_devices.optimizer if train is on_two_devices else optimizer
    by_numpy = np.sqrt(sum((grad**2).sum() for grad in gradients()[-1]))
    if train is on_two_devices and clip_norm is None:
        by_numpy = 0  # not known
    assert keras.ops.convert_to_numpy(trained.gradient_norm) == pytest.approx(by_numpy, rel=1e-5)


def test_a_row_that_comes_twice_is_added_up_before_the_gradient_is_measured():
    """`keras.layers.Embedding` gives gradients of rows."""
    rows = tf.IndexedSlices(tf.constant([[3.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), tf.constant([1, 0, 1]), (4, 2))
    weight = keras.Variable(np.zeros((4, 2), "float32"))
    optimizer = TransformerAdam(0.01, clip_norm=1.0, keep_gradient_norm=True)
    optimizer.apply([rows], [weight])
    assert float(optimizer.gradient_norm) == pytest.approx(np.sqrt(6.0**2 + 1.0**2), rel=1e-6)


@pytest.mark.parametrize("train", [on_one_device, with_a_scaled_loss, with_a_fixed_scale, on_two_devices])
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {}),
        ({"weight_decay": 2.0}, {"decay": 2.0}),
        ({"clip_norm": 2.0}, {"clip": 2.0}),
        ({"weight_decay": 2.0, "clip_norm": 0.5, "use_ema": True, "ema_momentum": 0.7}, {"decay": 2.0, "clip": 0.5}),
    ],
    ids=["adam", "decay", "clipping", "all"],
)
def test_it_takes_the_steps_of_the_equations(train, arguments, expected):
    optimizer = written_down(TransformerAdam(0.01, **arguments))
    weights = train(optimizer)
    of_weights, of_averages = by_hand(**expected, momentum=arguments.get("ema_momentum"))
    for weight, value in zip(weights, of_weights, strict=True):
        np.testing.assert_allclose(weight, value, rtol=1e-4, atol=1e-5)
    if of_averages:
        trained = on_two_devices.optimizer if train is on_two_devices else optimizer
        trained.finalize_variable_values(weights)
        for weight, value in zip(weights, of_averages, strict=True):
            np.testing.assert_allclose(weight, value, rtol=1e-4, atol=1e-5)


def test_amsgrad_is_keras_s():
    """The first gradient is the largest, after which it takes smaller steps than Adam."""
    weights = [keras.Variable(np.array([1.0, 2.0], "float32")) for _ in range(3)]
    others = (keras.optimizers.Adam(0.1, 0.9, 0.98, 1e-9, amsgrad=amsgrad) for amsgrad in (True, False))
    optimizers = [TransformerAdam(0.1, amsgrad=True), *others]
    for gradient in [10.0, -3.0], [0.1, 0.2], [0.1, 0.1], [0.1, 0.1]:
        for optimizer, weight in zip(optimizers, weights, strict=True):
            optimizer.apply([tf.constant(gradient)], [weight])
    own, expected, plain = (weight.numpy() for weight in weights)
    np.testing.assert_allclose(own, expected, rtol=1e-5)
    assert np.abs(plain - expected).max() > 1e-4


def test_the_options_of_that_test_make_a_difference():
    plain, _ = by_hand()
    for options in ({"decay": 2.0}, {"clip": 2.0}):
        assert np.abs(by_hand(**options)[0][0] - plain[0]).max() > 0.01
    _, averages = by_hand(momentum=0.7)
    assert np.abs(averages[0] - plain[0]).max() > 0.01


def test_a_gradient_below_the_limit_is_left_alone():
    plain, clipped = on_one_device(TransformerAdam(0.01)), on_one_device(TransformerAdam(0.01, clip_norm=1e4))
    for one, other in zip(plain, clipped, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_clipping_hides_no_gradient_that_is_not_finite(bad):
    weight = keras.Variable(np.zeros(2, "float32"))
    TransformerAdam(0.01, clip_norm=1.0).apply([tf.constant([bad, 1.0])], [weight])
    assert np.isnan(weight.numpy()[0])


@pytest.mark.parametrize("clip_norm", [0, -1.0, np.nan])
def test_a_limit_must_be_above_0(clip_norm):
    with pytest.raises(ValueError, match=f"clip_norm must be above 0, or None for no limit, got {clip_norm}"):
        TransformerAdam(0.01, clip_norm=clip_norm)


@pytest.mark.parametrize("option", [{"clip_norm": 1.0}, {"keep_gradient_norm": True}], ids=str)
def test_what_is_of_the_whole_batch_is_refused_where_keras_gathers_it_in_parts(option):
    with pytest.raises(ValueError, match="set the model's gradient_accumulation instead"):
        TransformerAdam(0.1, gradient_accumulation_steps=2, **option)
    TransformerAdam(0.1, gradient_accumulation_steps=2)


def test_a_transformer_s_matrices_decay_and_its_biases_and_norms_do_not():
    model = Transformer(1, 8, 2, 16, 20, 20, norm_first=True, position="learned", max_length=8)
    model.build(((None, None), (None, None)))
    model.set_weights([np.ones(weight.shape) for weight in model.weights])
    # Without a gradient, decay is all there is.
    TransformerAdam(0.1, weight_decay=0.5).apply(
        [tf.zeros(weight.shape) for weight in model.trainable_weights], model.trainable_weights
    )
    left = {}
    for weight in model.weights:
        kind = weight.path.rpartition("/")[2]
        left.setdefault(kind, set()).update(weight.numpy().astype("float64").round(6).flat)
    assert {kind for kind, values in left.items() if values == {1.0}} == {"bias", "gamma", "beta"}
    assert all(values == {0.95} for kind, values in left.items() if kind not in ("bias", "gamma", "beta"))
    assert {"kernel", "embeddings"} <= set(left)


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_the_user_excludes_from_decay_keeps_its_length_as_well(wrapped):
    """By name and by variable, beside the vectors."""
    weights = [keras.Variable(np.ones((2, 2)), name=name) for name in ("embeddings", "kernel", "other")]
    weights.append(keras.Variable(np.ones(2), name="bias"))
    optimizer = TransformerAdam(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[weights[2]], var_names=["embed"])
    stepping = keras.optimizers.LossScaleOptimizer(optimizer) if wrapped else optimizer
    stepping.apply([tf.zeros(weight.shape) for weight in weights], weights)
    assert [float(weight.numpy().flat[0]) for weight in weights] == pytest.approx([1, 0.95, 1, 1])
    with pytest.raises(ValueError, match="call exclude_from_weight_decay before the optimizer's first step"):
        optimizer.exclude_from_weight_decay(var_names=["kernel"])


@pytest.mark.filterwarnings("error::UserWarning")  # Keras warns of the state that it can't load
def test_what_is_excluded_from_decay_is_kept_in_a_model_s_file(tmp_path):
    """By name and by variable, with the rest of the optimizer's state."""
    layers = [keras.layers.Embedding(5, 4, name="words"), *(keras.layers.Dense(4, name=name) for name in "ab")]
    model = keras.Sequential([keras.Input((2,), dtype="int32"), *layers])
    optimizer = TransformerAdam(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[layers[1].kernel], var_names=["embed"])
    model.compile(optimizer, "mse")
    optimizer.apply([tf.zeros(weight.shape) for weight in model.trainable_weights], model.trainable_weights)
    for _ in range(2):  # what was loaded is saved again
        model.save(tmp_path / "model.keras")
        model = keras.saving.load_model(tmp_path / "model.keras")
    assert model.optimizer.iterations.numpy() == 1
    before = model.get_weights()
    # Without a gradient, decay is all there is.
    model.optimizer.apply([tf.zeros(weight.shape) for weight in before], model.trainable_weights)
    stayed = [np.array_equal(*each) for each in zip(model.get_weights(), before, strict=True)]
    assert stayed == [True, True, True, False, True]  # the embeddings; kernel and bias of a, and of b


def test_excluded_variables_that_a_file_can_not_tell_are_warned_of():
    optimizer = TransformerAdam(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[keras.Variable(np.ones((2, 2)))])
    with pytest.warns(UserWarning, match="saved without the var_list of exclude_from_weight_decay"):
        optimizer.get_config()


def test_without_exclusions_the_config_says_nothing_of_them():
    assert "excluded_from_weight_decay" not in TransformerAdam(0.1, weight_decay=0.5).get_config()


# -- make_optimizer ----


def training(**changes):
    return TrainingSettings(**{"steps": 400, "warmup_steps": 70, "validate_every": 100, **changes})


def test_without_options_it_is_the_paper_s():
    optimizer = make_optimizer(training(learning_rate_scale=0.5), 24)
    config = optimizer.get_config()
    assert (config["beta_1"], config["beta_2"], config["epsilon"]) == (0.9, 0.98, 1e-9)
    assert config["weight_decay"] is None
    assert config["clip_norm"] is None
    assert not config["use_ema"]
    schedule = TransformerSchedule(24, 70, 0.5)
    assert float(optimizer.learning_rate) == pytest.approx(float(schedule(0)), rel=1e-6)
    assert config["learning_rate"]["config"] == schedule.get_config()


def test_each_option_reaches_it():
    config = make_optimizer(training(weight_decay=0.1, clip_norm=2.5, ema=0.95), 24).get_config()
    assert config["weight_decay"] == 0.1
    assert config["clip_norm"] == 2.5
    assert config["use_ema"]
    assert config["ema_momentum"] == 0.95


@pytest.mark.parametrize(
    ("name", "schedule"),
    [("inverse_sqrt", InverseSqrtSchedule(0.002, 70)), ("cosine", CosineSchedule(0.002, 70, 400))],
)
def test_the_schedule_is_the_one_asked_for(name, schedule):
    optimizer = make_optimizer(training(schedule=name, learning_rate=0.002), 24)
    for step in (0, 69, 200, 399):
        optimizer.iterations.assign(step)
        assert float(optimizer.learning_rate) == float(schedule(step))
