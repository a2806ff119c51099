"""What `test_data_parallel.py` runs on JAX with two devices: trainings on one of them and on both, to compare.

`python -m tests.backends.data_parallel FILE` writes weights and figures to FILE (.npz), named by the number of devices.
"""

import sys

import keras
import numpy as np

from tests.backends.program import ARGUMENTS, LABELS, SOURCE, TARGET, compiled, transformer
from tf_transformer import SmoothedCrossEntropy

STEPS = 20


def train():
    model = compiled(transformer(**ARGUMENTS["all"]), SmoothedCrossEntropy(0.1), keras.optimizers.SGD(0.2))
    history = model.fit(
        (SOURCE, TARGET), LABELS, epochs=STEPS, batch_size=len(LABELS), shuffle=False, verbose=0
    ).history
    return model, {name: values[-1] for name, values in history.items()}


def outcome():
    devices = keras.distribution.list_devices("cpu")
    for chosen in devices[:1], devices:
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=chosen))
        model, figures = train()
        for index, weight in enumerate(model.weights):
            yield f"{len(chosen)}/weights/{index:02}", keras.ops.convert_to_numpy(weight)
            yield f"{len(chosen)}/devices/{index:02}", len(weight.value.sharding.device_set)
        yield from ((f"{len(chosen)}/figures/{name}", value) for name, value in figures.items())


if __name__ == "__main__":
    np.savez(sys.argv[1], **dict(outcome()))
