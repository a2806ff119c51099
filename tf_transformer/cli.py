"""The command `tf-transformer`: a thin face over the package.

Everything heavy is imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from tf_transformer.errors import Preempted, UserError, WorkerLost
from tf_transformer.terminal import (
    cores,
    given,
    keep_what_xla_compiles,
    notes,
    quiet_tensorflow,
    read_lines,
    show_scores,
    some_home,
    speak_utf8,
    streams_of,
    write_translation,
)

app = typer.Typer(
    name="tf-transformer",
    help='The Transformer of "Attention Is All You Need": train it, score it, export it, translate with it.',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

USER_MISTAKE = 2
FORMATS = ("savedmodel", "ctranslate2")

RECIPE_ARGUMENT = typer.Argument(help="The recipe, a YAML file; train/recipes holds some.", show_default=False)
SET_OPTION = typer.Option(
    "--set", help="Replaces a setting: --set training.steps=200. Repeatable.", metavar="KEY=VALUE"
)
RUN_DIR_OPTION = typer.Option("--run-dir", help="Where the run goes.", show_default="runs/NAME, by the recipe's name")
BLANK = "sentence {} is blank; give words to translate"  # of what `inspect` is given
MODEL_ARGUMENT = typer.Argument(help="A run's folder, or a SavedModel's.", show_default=False)
BATCH_SIZE_OPTION = typer.Option("--batch-size", min=1, help="Sentences translated at once.")
RESUME_OPTION = typer.Option(
    "--resume",
    metavar="auto|never|PATH",
    help="auto: go on with a training that was broken off; never: refuse to; PATH: begin from a state of another run.",
)
WORKERS_OPTION = typer.Option(
    "--workers", min=1, help="Train with so many processes on this machine's CPU, to try several workers."
)
JSON_OPTION = typer.Option("--json", help="Print JSON on standard output.")
BEAM_OPTION = typer.Option(
    "--beam-size", min=1, help="Hypotheses side by side; 1 is greedy search.", show_default="the model's"
)
ALPHA_OPTION = typer.Option("--alpha", min=0, help="Strength of the length penalty.", show_default="the model's")
ENGINE_OPTION = typer.Option("--engine", help="tensorflow, or ctranslate2 for a model in that format.")


@app.command()
def train(
    recipe: Annotated[Path, RECIPE_ARGUMENT],
    overrides: Annotated[list[str] | None, SET_OPTION] = None,
    run_dir: Annotated[Path | None, RUN_DIR_OPTION] = None,
    resume: Annotated[str, RESUME_OPTION] = "auto",
    workers: Annotated[int, WORKERS_OPTION] = 1,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Trains a model from a recipe and scores it; broken off, it goes on when the same command is given again."""
    from tf_transformer.recipe import load_recipe
    from tf_transformer.training.cluster import is_chief, read_cluster

    loaded = load_recipe(recipe, overrides or [])
    if workers > 1:
        if loaded.training.distribution == "single" or read_cluster():
            other = "TF_CONFIG names others; unset it" if read_cluster() else "training.distribution is single"
            raise UserError(f"--workers is {workers}, and {other}, or leave --workers out")
        from tf_transformer.launcher import run_workers

        words = [str(recipe), *(word for each in overrides or [] for word in ("--set", each)), "--resume", resume]
        words += (["--run-dir", str(run_dir)] if run_dir else []) + (["--json"] if as_json else [])
        raise typer.Exit(run_workers(["train", *words], workers))
    if loaded.training.jit_compile:
        keep_what_xla_compiles()
    with quiet_tensorflow():
        from tf_transformer import experiment

    run = experiment.train(loaded, run_dir or Path("runs") / loaded.name, notes, resume)
    if not is_chief():
        return
    show_scores(json.loads(run.scores.read_text(encoding="utf-8")), as_json)
    notes.print(f"run: {run.path}")


@app.command()
def evaluate(
    model: Annotated[Path, MODEL_ARGUMENT],
    source: Annotated[Path, typer.Option(help="Sentences to translate, one a line.")],
    reference: Annotated[Path, typer.Option(help="Their translations, one a line.")],
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Score without regard to case as well.")] = False,
    tokenize: Annotated[
        str | None,
        typer.Option(help="How BLEU splits text into words, such as none.", show_default="the run's, or 13a"),
    ] = None,
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    engine: Annotated[str, ENGINE_OPTION] = "tensorflow",
    batch_size: Annotated[int, BATCH_SIZE_OPTION] = 64,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Translates a file and scores it; a run's scores.json gets the figures."""
    from tf_transformer.data.sources import TextFiles

    pairs = list(TextFiles(source, reference))
    changes = given(beam_size=beam_size, alpha=alpha)
    with quiet_tensorflow(streams=True):
        from tf_transformer import experiment
        from tf_transformer.evaluation import evaluate_translations
        from tf_transformer.run_directory import RunDirectory
        from tf_transformer.translation import load_translate

    where = {"source": str(source), "reference": str(reference), **changes}
    if engine == "tensorflow" and (model / "recipe.yaml").is_file():
        run = RunDirectory.open(model)
        scores = {**where, **experiment.evaluate(run, pairs, lowercase, batch_size, changes, cores(), tokenize)}
        # Shown first: where they can't be written, they aren't lost.
        show_scores(scores, as_json)
        run.write_scores(scores)
    else:
        translate = load_translate(model, changes, engine)
        scores, _ = evaluate_translations(
            translate, pairs, lowercase, batch_size, streams_of(engine), tokenize or "13a"
        )
        show_scores({**where, **scores}, as_json)


@app.command()
def translate(
    model: Annotated[Path, MODEL_ARGUMENT],
    file: Annotated[Path | None, typer.Argument(help="Sentences, one a line.", show_default="standard input")] = None,
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
    changes = given(
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
    with quiet_tensorflow(streams=True):
        from tf_transformer.translation import load_translate, translate_texts

    function = load_translate(model, changes, engine)
    streams = streams_of(engine)
    name = "standard input" if file is None else str(file)
    lines = enumerate(read_lines(file, name), start=1)
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
            write_translation(number, translation, as_json, nbest is not None)
        sys.stdout.flush()


@app.command()
def average(
    run: Annotated[Path, typer.Argument(help="A run's folder.", show_default=False)],
    last: Annotated[int, typer.Option(min=2, help="How many checkpoints.")] = 5,
) -> None:
    """Averages a run's last checkpoints, as the paper does; the run's other commands then use the average."""
    with quiet_tensorflow():
        from tf_transformer.experiment.averaging import average_checkpoints
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
    changes = given(beam_size=beam_size, alpha=alpha)
    if file_format not in FORMATS:
        raise UserError(f"--format is {file_format}; choose from {', '.join(FORMATS)}")
    if file_format == "ctranslate2" and (changes or float16):
        raise UserError("--beam-size, --alpha and --float16 are a SavedModel's; for ctranslate2 give --quantization")
    if file_format == "savedmodel" and quantization:
        raise UserError("--quantization is CTranslate2's; give --format ctranslate2 with it, or --float16")
    with quiet_tensorflow():
        from tf_transformer import experiment
        from tf_transformer.run_directory import RunDirectory

    opened = RunDirectory.open(run)
    if file_format == "ctranslate2":
        print(experiment.export_run_ctranslate2(opened, destination, quantization))
    else:
        print(experiment.export_run(opened, destination, changes, float16))


@app.command()
def inspect(
    model: Annotated[Path, MODEL_ARGUMENT],
    sentences: Annotated[list[str], typer.Argument(metavar="SENTENCE...", help="What to translate.")],
    logdir: Annotated[Path | None, typer.Option(help="Write it for TensorBoard's tab Attention.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write it as a page of its own.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a picture of the last layer's heads.")] = None,
) -> None:
    """Shows what a model attends to as it translates: in TensorBoard, as a page, or as a picture."""
    if not (logdir or html or png):
        raise UserError("where to? give --logdir DIR for TensorBoard, --html FILE or --png FILE, or several of them")
    for number, sentence in enumerate(sentences, start=1):
        if not sentence.strip():
            raise UserError(BLANK.format(number))
        if not sentence.isascii() and sentence != sentence.encode("utf-8", "replace").decode("utf-8"):
            raise UserError(f"sentence {number} is not UTF-8; give it in UTF-8")
    if png and len(sentences) > 1:
        raise UserError("--png draws one sentence; give one, or --html FILE for several")
    if html and html == png:
        raise UserError(f"{html}: can't be page and picture; give --html and --png two names")
    for file in filter(None, (html, png)):
        if file.exists():
            raise UserError(f"{file}: is there already and is left as it is; give another name")
        if not file.parent.is_dir():
            raise UserError(f"{file.parent}: no such folder; make it first, or give a file in another")
    if logdir and logdir.exists() and not logdir.is_dir():
        raise UserError(f"{logdir}: a file; give a folder with --logdir")
    with quiet_tensorflow():
        from tf_transformer.inspection import inspect, load_attend
        from tf_transformer.tensorboard.board import write_to_log_dir
        from tf_transformer.tensorboard.page import write_page

    inspections = inspect(load_attend(model), sentences)
    for number, each in enumerate(inspections, start=1):
        if not each.target_tokens:  # a tokenizer takes more characters for blanks than Python does
            raise UserError(BLANK.format(number))
    for each in inspections:
        if each.truncated:
            notes.print(f"cut to the model's positions: {each.source}")
        print(each.translation)
    if logdir:
        # A run of its own for each model: they can be compared.
        write_to_log_dir(logdir / (model.as_posix().strip("./").replace("/", "-") or "model"), inspections)
        notes.print(f"see the tab Attention of: tensorboard --logdir {logdir}")
    if html:
        notes.print(f"page: {write_page(html, inspections, str(model))}")
    if png:
        from tf_transformer.plots import plot_inspection

        notes.print(f"picture: {plot_inspection(inspections[0], png)}")


@app.command()
def presets(as_json: Annotated[bool, JSON_OPTION] = False) -> None:
    """Lists the paper's configurations, with their exact sizes and what the paper says of each."""
    from tf_transformer.presets import PRESETS

    if as_json:
        rows = [{**dataclasses.asdict(preset), "parameters": preset.parameters} for preset in PRESETS.values()]
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

    recipe = load_recipe(Path(__file__).with_name("demo.yaml"))
    with quiet_tensorflow():
        from tf_transformer.demo import run_demo

    run_demo(recipe, Path("runs"), Path("savedmodels"), Console(highlight=False, markup=False, soft_wrap=True))


def main() -> None:
    """Runs the command; a user's mistake is one line and exit status 2.

    Ctrl-C is exit status 130; SIGTERM in a training, which saves its state, 75.
    """
    try:
        speak_utf8()
        try:
            with some_home():
                app()
        finally:
            sys.stdout.flush()  # so that a reader who has gone is noticed here
    except UserError as error:
        print(f"tf-transformer: {error}", file=sys.stderr)
        sys.exit(USER_MISTAKE)
    except (Preempted, WorkerLost) as error:
        print(f"tf-transformer: {error}", file=sys.stderr)
        sys.exit(os.EX_TEMPFAIL)  # 75: trying again may help
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does. Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        print(f"tf-transformer: {error}; check the path, its permissions and the space left", file=sys.stderr)
        sys.exit(USER_MISTAKE)
