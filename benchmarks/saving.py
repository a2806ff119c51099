"""How long it takes to save the whole state of a training, once a minute, by the size of the model.

python benchmarks/saving.py
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tf_transformer import Transformer, TransformerAdam
from tf_transformer.models.presets import PRESETS
from tf_transformer.runs import Checkpoints
from tf_transformer.runs.state import TrainingState

TIMES = 5
MODELS = {
    "Transformer-Tiny, 10,000 tokens": (10_000, {"num_layers": 4, "d_model": 128, "num_heads": 4, "dff": 256}),
    "base, 37,000 tokens": (37_000, PRESETS["base"].model),
}


def measure(vocabulary: int, arguments: dict) -> tuple[int, int, list[tuple[float, float]]]:
    """Saves a model's state some times; returns its parameters, the bytes of a state, and how long each took.

    The first of two times is what training waits for; the second, from the beginning too, when the state lies there.
    """
    arguments = {"share_embeddings": "all", **arguments}
    model = Transformer(**arguments, input_vocab_size=vocabulary, target_vocab_size=vocabulary)
    model.build(((None, None), (None, None)))
    model.compile(TransformerAdam(1e-3), "mse")
    model.optimizer.build(model.trainable_variables)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        state = TrainingState(folder, Checkpoints(folder))
        state.set_model(model)
        seconds = []
        for step in range(TIMES):
            model.optimizer.iterations.assign(step + 1)
            began = time.perf_counter()
            state.save()
            copied = time.perf_counter()
            state.wait()
            seconds.append((copied - began, time.perf_counter() - began))
        size = sum(file.stat().st_size for file in Path(state.saved()[-1]).iterdir())
    return model.count_params(), size, seconds


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("| model | parameters | state, MiB | training waits, s | share of a minute | state on disk after, s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (vocabulary, arguments) in MODELS.items():
        parameters, size, seconds = measure(vocabulary, arguments)
        waits, whole = (statistics.median(each) for each in zip(*seconds, strict=True))
        print(f"| {name} | {parameters:,} | {size / 2**20:,.0f} | {waits:.2f} | {waits / 60:.1%} | {whole:.2f} |")


if __name__ == "__main__":
    main()
