"""This package, through `compile` and `fit`, with the figures that it always keeps."""

from __future__ import annotations

from training_worker import ADAM, DROPOUT, LABEL_SMOOTHING, Batch, Options, Training, checked_rows, serve


def load(options: Options, batches: list[Batch]) -> Training:
    import numpy as np
    from keras_rounds import keras_training, set_up_precision, set_up_threads

    from tf_transformer import Perplexity, SmoothedCrossEntropy, TokenAccuracy, Transformer, TransformerAdam
    from tf_transformer.distributed.strategy import set_single_threaded_operations
    from tf_transformer.training import TokenCount, keep_freed_memory

    keep_freed_memory()  # as the command `train` does
    side_by_side = options.get("side_by_side", False)
    if side_by_side:
        set_single_threaded_operations(options["threads"])
    else:
        set_up_threads(options)
    set_up_precision(options)
    sizes = options["sizes"]
    model = Transformer(
        num_layers=sizes["num_layers"],
        d_model=sizes["d_model"],
        num_heads=sizes["num_heads"],
        dff=sizes["dff"],
        input_vocab_size=sizes["vocab_size"],
        target_vocab_size=sizes["vocab_size"],
        dropout_rate=DROPOUT,
        max_length=sizes["max_length"],
        share_embeddings="all",
    )
    model.build(((None, None), (None, None)))
    with np.load(options["weights"]) as weights:
        for weight in model.weights:
            weight.assign(weights[weight.path.split("/", 1)[1]])
    model.compile(
        optimizer=TransformerAdam(**ADAM),
        loss=SmoothedCrossEntropy(LABEL_SMOOTHING),
        metrics=[Perplexity(), TokenAccuracy(), TokenCount()],
        jit_compile=options["jit_compile"],
    )
    model.parallel_parts = options["threads"] if side_by_side else 1
    return keras_training(model, batches, checked_rows(batches))


if __name__ == "__main__":
    serve(load, ["tensorflow", "keras"])
