"""Dense is a matrix product, a bias and an activation on the last axis, with Keras's gradient and weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.layers.dense import Dense


@pytest.mark.parametrize("positions", [(5,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("use_bias", [True, False])
def test_it_is_a_product_on_the_last_axis(positions, use_bias):
    random = np.random.default_rng(0)
    layer = Dense(4, activation="relu", use_bias=use_bias)
    x = random.standard_normal((*positions, 6)).astype("float32")
    layer.build(x.shape)
    layer.set_weights([random.standard_normal(weight.shape) for weight in layer.weights])
    kernel, *bias = (np.asarray(weight, "float64") for weight in layer.get_weights())
    expected = np.maximum(np.einsum("...i,ij->...j", x.astype("float64"), kernel) + (bias[0] if bias else 0), 0)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-5, atol=1e-6)


def test_its_gradient_is_that_of_keras_s_layer():
    random = np.random.default_rng(1)
    x, upstream = (tf.constant(random.standard_normal((2, 3, width)), tf.float32) for width in (6, 4))
    weights = [random.standard_normal(shape) for shape in ((6, 4), (4,))]
    gradients = []
    for layer in (Dense(4, activation="relu"), keras.layers.Dense(4, activation="relu")):
        layer.build((2, 3, 6))
        layer.set_weights(weights)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(layer(x) * upstream)
        gradients.append(tape.gradient(value, [x, *(weight.value for weight in layer.trainable_weights)]))
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_product_and_bias_are_joined_in_a_graph():
    """What it is there for: between them lies no reshape, across which TensorFlow could not join them."""
    layer = Dense(4)
    layer.build((None, None, 6))
    graph = tf.function(layer, input_signature=[tf.TensorSpec((None, None, 6))]).get_concrete_function().graph
    (bias,) = (operation for operation in graph.get_operations() if operation.type in ("BiasAdd", "AddV2"))
    assert "MatMul" in [tensor.op.type for tensor in bias.inputs]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_gradient_of_a_bias_in_half_precision_is_a_product(dtype):
    """With whole numbers, of which neither dtype rounds any."""
    random = np.random.default_rng(2)
    x, upstream = (random.integers(-3, 4, (2, 3, width)).astype("float32") for width in (6, 4))
    layer = Dense(4, dtype=f"mixed_{dtype}")
    layer.build((None, None, 6))
    kernel, bias = (random.integers(-3, 4, weight.shape).astype("float32") for weight in layer.weights)
    layer.set_weights([kernel, bias])

    @tf.function(input_signature=[tf.TensorSpec((None, None, 6))], autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            output = layer(x)
        return output, tape.gradient(output, layer.trainable_weights, tf.cast(upstream, dtype))

    graph = step.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    assert not any(node.op == "BiasAddGrad" for node in nodes)
    output, (of_kernel, of_bias) = step(x)
    np.testing.assert_array_equal(tf.cast(output, tf.float32), x @ kernel + bias)
    np.testing.assert_array_equal(of_kernel, np.einsum("abi,abj->ij", x, upstream))
    np.testing.assert_array_equal(of_bias, upstream.sum(axis=(0, 1)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_gradient_of_a_bias_of_many_rows_is_as_exact_as_its_dtype(dtype):
    random = np.random.default_rng(3)
    layer = Dense(8, dtype=f"mixed_{dtype}")
    layer.build((None, 4))
    upstream = tf.cast(random.normal(0.05, 1, (20_000, 8)) / 64, dtype)
    with tf.GradientTape() as tape:
        output = layer(np.zeros((20_000, 4), "float32"))
    (of_bias,) = tape.gradient(output, [layer.bias.value], upstream)
    exact = tf.cast(upstream, tf.float64).numpy().sum(axis=0)
    np.testing.assert_allclose(tf.cast(of_bias, tf.float64), exact, rtol=0.01, atol=0.01 * np.abs(exact).mean())
