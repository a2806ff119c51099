"""How fast data is prepared, batches are made, and a training begins. See README.md."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from machine import memory
from processes import in_a_process

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # of the processes below

COMMAND = Path(sys.executable).with_name("tf-transformer")
STOPPED = 75  # the status after SIGTERM

# How many sentences are joined to one, and how often: 22 words a side in the mean, and lengths as unlike as in WMT.
JOINED, SHARES = (1, 2, 3, 4, 5), (10, 25, 30, 20, 15)

RECIPE = """
name: data
data: {{kind: files, root: {root}, train: [train.en, train.de], validation: [val.en, val.de], max_length: 128,
  max_ratio: 3.0, batch_tokens: {batch_tokens}, prepared: {root}/prepared}}
tokenizer: {{vocab_size: {vocabulary}}}
model: {{num_layers: 6, d_model: 8, num_heads: 2, dff: 32, max_length: 128}}
training: {{steps: 1000000, validate_every: 1000000, distribution: single, sample_translations: 0}}
tensorboard: {{attention: 0}}
evaluation: {{}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the real corpora")
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument(
        "--folder", type=Path, required=True, help="folder for the corpus, the prepared data and the runs"
    )
    parser.add_argument("--vocabulary", type=int, default=37_000)
    parser.add_argument("--batch-tokens", type=int, default=25_000)
    parser.add_argument(
        "--cores", type=int, default=len(os.sched_getaffinity(0)), help="maximum number of cores to prepare with"
    )
    steps = ["corpus", "prepare", "batches", "streamed", "start", "going-on"]
    parser.add_argument("--steps", nargs="+", default=steps, choices=[*steps, "opennmt"])
    opennmt = Path(__file__).parents[1] / ".venv-opennmt/bin/python"
    parser.add_argument(
        "--opennmt-python", default=opennmt, help="Python with OpenNMT-tf; `make bench-train` makes one"
    )
    arguments = parser.parse_args()
    root = arguments.folder.resolve()
    root.mkdir(parents=True, exist_ok=True)
    recipe = root / "recipe.yaml"
    sizes = {"vocabulary": arguments.vocabulary, "batch_tokens": arguments.batch_tokens}
    recipe.write_text(RECIPE.format(root=root, **sizes), encoding="utf-8")
    for step in arguments.steps:
        if step == "corpus":
            write_corpus(arguments.data, arguments.pairs, root)
        elif step == "prepare":
            measure_preparing(recipe, arguments.cores)
        elif step == "batches":
            in_a_process(measure_batches, recipe)
        elif step == "streamed":
            in_a_process(measure_streamed, recipe)
        elif step == "opennmt":
            measure_opennmt(recipe, arguments.opennmt_python, arguments.batch_tokens)
        elif step == "start":
            measure_start(recipe, root / "run", 0)
        else:
            measure_start(recipe, root / "run", 100_000)


def real_pairs(data: Path) -> list[tuple[str, str]]:
    """The training pairs of Tatoeba and Multi30k."""
    pairs = []
    for corpus in ("tatoeba", "multi30k"):
        sides = ((data / corpus / f"train.{language}").read_text(encoding="utf-8") for language in ("en", "de"))
        pairs += zip(*(side.removesuffix("\n").split("\n") for side in sides), strict=True)
    return pairs


def write_corpus(data: Path, number: int, root: Path) -> None:
    """Joins real sentences, drawn at random, to pairs of the length of WMT's."""
    pairs, rng = real_pairs(data), random.Random(1)

    def joined(count: int) -> Iterator[tuple[str, str]]:
        for _ in range(count):
            chosen = rng.choices(pairs, k=rng.choices(JOINED, SHARES)[0])
            yield tuple(" ".join(side) for side in zip(*chosen, strict=True))

    words, validation = 0, 1000
    for name, count in (("train", number), ("val", validation)):
        with open(root / f"{name}.en", "w") as source, open(root / f"{name}.de", "w") as target:
            for english, german in joined(count):
                source.write(english + "\n")
                target.write(german + "\n")
                words += len(english.split()) + len(german.split())
    print(f"corpus: {number:,} pairs, {words / 2 / (number + validation):.1f} words per side", flush=True)


def measure_preparing(recipe: Path, cores: int) -> None:
    """The command, which learns the vocabulary too; then the pairs of training alone, in a process of their own."""
    for earlier in ("prepared", "run"):  # what an earlier call prepared would only be checked
        shutil.rmtree(recipe.parent / earlier, ignore_errors=True)
    began = time.perf_counter()
    subprocess.run([COMMAND, "prepare", str(recipe), "--run-dir", str(recipe.parent / "run")], check=True)
    print(f"command prepare: {time.perf_counter() - began:.0f} s", flush=True)
    for number in range(1, cores + 1):
        in_a_process(prepare_on, recipe, number)


def prepare_on(recipe: Path, cores: int) -> None:
    """Prepares the pairs of training again, on so many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    from rich.console import Console

    from tf_transformer.data.prepared import preparing
    from tf_transformer.experiment.corpus import open_source
    from tf_transformer.recipe import load_recipe
    from tf_transformer.tokenizers import TokenizerPair

    loaded, root = load_recipe(recipe), recipe.parent
    tokenizers = TokenizerPair.load(root / "prepared" / "tokenizer")
    limits = {"max_length": loaded.data.max_length, "max_ratio": loaded.data.max_ratio}
    began, cpu = time.perf_counter(), time.process_time()
    pairs = open_source(loaded, "train")
    again = root / "prepared again"
    prepared = preparing.prepare_pairs(
        pairs, tokenizers, again / "train", **limits, settings={}, console=Console(quiet=True)
    )
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    shutil.rmtree(again)
    print(
        f"preparing on {cores} core(s): {seconds:.1f} s, {len(prepared) / seconds:,.0f} pairs a second; "
        f"{len(prepared) / cpu:,.0f} a second of CPU",
        flush=True,
    )


def measure_batches(recipe: Path, number: int = 1000) -> None:
    """Batches of the prepared pairs, from a late step on, and the memory that they take."""
    import tensorflow as tf

    from tf_transformer.data.prepared.store import PreparedPairs
    from tf_transformer.experiment.batches import batches_of
    from tf_transformer.recipe import load_recipe

    loaded = load_recipe(recipe)
    tf.constant(0)  # TensorFlow's start is no part of it
    before = memory("RssAnon")
    began = time.perf_counter()
    prepared = PreparedPairs(recipe.parent / "prepared" / "train")
    opened = time.perf_counter() - began
    batches = batches_of(loaded, prepared, 1).endless(loaded.seed)
    began = time.perf_counter()
    stream = iter(batches.from_step(100_000))
    next(stream)
    print(
        f"opening {len(prepared):,} pairs: {opened:.1f} s; first batch at step 100,000: "
        f"{time.perf_counter() - began:.1f} s",
        flush=True,
    )
    began, cpu, pairs, most = time.perf_counter(), time.process_time(), 0, 0
    for made in range(number):
        _, labels = next(stream)
        pairs += labels.shape[0]
        if made % 100 == 0:
            most = max(most, memory("RssAnon"))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"batches: {pairs / cpu:,.0f} pairs a second of CPU, {pairs / seconds:,.0f} a second; "
        f"{(most - before) / 1e6:.0f} MB beyond TensorFlow's, without mapped files",
        flush=True,
    )
    print(f"padding: {batches.padding_share():.1%}", flush=True)


def measure_streamed(recipe: Path, number: int = 200) -> None:
    """The same of `make_batches`, which tokenises while it makes them, for comparison."""
    from tf_transformer.data import make_batches, padding_share
    from tf_transformer.experiment.corpus import open_source
    from tf_transformer.recipe import load_recipe
    from tf_transformer.tokenizers import TokenizerPair

    loaded = load_recipe(recipe)
    data = loaded.data
    tokenizers = TokenizerPair.load(Path(data.prepared) / "tokenizer")
    limits = {"batch_tokens": data.batch_tokens, "max_length": data.max_length, "max_ratio": data.max_ratio}
    pairs = open_source(loaded, "train")
    batches = make_batches(pairs, tokenizers, **limits, shuffle_buffer=100_000, seed=1)
    began, cpu = time.perf_counter(), time.process_time()
    made = sum(labels.shape[0] for _, labels in batches.take(number))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"streamed: {made / cpu:,.0f} pairs a second of CPU, {made / seconds:,.0f} a second; padding "
        f"{padding_share(batches, first=number):.1%}",
        flush=True,
    )


def measure_opennmt(recipe: Path, python: Path, batch_tokens: int, number: int = 200) -> None:
    """OpenNMT-tf's batches of the same tokens, whose numbers are the words of its text files."""
    from tf_transformer.data.prepared.store import PreparedPairs
    from tf_transformer.recipe import load_recipe

    loaded, folder = load_recipe(recipe), recipe.parent / "opennmt"
    folder.mkdir(exist_ok=True)
    prepared = PreparedPairs(recipe.parent / "prepared" / "train")
    for name, side in (("source", prepared.source), ("target", prepared.target)):
        with open(folder / f"train.{name}", "w") as file:
            for begin, end in pairwise(side.offsets):
                file.write(" ".join(map(str, side.ids[begin:end])) + "\n")
    words = ["<blank>", "<s>", "</s>", *map(str, range(loaded.tokenizer.vocab_size))]
    (folder / "vocabulary").write_text("\n".join(words) + "\n")
    script = Path(__file__).parent / "engines/data_opennmt.py"
    sizes = [str(size) for size in (batch_tokens, loaded.data.max_length, number)]
    subprocess.run([python, script, folder, *sizes], check=True)


def measure_start(recipe: Path, run: Path, step: int) -> None:
    """From the command to the end of its first step; of one that goes on, from the state of that step."""
    shutil.rmtree(run, ignore_errors=True)
    command = [COMMAND, "train", str(recipe), "--run-dir", str(run)]
    if step:
        first_step(command)
        in_a_process(set_step, run, step)
    seconds, made = first_step(command)
    what = f"resumed at step {step:,}" if step else "new run"
    print(
        f"{what}: {seconds:.1f} s from the command to the end of its first step, {made:.1f} s to its model", flush=True
    )


def first_step(command: list[str]) -> tuple[float, float]:
    """Trains for one step; gives the seconds until that was over, and until the model was made."""
    began, made = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for line in process.stderr:
        seconds = time.perf_counter() - began
        if line.startswith("model: "):
            made = seconds
        if line.startswith("first step: "):
            break
    process.terminate()
    process.communicate(timeout=600)
    if process.returncode != STOPPED:
        raise SystemExit(f"training ended with status {process.returncode}")
    return seconds, made


def set_step(path: Path, step: int) -> None:
    """Saves a run's state again, as if so many steps had been taken."""
    from tf_transformer.experiment import make_model
    from tf_transformer.recipe import load_recipe
    from tf_transformer.runs import Checkpoints
    from tf_transformer.runs.directory import RunDirectory
    from tf_transformer.runs.state import TrainingState

    run = RunDirectory(path)
    recipe = load_recipe(run.recipe)
    model = make_model(recipe, recipe.tokenizer.vocab_size, recipe.tokenizer.vocab_size)
    state = TrainingState(run.training_state, Checkpoints(run.checkpoints))
    state.restore(model)
    model.optimizer.iterations.assign(step)
    state.set_model(model)
    state.save()
    state.wait()


if __name__ == "__main__":
    main()
