"""The official tutorial's way of decoding, exported as a graph: one sentence at a time, nothing cached."""

from __future__ import annotations

from worker import Options, Translate, serve


def load(options: Options) -> Translate:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its ops are in the graph

    tf.config.threading.set_intra_op_parallelism_threads(options["threads"] // options["streams"])
    tf.config.threading.set_inter_op_parallelism_threads(options["threads"])
    loaded = tf.saved_model.load(options["model"])
    return lambda batch: [loaded.translate(tf.constant(text)).numpy().decode() for text in batch]


if __name__ == "__main__":
    serve(load, ["tensorflow", "tensorflow-text"])
