"""This package's SavedModel, loaded without the package: text in, text out."""

from __future__ import annotations

from worker import Options, Translate, serve


def load(options: Options) -> Translate:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its ops are in the graph

    tf.config.threading.set_intra_op_parallelism_threads(options["threads"] // options["streams"])
    tf.config.threading.set_inter_op_parallelism_threads(options["threads"])
    loaded = tf.saved_model.load(options["model"])
    # The lengths that sources are padded to, and the first one that holds the longest.
    lengths = [length for length in (16, 32, 64, 128) if length < 2 * (options["longest_source"] + 1)]
    if options["batch_size"] * options["beam_size"] <= 8:  # for which `serve` compiles too
        rows = tf.constant([options["batch_size"]] * len(lengths))
        loaded.signatures["warm_up"](rows=rows, lengths=tf.constant(lengths))

    def translate(batch: list[str]) -> list[str]:
        output = loaded.signatures["translate"](text=tf.constant(batch))
        return [text.decode() for text in output["translation"].numpy()]

    return translate


if __name__ == "__main__":
    serve(load, ["tensorflow", "tensorflow-text"])
