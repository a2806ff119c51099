"""What `conftest.py` runs on JAX with two devices: a training on one of them or on both, to compare.

`python -m tests.backends.data_parallel FILE FOLDER NUMBER` writes weights and figures to FILE (.npz); what is told
there of a translator, and of a training from a recipe, whose run would be in FOLDER; and what positions a layer adds
that was made for any length, as by `export`.
"""

import sys

import jax
import keras
import numpy as np

from tests.backends.program import ARGUMENTS, LABELS, SOURCE, TARGET, compiled, transformer
from tf_transformer import (
    PositionEncoding,
    SmoothedCrossEntropy,
    Translator,
    UserError,
    experiment,
    load_recipe,
    train_tokenizers,
)

STEPS = 20


def train():
    model = compiled(transformer(**ARGUMENTS["all"]), SmoothedCrossEntropy(0.1), keras.optimizers.SGD(0.2))
    history = model.fit(
        (SOURCE, TARGET), LABELS, epochs=STEPS, batch_size=len(LABELS), shuffle=False, verbose=0
    ).history
    return model, {name: values[-1] for name, values in history.items()}


def outcome(number):
    chosen = keras.distribution.list_devices("cpu")[:number]
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=chosen))
    model, figures = train()
    for index, weight in enumerate(model.weights):
        yield f"weights/{index:02}", keras.ops.convert_to_numpy(weight)
        yield f"devices/{index:02}", len(weight.value.sharding.device_set)
    yield from ((f"figures/{name}", value) for name, value in figures.items())


def told(folder):
    tokenizers = train_tokenizers([("a dog", "ein Hund"), ("a cat", "eine Katze")], vocab_size=290)
    recipe = load_recipe("train/recipes/demo.yaml")
    for name, attempt in (
        ("translator", lambda: Translator(transformer(), tokenizers)),
        ("training", lambda: experiment.train(recipe, folder)),
    ):
        try:
            attempt()
        except UserError as error:
            yield f"told/{name}", str(error)


def positions():
    """Of five tokens, by the layer itself and by what was made of it; and by that of more tokens than it is for."""
    layer, tokens = PositionEncoding("learned", 7), np.zeros((1, 5, 4), "float32")
    yield "positions/layer", layer(tokens)
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, length, 4"), "float32")
    made = jax.export.export(jax.jit(layer.__call__))(shape)
    yield "positions/made", made.call(tokens)
    yield "positions/too long", made.call(np.zeros((1, 8, 4), "float32"))


if __name__ == "__main__":
    found = {**dict(told(sys.argv[2])), **dict(positions()), **dict(outcome(int(sys.argv[3])))}
    np.savez(sys.argv[1], **found)
