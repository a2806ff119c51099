"""What `test_multi_worker.py` runs as each of several workers: small trainings with Keras's own `fit`, to compare.

`TF_CONFIG=... python -m tests.distributed.worker FILE CASE...` writes weights and figures to FILE (.npz); in the case
`mend`, what Keras does without the mend for it. NumPy draws the batches, so that all processes have the same ones.
Operations take one thread each, as `parallel_parts` has them; what came of that is written too.
"""

import signal
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from tf_transformer import (
    Perplexity,
    SmoothedCrossEntropy,
    TokenAccuracy,
    Transformer,
    TransformerSchedule,
    UserError,
    make_strategy,
)
from tf_transformer.distributed.cluster import read_cluster
from tf_transformer.distributed.multi_worker import MultiWorkerStrategy, check_agreement, chief_first, worker_share
from tf_transformer.distributed.strategy import set_single_threaded_operations
from tf_transformer.training import TokenCount

STEPS = 20
VOCABULARY = 60
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "adam": lambda: keras.optimizers.Adam(TransformerSchedule(16, 400), beta_2=0.98, epsilon=1e-9),
}
PARTS = {"sgd": 1, "adam": 1, "parts": 3}


def batches(seed: int, number: int) -> tf.data.Dataset:
    """Batches of 12 or 24 rows, of very unequal lengths."""

    def generate():
        random = np.random.default_rng(seed)
        for step in range(number):
            rows = 12 if step % 3 == 0 else 24
            source_ids, labels = (random.integers(4, VOCABULARY, (rows, length)) for length in (7, 9))
            for row in range(rows):
                source_ids[row, 1 + row % 7 :] = 0
                labels[row, 9 * (rows - row) // rows :] = 0
            target_ids = np.pad(labels, [(0, 0), (1, 0)], constant_values=2)[:, :-1] * (labels != 0)
            yield (source_ids, target_ids), labels

    ids = tf.TensorSpec((None, None), tf.int32)
    made = tf.data.Dataset.from_generator(generate, output_signature=((ids, ids), ids))
    options = tf.data.Options()
    options.autotune.enabled = False  # the end of an iterator would wait for its thread, which may sleep for a minute
    return made.apply(tf.data.experimental.assert_cardinality(number)).with_options(options)


def transformer() -> Transformer:
    model = Transformer(1, 16, 2, 32, VOCABULARY, VOCABULARY, dropout_rate=0, max_length=16, share_embeddings="all")
    model.build(((None, None), (None, None)))
    return model


def train(strategy: tf.distribute.Strategy, case: str) -> tuple[Transformer, dict[str, float]]:
    """Trains a model from the same start each time; returns it and the figures that `fit` told."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = transformer()
        model.compile(
            optimizer=OPTIMIZERS.get(case, OPTIMIZERS["sgd"])(),
            loss=SmoothedCrossEntropy(),
            metrics=[Perplexity(), TokenAccuracy(), TokenCount()],
            jit_compile=False,
        )
    model.gradient_accumulation = PARTS[case]
    history = model.fit(
        worker_share(batches(0, STEPS), strategy),
        validation_data=worker_share(batches(1, 4), strategy),
        shuffle=False,
        verbose=0,
    ).history
    return model, {name: values[-1] for name, values in history.items()}


def outcome(strategy: tf.distribute.Strategy, cases: list[str]):
    for case in cases:
        model, figures = train(strategy, case)
        yield from ((f"{case}/weights/{index:02}", value) for index, value in enumerate(model.get_weights()))
        yield from ((f"{case}/figures/{name}", value) for name, value in figures.items())
        if case != "adam":  # elsewhere the weights are compared
            continue
        for number, (inputs, _) in enumerate(batches(2, 2)):
            yield f"{case}/logits/{number}", model(inputs).numpy()


def without_the_mend(strategy: MultiWorkerStrategy):
    """What Keras's two calls of `reduce` come to with the least of models, one mended and the other not."""
    as_mended = MultiWorkerStrategy.reduce
    faults = {"none": lambda value: False, "batch": lambda value: isinstance(value, tuple), "figures": tf.is_tensor}
    for fault, is_faulty in faults.items():

        def reduce(self, reduce_op, value, axis, is_faulty=is_faulty):
            how = tf.distribute.MultiWorkerMirroredStrategy.reduce if is_faulty(value) else as_mended
            return how(self, reduce_op, value, axis)

        MultiWorkerStrategy.reduce = reduce
        with strategy.scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse", jit_compile=False)
        rows = tf.data.Dataset.from_tensors((tf.ones((2, 3)), tf.ones((2, 1))))
        try:
            model.fit(strategy.distribute_datasets_from_function(lambda context, rows=rows: rows), verbose=0)
        except (ValueError, TypeError) as error:
            yield f"mended but for {fault}", str(error)
        else:
            yield f"mended but for {fault}", "works"
    MultiWorkerStrategy.reduce = as_mended


def disagreement(strategy: tf.distribute.Strategy) -> str:
    """What is told where the last worker has something else than the others."""
    cluster = read_cluster()
    own = "other" if cluster.index == len(cluster.tasks) - 1 else "same"
    check_agreement(strategy, recipe={"seed": 1}, vocabulary=["a"])
    try:
        check_agreement(strategy, recipe={"seed": 1}, vocabulary=[own])
    except UserError as error:
        return str(error)
    return ""


def chiefs_mistake(strategy: tf.distribute.Strategy) -> str:
    """What is told where a function that the chief calls first finds a mistake; the others don't call it then."""
    chief = read_cluster().index == 0
    assert chief_first(strategy, lambda: chief) == chief

    def mistaken() -> None:
        raise UserError("a mistake" if chief else "called by another")

    try:
        chief_first(strategy, mistaken)
    except UserError as error:
        return str(error)
    return ""


def heeds_sigterm(came: list[int]) -> bool:
    signal.raise_signal(signal.SIGTERM)
    time.sleep(0.1)
    return bool(came)


if __name__ == "__main__":
    sigterm: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: sigterm.append(number))
    set_at_first = set_single_threaded_operations(3)
    strategy = make_strategy("mirrored")
    cases = sys.argv[2:]
    found = dict(without_the_mend(strategy) if cases == ["mend"] else outcome(strategy, cases))
    found["disagreement"] = disagreement(strategy)
    found["chief's mistake"] = chiefs_mistake(strategy)
    found["heeds SIGTERM"] = heeds_sigterm(sigterm)
    found["threads/set at first"], found["threads/set later"] = set_at_first, set_single_threaded_operations(2)
    found["threads/of an operation"] = tf.config.threading.get_intra_op_parallelism_threads()
    found["threads/operations at once"] = tf.config.threading.get_inter_op_parallelism_threads()
    np.savez(sys.argv[1], **found)
