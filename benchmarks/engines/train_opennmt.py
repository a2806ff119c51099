"""OpenNMT-tf's Transformer, through its own `Model.train`, which makes one update, in a graph."""

from __future__ import annotations

import tempfile

import numpy as np
from training_worker import ADAM, DROPOUT, LABEL_SMOOTHING, Batch, Options, Training, checked_rows, serve


def load(options: Options, batches: list[Batch]) -> Training:
    import tensorflow as tf
    from opennmt_model import assign_weights, make_model

    tf.config.threading.set_intra_op_parallelism_threads(options["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(options["threads"])
    sizes = options["sizes"]
    # Dropout where the others have it: OpenNMT-tf's own is on the attention and inside the feed-forward as well.
    model = make_model(sizes, dropout=DROPOUT, attention_dropout=0.0, ffn_dropout=0.0)
    adam = dict(ADAM)
    params = {
        "optimizer": "Adam",
        "learning_rate": adam.pop("learning_rate"),
        "optimizer_params": adam,
        "label_smoothing": LABEL_SMOOTHING,
        "average_loss_in_time": True,
        # Its loss without dropout comes with a translation, which is thrown away.
        "beam_width": 1,
        "maximum_decoding_length": 1,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".vocabulary") as vocabulary:
        # It is given ids, so the pieces may be called anything. The unknown token comes last and is not in the file.
        vocabulary.writelines(f"{name}\n" for name in ["<blank>", "<s>", "</s>", *range(sizes["vocab_size"] - 4)])
        vocabulary.flush()
        model.initialize({"source_vocabulary": vocabulary.name, "target_vocabulary": vocabulary.name}, params)
        model.create_variables()
    with np.load(options["weights"]) as weights:
        assign_weights(model, weights, sizes["epsilon"], list(range(sizes["vocab_size"])))
    model.set_jit_compile(options["jit_compile"])
    optimizer = model.get_optimizer()

    def examples(batch: Batch) -> tuple[dict, dict]:
        source = {"ids": batch.source, "length": (batch.source != 0).sum(axis=1, dtype="int32")}
        length = (batch.labels != 0).sum(axis=1, dtype="int32")
        target = {"ids": batch.target, "ids_out": batch.labels, "length": length}
        return tuple({name: tf.constant(ids) for name, ids in side.items()} for side in (source, target))

    ids, lengths = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
    signature = {"ids": ids, "length": lengths}, {"ids": ids, "ids_out": ids, "length": lengths}

    @tf.function(input_signature=signature)
    def update(features: dict, labels: dict) -> tf.Tensor:
        return model.train(features, labels, optimizer)

    rounds = [examples(batch) for batch in batches]
    features, labels = examples(checked_rows(batches))

    def train() -> None:
        for batch in rounds:
            last = update(*batch)
        last.numpy()

    def loss() -> float:
        outputs, _ = model(features, labels, training=False)
        total, tokens, _ = model.compute_loss(outputs, labels, training=True)  # which is when labels are smoothed
        return float(total / tokens)

    return Training(sum(int(tf.size(weight)) for weight in model.trainable_weights), train, loss)


if __name__ == "__main__":
    serve(load, ["tensorflow", "OpenNMT-tf"])
