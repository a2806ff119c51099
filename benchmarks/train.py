"""Times training: one model in several engines, on the same batches, in turns. See README.md."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tensorflow as tf
from machine import describe_machine
from processes import EngineFailed, EngineProcess
from training_batches import count_tokens, sample_batches, save_batches, save_first_weights
from training_report import TrainingResult, settings_tried, training_circumstances, training_table

from tf_transformer.errors import UserError
from tf_transformer.recipe import load_recipe

OURS, FLOOR = "tf_transformer", "matrix products"

# The engines tell the loss of so many sentences (see engines/training_worker.py), and it may differ by so much: they
# spread the smoothed share over all tokens, or over all others, or not over padding.
CHECKED_ROWS = 4
LOSS_TOLERANCE = {"float32": 1e-3, "mixed_bfloat16": 5e-3}


@dataclass(frozen=True)
class Size:
    """A model and its batches.

    Attributes:
        model: its sizes.
        batch_tokens: most positions on a side of a batch.
        batches: how many make a round.
        rounds: how many are timed.
    """

    model: dict[str, int]
    batch_tokens: int
    batches: int
    rounds: int


SIZES = {
    # Multi30k's Transformer-Tiny.
    "tiny": Size({"num_layers": 4, "d_model": 128, "num_heads": 4, "dff": 256, "vocab_size": 10_000}, 4096, 3, 9),
    # The paper's.
    "base": Size({"num_layers": 6, "d_model": 512, "num_heads": 8, "dff": 2048, "vocab_size": 37_000}, 2048, 2, 5),
    "big": Size({"num_layers": 6, "d_model": 1024, "num_heads": 16, "dff": 4096, "vocab_size": 37_000}, 2048, 2, 5),
    # To see that the benchmark works.
    "toy": Size({"num_layers": 1, "d_model": 16, "num_heads": 2, "dff": 32, "vocab_size": 1000}, 256, 3, 2),
}


@dataclass(frozen=True)
class Setting:
    """One way to set an engine up.

    Attributes:
        script: the engine's file in `engines/`.
        python: whose Python runs it: "own", "opennmt", "peers" or "joeynmt".
        options: what the engine reads beside the common ones.
        onednn: TF_ENABLE_ONEDNN_OPTS.
    """

    script: str
    python: str
    options: dict[str, Any] = field(default_factory=dict)
    onednn: int = 1


def _tensorflow(script: str, python: str = "own", **more: Any) -> dict[str, Setting]:
    """The settings of an engine on TensorFlow; `more` are values of `jit_compile` by name."""
    return {
        "graph, oneDNN": Setting(script, python, {"jit_compile": False}),
        "graph, Eigen": Setting(script, python, {"jit_compile": False}, onednn=0),
        "XLA": Setting(script, python, {"jit_compile": True}),
        **{name: Setting(script, python, {"jit_compile": value}) for name, value in more.items()},
    }


ENGINES = {
    OURS: {
        **_tensorflow("train_tf_transformer.py"),
        "parts side by side": Setting("train_tf_transformer.py", "own", {"jit_compile": False, "side_by_side": True}),
    },
    "Keras stock layers": _tensorflow("train_keras.py", **{'jit_compile="auto"': "auto"}),
    "OpenNMT-tf": _tensorflow("train_opennmt.py", "opennmt"),
    "torch.nn.Transformer": {
        "eager": Setting("train_torch.py", "peers", {"compile": False}),
        "torch.compile": Setting("train_torch.py", "peers", {"compile": True}),
        "two processes": Setting("train_torch.py", "peers", {"compile": False, "processes": 2}),
    },
    "JoeyNMT": {"eager": Setting("train_joeynmt.py", "joeynmt")},
    FLOOR: {
        "NumPy": Setting("train_products.py", "own", {"library": "numpy"}),
        "TensorFlow, oneDNN": Setting("train_products.py", "own", {"library": "tensorflow"}),
        "TensorFlow, Eigen": Setting("train_products.py", "own", {"library": "tensorflow"}, onednn=0),
        "PyTorch": Setting("train_products.py", "peers", {"library": "torch"}),
        "parts side by side": Setting("train_products.py", "own", {"library": "tensorflow", "side_by_side": True}),
    },
}

# On a GPU the settings of the CPU's libraries make no difference, and its parts are not the cores.
GPU_ENGINES = {
    OURS: {
        "graph": Setting("train_tf_transformer.py", "own", {"jit_compile": False}),
        "XLA": Setting("train_tf_transformer.py", "own", {"jit_compile": True}),
    },
    "Keras stock layers": {
        "graph": Setting("train_keras.py", "own", {"jit_compile": False}),
        "XLA": Setting("train_keras.py", "own", {"jit_compile": True}),
    },
    "torch.nn.Transformer": {name: ENGINES["torch.nn.Transformer"][name] for name in ("eager", "torch.compile")},
    FLOOR: {"PyTorch": ENGINES[FLOOR]["PyTorch"]},
}

# These train in float32 whatever is asked for.
FLOAT32_ALONE = ("OpenNMT-tf", "JoeyNMT")


class Benchmark:
    """One run of it.

    Args:
        arguments: as `parse_arguments` gives them.
        folder: where batches, weights and logs go.
    """

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments = arguments
        self.folder = folder
        self.settings = GPU_ENGINES if arguments.gpu else ENGINES
        size = SIZES[arguments.size]
        recipe = load_recipe(arguments.recipe, arguments.set)
        self.batches = sample_batches(
            recipe, arguments.batch_tokens or size.batch_tokens, size.model["vocab_size"], arguments.batches
        )
        save_batches(self.batches, folder / "batches.npz")
        checked = tuple(ids[:CHECKED_ROWS] for ids in self.batches[0])
        longest = max(ids.shape[1] for batch in self.batches for ids in batch)
        self.sizes, self.loss = save_first_weights(
            {**size.model, "max_length": longest}, checked, folder / "weights.npz"
        )
        self.tokens = count_tokens(self.batches)
        self.pythons = {name: getattr(arguments, f"{name}_python") for name in ("own", "opennmt", "peers", "joeynmt")}

    def figures(self) -> dict[str, Any]:
        """What was trained, and on what."""
        positions = sum(labels.size for _, _, labels in self.batches)
        shapes = [(*source.shape, target.shape[1]) for source, target, _ in self.batches]
        return {
            "machine": describe_machine(self.arguments.threads, self.arguments.gpu),
            "precision": self.arguments.precision,
            "sizes": self.sizes,
            "batches": {
                "shapes": shapes,  # rows, source length, target length
                "tokens": self.tokens,
                "source_tokens": sum(int(np.count_nonzero(source)) for source, _, _ in self.batches),
                "padding": 1 - self.tokens / positions,
            },
        }

    def measure(self) -> list[TrainingResult]:
        """Times every setting of every engine: each a round, then each one more, and so on; never do two work at once.

        Returns:
            Each engine's fastest setting, which knows the others' rates.
        """
        failures: dict[str, dict[str, str]] = {engine: {} for engine in self.arguments.engines}
        running: list[tuple[EngineProcess, TrainingResult]] = []
        # With a GPU the first round is the CPU's: it traces and compiles, for some engines for minutes.
        at_once = self.arguments.threads if self.arguments.gpu else 1
        with ExitStack() as stack, ThreadPoolExecutor(at_once) as starts:
            settings = list(self._settings())
            started = starts.map(lambda names: self._make_ready(*names, stack), settings)
            for (engine, setting), ready in zip(settings, started, strict=True):
                if isinstance(ready, str):
                    failures[engine][setting] = ready
                else:
                    running.append(ready)
            for turn in range(self.arguments.rounds):
                for process, result in running:
                    waiting = [other for other, _ in running if other is not process]
                    before = sum(other.cpu_seconds() for other in waiting)
                    answer = process.ask("round")
                    used = sum(other.cpu_seconds() for other in waiting) - before
                    result.rounds.append({**answer, "waiting_share": used / answer["seconds"]})
                    rate = self.tokens / answer["seconds"]
                    _tell(f"round {turn + 1}, {result.engine}, {result.setting}: {rate:,.0f} tokens/s")
        results = [result for _, result in running]
        for result in results:
            if result.first_loss is not None and not result.rounds[-1]["loss"] < result.first_loss:
                raise SystemExit(f"{result.engine}: the loss has not decreased: {result.first_loss} {result.rounds}")
        return [self._fastest(engine, results, failures[engine]) for engine in self.arguments.engines]

    def _settings(self) -> Iterator[tuple[str, str]]:
        for engine in self.arguments.engines:
            settings = self.settings[engine]
            chosen = [name for name in settings if name in (self.arguments.settings or ())]
            yield from ((engine, setting) for setting in chosen or settings)

    def _fastest(self, engine: str, results: list[TrainingResult], failures: dict[str, str]) -> TrainingResult:
        settings = [result for result in results if result.engine == engine]
        if not settings:
            raise SystemExit(f"{engine}: none of its settings works: {failures}")
        best = max(settings, key=lambda result: median(result.rates))
        best.tried = {result.setting: median(result.rates) for result in settings} | failures
        return best

    def _make_ready(self, engine: str, setting: str, stack: ExitStack) -> tuple[EngineProcess, TrainingResult] | str:
        """Starts an engine and has it make its first round; gives why, if that fails."""
        try:
            process = self._start(engine, setting, stack)
            seconds = process.ask("warm-up")["seconds"]
        except EngineFailed as failure:
            reason = f"failed ({str(failure).splitlines()[-1]})"
            _tell(f"{engine}, {setting}: {reason}")
            return reason
        _tell(f"warm-up, {engine}, {setting}: {seconds:.2f} s")
        parameters, loss, versions = (process.hello[name] for name in ("parameters", "loss", "versions"))
        return process, TrainingResult(
            engine, setting, self.tokens, parameters, loss, warm_up_seconds=seconds, versions=versions
        )

    def _start(self, engine: str, name: str, stack: ExitStack) -> EngineProcess:
        """Starts an engine, and makes sure that it has the same model as all."""
        setting = self.settings[engine][name]
        options = {
            "threads": self.arguments.threads,
            "streams": 1,
            "gpu": self.arguments.gpu,
            "precision": self.arguments.precision,
            "onednn": setting.onednn,
            "batches": str(self.folder / "batches.npz"),
            "weights": str(self.folder / "weights.npz"),
            "sizes": self.sizes,
            **setting.options,
        }
        log = self.folder / f"{Path(setting.script).stem}-{name}.log"
        process = EngineProcess(self.pythons[setting.python], setting.script, options, log)
        stack.callback(process.close)
        loss, parameters = process.hello["loss"], process.hello["parameters"]
        if loss is not None and abs(loss - self.loss) > LOSS_TOLERANCE[self.arguments.precision] * self.loss:
            raise SystemExit(f"{engine}, {name}: with the same weights its loss is {loss:.5f}, not {self.loss:.5f}")
        if loss is not None and parameters != self.sizes["parameters"]:
            raise SystemExit(f"{engine}, {name}: it has {parameters} parameters, not {self.sizes['parameters']}")
        return process


def _tell(message: str) -> None:
    print(message, flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "recipe", type=Path, help="recipe with the corpus and tokenizer, such as train/recipes/demo.yaml"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="replaces a setting of the recipe"
    )
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, metavar="ENGINE")
    parser.add_argument(
        "--settings",
        nargs="+",
        metavar="SETTING",
        help="only these settings, of the engines that have them, such as XLA",
    )
    parser.add_argument("--batch-tokens", type=int, help="maximum positions per side of a batch")
    parser.add_argument("--batches", type=int, help="batches per round")
    parser.add_argument("--rounds", type=int, help="timed rounds of each engine")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--gpu", action="store_true", help="train on the GPU, with the engines that support it")
    parser.add_argument(
        "--precision",
        choices=LOSS_TOLERANCE,
        default="float32",
        help="except in float32, OpenNMT-tf and JoeyNMT are left out",
    )
    parser.add_argument("--folder", type=Path, help="folder for batches, weights and logs")
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    root = Path(__file__).parents[1]
    parser.add_argument("--own-python", default=str(root / ".venv/bin/python"))
    for name in "opennmt", "peers", "joeynmt":
        parser.add_argument(f"--{name}-python", default=str(root / f".venv-{name}/bin/python"))
    arguments = parser.parse_args()
    arguments.batches = arguments.batches or SIZES[arguments.size].batches
    arguments.rounds = arguments.rounds or SIZES[arguments.size].rounds
    engines = GPU_ENGINES if arguments.gpu else ENGINES
    unable = FLOAT32_ALONE if arguments.precision != "float32" else ()
    arguments.engines = arguments.engines or [name for name in engines if name not in unable]
    for name in arguments.engines:
        if name not in engines:
            parser.error(f"{name}: it has no setting for --gpu; {', '.join(engines)} do")
        if name in unable:
            parser.error(f"{name}: it only trains in float32; leave it out of --engines, or leave out --precision")
        for setting in engines[name].values():
            python = getattr(arguments, f"{setting.python}_python")
            if not Path(python).exists():
                parser.error(f"{name}: no Python at {python}; `make bench-train` makes it")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    tf.config.set_visible_devices([], "GPU")  # of this process: the GPU is the engines'
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            benchmark = Benchmark(arguments, folder)
        except UserError as error:
            raise SystemExit(str(error)) from None
        results = benchmark.measure()
        figures = benchmark.figures()
    parts = training_table(results, OURS, FLOOR), settings_tried(results), training_circumstances(figures, results)
    print("\n" + "\n\n".join(part for part in parts if part))
    if arguments.output:
        figures["results"] = [asdict(result) for result in results]
        arguments.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
