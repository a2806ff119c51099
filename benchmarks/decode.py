"""Times decoding: one trained model in several engines, in turns. See README.md."""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from exports import EXTRA_LENGTH, export_saved_model, special_tokens, write_plain_weights
from machine import describe_machine
from processes import EngineProcess
from report import Result, circumstances, table

from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model

OURS = "tf_transformer"


@dataclass(frozen=True)
class Engine:
    """How an engine is run.

    Attributes:
        script: its file in `engines/`.
        model: its model's folder; `{beam_size}` and `{alpha}` where the export has them.
        python: whose Python runs it: "own", "opennmt" or "peers".
        takes: "text" or "pieces", as what it gives.
        beam_sizes: those it has; all unless given.
        most_at_once: the largest batch it takes.
        from_plain_weights: whether its model is made from weights in an archive.
    """

    script: str
    model: str
    python: str
    takes: str = "pieces"
    beam_sizes: tuple[int, ...] | None = None
    most_at_once: int | None = None
    from_plain_weights: bool = False


ENGINES = {
    OURS: Engine("saved_model.py", "tf_transformer-beam{beam_size}-alpha{alpha}/1", "own", takes="text"),
    "tutorial": Engine("tutorial.py", "tutorial", "own", takes="text", beam_sizes=(1,), most_at_once=1),
    "CTranslate2 float32": Engine("ct2.py", "ctranslate2-float32", "peers"),
    "CTranslate2 float16": Engine("ct2.py", "ctranslate2-float16", "peers"),
    "CTranslate2 int8": Engine("ct2.py", "ctranslate2-int8", "peers"),
    "OpenNMT-tf": Engine("opennmt_tf.py", "opennmt-beam{beam_size}-alpha{alpha}", "opennmt", from_plain_weights=True),
    "Marian": Engine("marian.py", "marian", "peers", from_plain_weights=True),
}

# What runs on a GPU here; float16 is the GPU's alone.
GPU_ENGINES = [OURS, "CTranslate2 float32", "CTranslate2 float16", "CTranslate2 int8"]
CPU_ENGINES = [name for name in ENGINES if name != "CTranslate2 float16"]


class Benchmark:
    """One run of it.

    Args:
        arguments: as `parse_arguments` gives them.
        folder: where the engines' models and logs go.
    """

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments = arguments
        self.folder = folder
        self.model = load_model(arguments.run, "float32")
        self.tokenizers = RunDirectory.open(arguments.run).load_tokenizers()
        self.pythons = {"own": arguments.python, "opennmt": arguments.opennmt_python, "peers": arguments.peers_python}
        texts = _lines(arguments.source)
        references = _lines(arguments.reference) if arguments.reference else [None] * len(texts)
        ids = self.tokenizers.source.tokenize(texts).to_list()
        pieces = [self.tokenizers.source.pieces(row) for row in ids]
        by_length = sorted(zip(pieces, texts, references, strict=True), key=lambda sentence: len(sentence[0]))
        self.sentences = _spread([sentence for sentence in by_length if sentence[0]], arguments.sentences)
        self._check_models()
        self.options = {
            "threads": arguments.threads,
            "streams": arguments.streams,
            "onednn": arguments.onednn,
            "gpu": arguments.gpu,
            "alpha": arguments.alpha,
            "extra_length": EXTRA_LENGTH,
            "longest_source": len(self.sentences[-1][0]),
            **special_tokens(self.tokenizers),
        }
        if any(ENGINES[name].from_plain_weights for name in arguments.engines):
            self.options |= write_plain_weights(self.model, self.tokenizers, folder)

    def _check_models(self) -> None:
        """Raises SystemExit where the folder holds models that were made of something else."""
        weights = hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in self.model.weights)).hexdigest()
        made_of = json.dumps({"weights": weights, "longest_source": len(self.sentences[-1][0])})
        record = self.folder / "made_of.json"
        if any(self.folder.iterdir()) and not (record.exists() and record.read_text() == made_of):
            raise SystemExit(f"{self.folder} holds the models of another run or text; give --models another folder")
        record.write_text(made_of)

    def export(self) -> None:
        """Writes every engine's models, but those that are there already."""
        for name in self.arguments.engines:
            engine = ENGINES[name]
            for beam_size in self._beam_sizes(engine):
                destination = self._model(engine, beam_size)
                if not destination.exists():
                    _tell(f"writing {destination.name}")
                    self._exporter(name)(destination, beam_size)

    def _exporter(self, name: str) -> Callable[[Path, int], Any]:
        model, tokenizers, engine = self.model, self.tokenizers, ENGINES[name]
        if name == OURS:
            return lambda folder, beam_size: export_saved_model(
                model, tokenizers, folder, beam_size, self.arguments.alpha
            )
        if name == "tutorial":
            from tutorial_loop import export_tutorial

            return lambda folder, _: export_tutorial(model, tokenizers, folder, EXTRA_LENGTH)
        if engine.script == "ct2.py":
            from tf_transformer.export.ctranslate2 import export_ctranslate2

            of_weights = name.rpartition(" ")[2]
            quantization = None if of_weights == "float32" else of_weights
            return lambda folder, _: export_ctranslate2(model, tokenizers, folder, quantization)
        return lambda folder, beam_size: self._start(engine, folder, beam_size, 1, export=True).close()

    def _start(
        self, engine: Engine, model: Path, beam_size: int, batch_size: int, export: bool = False
    ) -> EngineProcess:
        sizes = {"beam_size": beam_size, "batch_size": batch_size}
        options = {**self.options, **sizes, "model": str(model), "export": export}
        log = self.folder / f"{engine.script}.log"
        return EngineProcess(self.pythons[engine.python], engine.script, options, log)

    def _model(self, engine: Engine, beam_size: int) -> Path:
        return self.folder / engine.model.format(beam_size=beam_size, alpha=self.arguments.alpha)

    def _beam_sizes(self, engine: Engine) -> list[int]:
        return [size for size in self.arguments.beam_sizes if engine.beam_sizes is None or size in engine.beam_sizes]

    def measure(self, beam_size: int, batch_size: int) -> list[Result]:
        """Times every engine in one setting: each once, then each once more, and so on."""
        workers: dict[str, tuple[EngineProcess, Result, list]] = {}
        for name in self.arguments.engines:
            engine = ENGINES[name]
            if beam_size not in self._beam_sizes(engine):
                continue
            size = min(batch_size, engine.most_at_once or batch_size)
            sentences = self.sentences if size > 1 else _spread(self.sentences, self.arguments.single_sentences)
            process = self._start(engine, self._model(engine, beam_size), beam_size, size)
            inputs = [text if engine.takes == "text" else pieces for pieces, text, _ in sentences]
            process.send([inputs[i : i + size] for i in range(0, len(inputs), size)])
            result = Result(name, beam_size, size, len(sentences), versions=process.hello["versions"])
            result.loaded_mib = process.hello["loaded_mib"]
            workers[name] = process, result, sentences

        translations: dict[str, dict[str, str]] = {}
        for turn in range(self.arguments.runs + 1):
            for name, (process, result, sentences) in workers.items():
                answer = process.ask("pass")
                result.peak_mib = answer["peak_mib"]
                if turn:
                    result.seconds.append(answer["seconds"])
                else:  # not counted: caches fill and graphs are optimised
                    texts = self._texts(answer["translations"])
                    translations[name] = dict(zip((text for _, text, _ in sentences), texts, strict=True))
                _tell(f"beam {beam_size}, batch {batch_size}, run {turn}, {name}: {answer['seconds']:.2f} s")
        for name, (process, result, sentences) in workers.items():
            process.close()
            self._judge(result, sentences, translations[name], translations.get(OURS, {}))
        return [result for _, result, _ in workers.values()]

    def _texts(self, translations: list[str | list[str]]) -> list[str]:
        """Pieces become text."""
        if isinstance(translations[0], str):
            return translations
        target = self.tokenizers.target
        ids = {piece: i for i, piece in enumerate(target.pieces(list(range(target.vocab_size))))}
        rows = tf.ragged.constant([[ids[piece] for piece in row] for row in translations], tf.int32, ragged_rank=1)
        return [text.decode() for text in target.detokenize(rows).numpy()]

    def _judge(self, result: Result, sentences: list, found: dict[str, str], ours: dict[str, str]) -> None:
        """Counts the tokens and compares the translations."""
        texts = [found[text] for _, text, _ in sentences]
        result.tokens = int(self.tokenizers.target.tokenize(texts).row_lengths().numpy().sum())
        both = found.keys() & ours.keys()
        if both:
            result.equal = sum(found[text] == ours[text] for text in both) / len(both)
        if self.arguments.reference and len(sentences) == len(self.sentences):
            import sacrebleu

            result.bleu = sacrebleu.corpus_bleu(texts, [[reference for _, _, reference in sentences]]).score


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").rstrip("\n").split("\n")


def _spread(sentences: list, most: int | None) -> list:
    """At most so many, evenly from first to last."""
    count = min(most or len(sentences), len(sentences))
    return [sentences[i * len(sentences) // count] for i in range(count)]


def _tell(message: str) -> None:
    print(message, flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a trained run")
    parser.add_argument("--source", type=Path, required=True, help="file to translate, one sentence per line")
    parser.add_argument("--reference", type=Path, help="its translation, for BLEU in the table")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, metavar="ENGINE")
    parser.add_argument("--beam-sizes", nargs="+", type=int, default=[4, 1])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[32, 8, 1])
    parser.add_argument("--alpha", type=float, default=0.6, help="strength of the length penalty")
    parser.add_argument("--runs", type=int, default=5, help="timed passes of each engine")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--streams", type=int, default=2, help="batches at once, which share the threads")
    parser.add_argument(
        "--gpu", action="store_true", help="use the GPU; for the engines tf_transformer and CTranslate2"
    )
    parser.add_argument("--onednn", type=int, choices=(0, 1), default=0, help="TF_ENABLE_ONEDNN_OPTS")
    parser.add_argument("--sentences", type=int, help="maximum number of sentences, spread evenly over the lengths")
    parser.add_argument(
        "--single-sentences", type=int, default=200, help="the same for translation one sentence at a time"
    )
    parser.add_argument("--models", type=Path, help="folder that keeps the engines' models for later calls")
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    venv = Path(__file__).parents[1]
    parser.add_argument("--python", default=str(venv / ".venv/bin/python"), help="Python for the SavedModels")
    parser.add_argument("--opennmt-python", default=str(venv / ".venv-opennmt/bin/python"))
    parser.add_argument("--peers-python", default=str(venv / ".venv-peers/bin/python"))
    arguments = parser.parse_args()
    engines = GPU_ENGINES if arguments.gpu else CPU_ENGINES
    arguments.engines = arguments.engines or engines
    for name in arguments.engines:
        if name not in engines:
            parser.error(
                f"{name}: not {'with' if arguments.gpu else 'without'} --gpu; choose from {', '.join(engines)}"
            )
    for name, engine in ((name, ENGINES[name]) for name in arguments.engines):
        python = {"own": arguments.python, "opennmt": arguments.opennmt_python, "peers": arguments.peers_python}
        if not Path(python[engine.python]).exists():
            parser.error(f"{name}: no Python at {python[engine.python]}; `make bench-decode` makes it")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        tf.config.set_visible_devices([], "GPU")  # of this process: the GPU is the engines'
        benchmark = Benchmark(arguments, folder)
        benchmark.export()
        tables, results = [], []
        for beam_size in arguments.beam_sizes:
            for batch_size in arguments.batch_sizes:
                setting = benchmark.measure(beam_size, batch_size)
                results += setting
                tables.append(table(setting, OURS))
    streams = {"streams": arguments.streams, "onednn": arguments.onednn}
    machine = {**describe_machine(arguments.threads, arguments.gpu), **streams}
    print("\n" + "\n".join(tables) + "\n" + circumstances(machine, results, arguments.runs))
    if arguments.output:
        figures = {"machine": machine, "results": [asdict(result) for result in results]}
        arguments.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
