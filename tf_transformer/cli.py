"""The command `tf-transformer`: a thin face over the package.

Everything heavy is imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from tf_transformer.errors import UserError

app = typer.Typer(
    name="tf-transformer",
    help='The Transformer of "Attention Is All You Need": train it, score it, export it, translate with it.',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
notes = Console(stderr=True, highlight=False, soft_wrap=True)

USER_MISTAKE = 2
FORMATS = ("savedmodel", "ctranslate2")

RECIPE_ARGUMENT = typer.Argument(help="The recipe, a YAML file; train/recipes holds some.", show_default=False)
SET_OPTION = typer.Option(
    "--set", help="Replaces a setting: --set training.steps=200. Repeatable.", metavar="KEY=VALUE"
)
RUN_DIR_OPTION = typer.Option(
    "--run-dir", help="Where the run goes.  [default: runs/NAME of the recipe]", show_default=False
)
MODEL_ARGUMENT = typer.Argument(help="A run's folder, or a SavedModel's.", show_default=False)
BATCH_SIZE_OPTION = typer.Option("--batch-size", min=1, help="Sentences translated at once.")
RESUME_OPTION = typer.Option("--resume", help="auto: go on with a training that was broken off; never: refuse to.")
JSON_OPTION = typer.Option("--json", help="Print JSON on standard output.")
BEAM_OPTION = typer.Option(
    "--beam-size", min=1, help="Hypotheses side by side; 1 is greedy search.  [default: the model's]"
)
ALPHA_OPTION = typer.Option("--alpha", min=0, help="Strength of the length penalty.  [default: the model's]")
ENGINE_OPTION = typer.Option("--engine", help="tensorflow, or ctranslate2 for a model in that format.")


@app.command()
def train(
    recipe: Annotated[Path, RECIPE_ARGUMENT],
    overrides: Annotated[list[str] | None, SET_OPTION] = None,
    run_dir: Annotated[Path | None, RUN_DIR_OPTION] = None,
    resume: Annotated[str, RESUME_OPTION] = "auto",
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Trains a model from a recipe and scores it; broken off, it goes on when the same command is given again."""
    from tf_transformer.recipe import load_recipe

    if resume not in ("auto", "never"):
        raise UserError(f"--resume is {resume!r}; give auto or never")
    loaded = load_recipe(recipe, overrides or [])
    if loaded.training.jit_compile:
        _keep_what_xla_compiles()
    with _quiet_tensorflow():
        from tf_transformer import experiment

    run = experiment.train(loaded, run_dir or Path("runs") / loaded.name, notes, resume == "auto")
    _show_scores(json.loads(run.scores.read_text(encoding="utf-8")), as_json)
    notes.print(f"run: {run.path}")


@app.command()
def evaluate(
    model: Annotated[Path, MODEL_ARGUMENT],
    source: Annotated[Path, typer.Option(help="Sentences to translate, one a line.")],
    reference: Annotated[Path, typer.Option(help="Their translations, one a line.")],
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Score without regard to case as well.")] = False,
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    engine: Annotated[str, ENGINE_OPTION] = "tensorflow",
    batch_size: Annotated[int, BATCH_SIZE_OPTION] = 64,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Translates a file and scores it; a run's scores.json gets the figures."""
    from tf_transformer.data.sources import TextFiles

    pairs = list(TextFiles(source, reference))
    changes = _given(beam_size=beam_size, alpha=alpha)
    with _quiet_tensorflow(streams=True):
        from tf_transformer import experiment
        from tf_transformer.evaluation import evaluate_translations
        from tf_transformer.run_directory import RunDirectory
        from tf_transformer.translation import load_translate

    where = {"source": str(source), "reference": str(reference), **changes}
    if engine == "tensorflow" and (model / "recipe.yaml").is_file():
        run = RunDirectory.open(model)
        scores = {**where, **experiment.evaluate(run, pairs, lowercase, batch_size, changes, _cores())}
        run.write_scores(scores)
    else:
        translate = load_translate(model, changes, engine)
        scores, _ = evaluate_translations(translate, pairs, lowercase, batch_size, _streams(engine))
        scores = {**where, **scores}
    _show_scores(scores, as_json)


@app.command()
def translate(
    model: Annotated[Path, MODEL_ARGUMENT],
    file: Annotated[
        Path | None, typer.Argument(help="Sentences, one a line.  [default: standard input]", show_default=False)
    ] = None,
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    nbest: Annotated[
        int | None, typer.Option("--nbest", min=1, help="Print so many translations of each line, each with its score.")
    ] = None,
    min_length: Annotated[int | None, typer.Option(min=1, help="Fewest tokens, the closing one counted.")] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Most tokens, the closing one counted.")] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Draw tokens by chance; at 1 with the model's probabilities.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="Draw among so many likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the likeliest with this probability.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Of the draws.")] = None,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="Put the source's word for an unknown token.")
    ] = False,
    cut: Annotated[bool, typer.Option("--cut", help="Translate the beginning of a sentence that is too long.")] = False,
    engine: Annotated[str, ENGINE_OPTION] = "tensorflow",
    batch_size: Annotated[int, BATCH_SIZE_OPTION] = 64,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print an object a line: translation, score, truncated.")
    ] = False,
) -> None:
    """Translates a file, or standard input, line by line to standard output."""
    changes = _given(
        beam_size=beam_size,
        alpha=alpha,
        num_hypotheses=nbest,
        min_length=min_length,
        max_length=max_length,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        replace_unknown=replace_unknown or None,
    )
    with _quiet_tensorflow(streams=True):
        from tf_transformer.translation import load_translate, translate_texts

    function = load_translate(model, changes, engine)
    streams = _streams(engine)
    name = "standard input" if file is None else str(file)
    lines = enumerate(_read_lines(file, name), start=1)
    # Sorted by length within a window, so that batches hold little padding, and written window by window.
    while window := list(islice(lines, 16 * batch_size)):
        for (number, _), translation in zip(
            window, translate_texts(function, [line for _, line in window], batch_size, streams), strict=True
        ):
            if translation.truncated and not cut:
                raise UserError(
                    f"{name}, line {number}: more tokens than the model has positions; split it, or give --cut to "
                    "translate its beginning"
                )
            _write_translation(number, translation, as_json, nbest is not None)
        sys.stdout.flush()


@app.command()
def average(
    run: Annotated[Path, typer.Argument(help="A run's folder.", show_default=False)],
    last: Annotated[int, typer.Option(min=2, help="How many checkpoints.")] = 5,
) -> None:
    """Averages a run's last checkpoints, as the paper does; the run's other commands then use the average."""
    with _quiet_tensorflow():
        from tf_transformer.averaging import average_checkpoints
        from tf_transformer.run_directory import RunDirectory

    print(average_checkpoints(RunDirectory.open(run), last))


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.", show_default=False)],
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DEST",
            help="savedmodels/NAME for the next version, or savedmodels/NAME/VERSION.",
            show_default=False,
        ),
    ],
    file_format: Annotated[
        str, typer.Option("--format", help="savedmodel, or ctranslate2, whose DEST is the model's own folder.")
    ] = "savedmodel",
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    float16: Annotated[bool, typer.Option("--float16", help="Write a SavedModel's weights in half the size.")] = False,
    quantization: Annotated[
        str | None, typer.Option(help="Of CTranslate2's weights: int8, int16, float16, ...", show_default=False)
    ] = None,
) -> None:
    """Writes a run's best model as a SavedModel with its tokenizer inside, or for CTranslate2."""
    changes = _given(beam_size=beam_size, alpha=alpha)
    if file_format not in FORMATS:
        raise UserError(f"--format is {file_format}; choose from {', '.join(FORMATS)}")
    if file_format == "ctranslate2" and (changes or float16):
        raise UserError("--beam-size, --alpha and --float16 are a SavedModel's; for ctranslate2 give --quantization")
    if file_format == "savedmodel" and quantization:
        raise UserError("--quantization is CTranslate2's; give --format ctranslate2 with it, or --float16")
    with _quiet_tensorflow():
        from tf_transformer import experiment
        from tf_transformer.run_directory import RunDirectory

    opened = RunDirectory.open(run)
    if file_format == "ctranslate2":
        print(experiment.export_run_ctranslate2(opened, destination, quantization))
    else:
        print(experiment.export_run(opened, destination, changes, float16))


@app.command()
def presets(as_json: Annotated[bool, JSON_OPTION] = False) -> None:
    """Lists the paper's configurations, with their exact sizes and what the paper says of each."""
    from tf_transformer.presets import PRESETS

    if as_json:
        rows = [{"name": name, "parameters": preset.parameters, **preset.model} for name, preset in PRESETS.items()]
        print(json.dumps(rows, indent=2))
        return
    ours = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "dropout", "smoothing", "steps", "parameters")
    table = Table("preset", *(Column(name, justify="right") for name in (*ours, "paper", "PPL", "BLEU")), box=None)
    for name, preset in PRESETS.items():
        model = preset.model
        width = model["d_model"] // model["num_heads"]
        sizes = [model["num_layers"], model["d_model"], model["dff"], model["num_heads"]]
        widths = [model["key_dim"] or width, model["value_dim"] or width]
        training = [model["dropout_rate"], preset.label_smoothing, f"{preset.steps // 1000}K"]
        paper = [f"{preset.paper_millions} M" if preset.paper_millions else "", f"{preset.perplexity:.2f}", preset.bleu]
        table.add_row(name, *map(str, [*sizes, *widths, *training, f"{preset.parameters:,}", *paper]))
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    notes.print(
        "The last three columns are the paper's: parameters, rounded and up to 4 M off what its vocabulary of 37,000\n"
        "comes to exactly; perplexity a subword and BLEU on newstest2013, English to German."
    )


@app.command()
def demo() -> None:
    """Trains, scores and exports a toy in minutes, and translates with it."""
    from tf_transformer.recipe import load_recipe

    recipe = load_recipe(Path(__file__).parents[1] / "train" / "recipes" / "demo.yaml")
    with _quiet_tensorflow():
        from tf_transformer.demo import run_demo

    run_demo(recipe, Path("runs"), Path("savedmodels"), Console(highlight=False, soft_wrap=True))


def main() -> None:
    """Runs the command; a user's mistake is one line and exit status 2, Ctrl-C is exit status 130."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # so that a reader who has gone is noticed here
    except UserError as error:
        print(f"tf-transformer: {error}", file=sys.stderr)
        sys.exit(USER_MISTAKE)
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does. Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        print(f"tf-transformer: {error}; check the path, its permissions and the space left", file=sys.stderr)
        sys.exit(USER_MISTAKE)
    except Exception as error:
        # A source that fails in mid-stream (a file that changed after it was checked) is wrapped by tf.data.
        wrapped = re.search(r"UserError: (.*)", str(error))
        if not wrapped:
            raise
        print(f"tf-transformer: {wrapped[1]}", file=sys.stderr)
        sys.exit(USER_MISTAKE)


def _keep_what_xla_compiles() -> None:
    """Has XLA write what it compiles to the user's cache, and read it there the next time; before TensorFlow starts."""
    cache = os.path.expanduser(os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "tf_transformer", "xla"))
    try:
        os.makedirs(cache, exist_ok=True)
    except OSError:  # slower, and no mistake
        return
    os.environ.setdefault("TF_XLA_FLAGS", f"--tf_xla_persistent_cache_directory={cache}")


@contextmanager
def _quiet_tensorflow(streams: bool = False) -> Iterator[None]:
    """Keeps TensorFlow's start-up notices from the user while it is imported; errors are still told by exceptions.

    With `streams` it works on several batches at once, each in one thread: a decoding step's operations are too small
    for two threads to share one, and oneDNN makes them slower (benchmarks/README.md has the figures).
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if streams:
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    sys.stderr.flush()
    saved = os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    os.close(silence)
    try:
        yield
        import tensorflow as tf

        if streams:
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(_cores())
        # The first device look-up prints notices of its own.
        tf.config.list_physical_devices()
        tf.get_logger().setLevel("ERROR")
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _streams(engine: str) -> int:
    """Batches at once; CTranslate2 has threads of its own."""
    return _cores() if engine == "tensorflow" else 1


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _read_lines(file: Path | None, name: str) -> Iterator[str]:
    """Reads lines of UTF-8, split at line feeds alone, so that one line in is one line out."""
    try:
        stream = sys.stdin.buffer if file is None else file.open("rb")
        with stream:
            for number, line in enumerate(stream, start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                try:
                    yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{name}, line {number}: byte {error.start + 1} is not UTF-8; convert the file to UTF-8"
                    ) from None
    except OSError as error:
        raise UserError(f"{name}: can't be read: {error.strerror}; give a file of sentences, one a line") from None


def _write_translation(number: int, translation: Any, as_json: bool, nbest: bool) -> None:
    hypotheses = [(translation.text, translation.score), *translation.others]
    if as_json:
        row = {"translation": translation.text, "score": translation.score, "truncated": translation.truncated}
        if nbest:
            row["nbest"] = [{"translation": text, "score": score} for text, score in hypotheses]
        _write_line(json.dumps(row, ensure_ascii=False))
    elif nbest:
        for text, score in hypotheses:
            _write_line(f"{number}\t{score:.4f}\t{text}")
    else:
        _write_line(translation.text)


def _write_line(text: str) -> None:
    """One line of output for one line of input, whatever line breaks a translation may hold, in any locale."""
    sys.stdout.buffer.write(" ".join(text.splitlines()).encode("utf-8") + b"\n")


def _show_scores(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(scores, indent=2, ensure_ascii=False))
        return
    print(f"BLEU {scores['bleu']:.2f}   {scores['signature']}")
    print(f"chrF {scores['chrf']:.2f}   {scores['chrf_signature']}")
    if "lowercased" in scores:
        print(f"BLEU {scores['lowercased']['bleu']:.2f}   {scores['lowercased']['signature']}")
    if "perplexity" in scores:
        print(f"perplexity {scores['perplexity']:.3f} a token")
    if scores["truncated"]:
        notes.print(f"{scores['truncated']:,} of {scores['sentences']:,} sentences were cut to the model's positions")
