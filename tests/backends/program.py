"""What `test_backends.py` runs once on each of Keras's backends, in a process of its own, to compare what comes out.

`python -m tests.backends.program FILE` writes arrays to FILE (.npz), named by case and kind. NumPy draws the weights,
so that all backends start from the same ones. Nothing here but Keras's own `compile`, `fit` and `evaluate`.
"""

import sys

import keras
import numpy as np
from keras import ops

from tests import reference
from tf_transformer import (
    Perplexity,
    SmoothedCrossEntropy,
    TokenAccuracy,
    Transformer,
    TransformerAdam,
    TransformerSchedule,
)
from tf_transformer.decoding import Stepper, greedy_search
from tf_transformer.training import TokenCount
from tf_transformer.training.loss_scaling import LossScaling
from tf_transformer.training.projected_loss import projected_cross_entropy

SIZES = {"num_layers": 1, "d_model": 16, "num_heads": 4, "dff": 24, "dropout_rate": 0.0, "max_length": 12}
VOCABULARY = 23
# Unequal lengths on both sides, and a row of nothing but padding.
SOURCE = np.array([[5, 9, 14, 22, 7, 3], [8, 17, 3, 0, 0, 0], [3, 0, 0, 0, 0, 0], [0] * 6], "int32")
TARGET = np.array([[2, 6, 11, 0, 0], [2, 19, 4, 4, 21], [2, 13, 0, 0, 0], [0] * 5], "int32")
LABELS = np.array([[6, 11, 3, 0, 0], [19, 4, 4, 21, 3], [13, 3, 0, 0, 0], [0] * 5], "int32")

ARGUMENTS = {
    "all": {"share_embeddings": "all"},
    "target": {"share_embeddings": "target", "norm_first": True, "position": "learned", "input_vocab_size": 29},
    "none": {"share_embeddings": "none", "key_dim": 5, "value_dim": 7},
}
ALPHA = 0.7
# JAX compiles, as it does by default. TensorFlow's graphs are for other tests: tracing them takes longer than this.
MODE = {"jit_compile": True} if keras.backend.backend() == "jax" else {"run_eagerly": True}


def transformer(**arguments):
    sizes = {**SIZES, "input_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY}
    model = Transformer(**{**sizes, **arguments})
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


def compiled(model, loss, optimizer, loss_weights=None):
    model.compile(optimizer, loss, loss_weights, metrics=[Perplexity(), TokenAccuracy(), TokenCount()], **MODE)
    return model


def fit(model, epochs=1):
    return model.fit((SOURCE, TARGET), LABELS, epochs=epochs, batch_size=len(LABELS), shuffle=False, verbose=0).history


def a_step(arguments, loss, loss_weights=None, activity=None):
    """Logits and `evaluate`'s figures before a step of `fit`; the step's figures, and the weights after it.

    With `activity`, a regularizer, a layer adds to the loss when it is called.
    """
    model = compiled(transformer(**arguments), loss, keras.optimizers.SGD(0.5), loss_weights)
    model.encoder.layers[0].feed_forward.hidden.activity_regularizer = activity
    yield "logits", model((SOURCE, TARGET))
    for name, value in model.evaluate((SOURCE, TARGET), LABELS, verbose=0, return_dict=True).items():
        yield f"evaluate/{name}", value
    for name, (value,) in fit(model).items():
        yield f"fit/{name}", value
    for weight in model.weights:
        yield f"weights/{weight.path.partition('/')[2]}", weight


def learning(model):
    """The losses of 30 steps with all kinds of dropout, R-Drop, and the paper's optimizer with what it can do."""
    optimizer = TransformerAdam(TransformerSchedule(16, 10, scale=0.3), weight_decay=0.01, clip_norm=5.0)
    return fit(compiled(model, SmoothedCrossEntropy(0.0, r_drop=0.5), optimizer), epochs=30)["loss"]


class Head(keras.Model):
    """A loss of two matrices, whose gradients are what a step of rate 1 takes off them."""

    def __init__(self, loss, states, embeddings):
        super().__init__()
        self.loss_of_batch = loss
        self.matrices = [self.add_weight(shape=matrix.shape) for matrix in (states, embeddings)]
        self.set_weights([states, embeddings])

    def call(self, labels):
        return labels

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        states, embeddings = (ops.cast(matrix, "float32") for matrix in self.matrices)
        return self.loss_of_batch(states, embeddings, ops.cast(y, "int32"))


def projected(r_drop):
    """In several chunks, of which the last is filled up."""

    def loss(states, embeddings, labels):
        return projected_cross_entropy(states, embeddings, labels, 0.1, r_drop, chunk_logits=5 * VOCABULARY).loss

    return loss


def by_formula(states, embeddings, labels):
    """The summed loss, with two predictions half of R-Drop's (Liang et al., 2021, equation 4), by autodiff."""
    log_probabilities = ops.log_softmax(ops.matmul(states, ops.transpose(embeddings)))
    log_p, log_q = ops.unstack(log_probabilities, 2) if len(states.shape) == 3 else [log_probabilities] * 2
    target = 0.9 * ops.one_hot(labels, VOCABULARY) + 0.1 / VOCABULARY
    cross_entropy = -ops.sum(target * (log_p + log_q), axis=-1) / 2
    divergence = ops.sum((ops.exp(log_p) - ops.exp(log_q)) * (log_p - log_q), axis=-1)
    return ops.sum(ops.cast(labels != 0, "float32") * (cross_entropy + ALPHA / 4 * divergence))


def value_and_gradients(loss, copies):
    random = np.random.default_rng(0)
    labels = random.integers(0, VOCABULARY, 11).astype("int32")
    labels[[2, 7]] = 0
    shape = (11, 8) if copies == 1 else (copies, 11, 8)
    matrices = [random.standard_normal(shape) for shape in (shape, (VOCABULARY, 8))]
    model = Head(loss, *(matrix.astype("float32") for matrix in matrices))
    model.compile(keras.optimizers.SGD(1.0), **MODE)
    before = model.get_weights()
    yield "value", model.fit(labels, labels, batch_size=len(labels), shuffle=False, verbose=0).history["loss"][0]
    for name, old, new in zip(("states", "embeddings"), before, model.get_weights(), strict=True):
        yield name, old - new


def steps_with_one_left_out():
    """Three steps, of which the first has gradients of 2**128, beyond float32; all, and those with an update."""
    model = Head(lambda states, embeddings, labels: 2 * (ops.sum(states) + ops.sum(embeddings)), *np.ones((2, 3, 2)))
    optimizer = LossScaling(keras.optimizers.SGD(1.0), initial_scale=2.0**127)
    model.compile(optimizer, **MODE)
    labels = np.ones(2, "int32")
    model.fit(labels, labels, epochs=3, batch_size=2, verbose=0)
    return [int(ops.convert_to_numpy(count)) for count in (optimizer.steps, optimizer.iterations)]


def refusals(arguments):
    """What is told of `fit` with each of the two kinds of parts."""
    told = []
    for option in ("gradient_accumulation", "parallel_parts"):
        model = compiled(transformer(**arguments), SmoothedCrossEntropy(), keras.optimizers.SGD(0.5))
        setattr(model, option, 2)
        try:
            fit(model)
            told.append("")
        except ValueError as error:
            told.append(str(error))
    return told


def translations():
    """Greedy search's; not on JAX, whose loops let no cache grow."""
    if keras.backend.backend() == "jax":
        return []
    stepper = Stepper(transformer(**ARGUMENTS["all"]))
    ids, _ = greedy_search(stepper, stepper.start_cache(SOURCE[:3]), np.array([6, 5, 7]), start_id=2, end_id=3)
    return ids


def functional(model):
    """The logits of a functional model that is this one, for any batch size and lengths."""
    inputs = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    return keras.Model(inputs, model(inputs))((SOURCE, TARGET))


def outcome():
    yield "backend", keras.backend.backend()
    yield "functional/learned positions", functional(transformer(**ARGUMENTS["target"]))
    yield "functional/sinusoids", functional(transformer(**ARGUMENTS["all"]))
    loss = SmoothedCrossEntropy(0.1)
    runs = {name: a_step(arguments, loss) for name, arguments in ARGUMENTS.items()}
    # A function has no `of_states`, so that `fit` goes over the logits.
    runs["plain"] = a_step(ARGUMENTS["target"], loss.call)
    added = {"loss_weights": [0.5], "activity": keras.regularizers.L2(0.01)}
    runs["added"] = a_step(ARGUMENTS["target"], loss, **added)
    runs["plain, added"] = a_step(ARGUMENTS["target"], loss.call, **added)
    runs["no dropout"] = a_step(ARGUMENTS["all"], SmoothedCrossEntropy(0.1, r_drop=1.0))
    runs["formula/r_drop"] = value_and_gradients(by_formula, copies=2)
    runs["formula/single"] = value_and_gradients(by_formula, copies=1)
    runs["projected/r_drop"] = value_and_gradients(projected(ALPHA), copies=2)
    runs["projected/single"] = value_and_gradients(projected(0.0), copies=1)
    for run, figures in runs.items():
        for name, value in figures:
            yield f"{run}/{name}", value
    yield "translations", translations()
    yield "steps", steps_with_one_left_out()
    yield "refusals", refusals(ARGUMENTS["all"])
    rates = {"dropout_rate": 0.1, "attention_dropout_rate": 0.1, "activation_dropout_rate": 0.1}
    model = transformer(**ARGUMENTS["all"], **rates, dtype="mixed_bfloat16")
    yield "learning", learning(model)
    yield "tensorflow is loaded", "tensorflow" in sys.modules
    model.save(sys.argv[1] + ".keras")
    yield "learned/logits", ops.cast(model((SOURCE, TARGET)), "float32")


if __name__ == "__main__":
    np.savez(
        sys.argv[1],
        **{
            name: value if isinstance(value, (str, bool, list)) else ops.convert_to_numpy(value)
            for name, value in outcome()
        },
    )
