"""The command `evaluate`: score a model on a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import (
    ALPHA_OPTION,
    BEAM_OPTION,
    ENGINE_OPTION,
    GRAMMAR_OPTION,
    JSON_OPTION,
    MODELS_ARGUMENT,
    NO_REPEAT_OPTION,
    OR_A_BEAM,
    check_alpha,
    check_parsers_alpha,
)
from tf_transformer.cores import cores
from tf_transformer.errors import UserError
from tf_transformer.session.loading import session_loader, streams_of
from tf_transformer.terminal.arguments import check_is_no_file, given
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.printed_scores import show_scores
from tf_transformer.terminal.process import quiet_tensorflow

if TYPE_CHECKING:
    from tf_transformer.runs.directory import RunDirectory

# Of so many sentences, to make the graph faster takes less time than it saves.
MANY = 4000
# Sentences at once where no run says how many.
BATCH_SIZE = 64


@app.command()
def evaluate(
    models: Annotated[list[Path], MODELS_ARGUMENT],
    source: Annotated[Path | None, typer.Option(help="File of sentences to translate, one per line.")] = None,
    reference: Annotated[Path | None, typer.Option(help="File of their reference translations, one per line.")] = None,
    trees: Annotated[
        Path | None,
        typer.Option(help="For a parser, instead of --source and --reference: a treebank in Penn brackets."),
    ] = None,
    lowercase: Annotated[
        bool,
        typer.Option(
            "--lowercase", help="Also report case-insensitive BLEU.", show_default="the run's setting, or off"
        ),
    ] = False,
    tokenize: Annotated[
        str | None,
        typer.Option(
            help="sacreBLEU tokenizer that BLEU uses: 13a, none (for tokenised text), intl, char, zh, ...",
            show_default="the run's setting, or 13a",
        ),
    ] = None,
    perturb: Annotated[
        bool,
        typer.Option(
            "--perturb",
            help="Also score copies of the source in lower case, in capitals, without accents and with typos.",
        ),
    ] = False,
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    no_repeat_ngram_size: Annotated[int | None, NO_REPEAT_OPTION] = None,
    grammar: Annotated[bool | None, GRAMMAR_OPTION] = None,
    engine: Annotated[str, ENGINE_OPTION] = "tensorflow",
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Number of sentences processed at once.", show_default="the run's setting, or 64"),
    ] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Translates or parses a file and scores the output.

    The scores of a run's best model are also written to its scores.json; those of a single checkpoint are not, nor
    those of several models, which translate together as an ensemble.
    """
    from tf_transformer.data.sources import TextFiles

    for model in models:
        check_is_no_file(model)
    model, *others = models
    changes = given(beam_size=beam_size, alpha=alpha, no_repeat_ngram_size=no_repeat_ngram_size)
    if trees:
        if others:
            raise UserError(f"--trees scores one parser, but {len(models)} models are given; give one of them")
        of_translations = source, reference, lowercase, tokenize, perturb, no_repeat_ngram_size is not None
        if any(of_translations) or engine != "tensorflow":
            raise UserError(
                "--trees scores a parser; leave out --source, --reference, --lowercase, --tokenize, --perturb, "
                "--no-repeat-ngram-size and --engine, which are for translation"
            )
        _evaluate_parser(model, trees, changes, grammar, batch_size, as_json)
        return
    if not (source and reference):
        raise UserError("no data to score on; give --source FILE and --reference FILE, or for a parser --trees FILE")
    if grammar is not None:
        raise UserError("--grammar and --no-grammar are for parsers; use them with --trees FILE, or leave them out")
    from tf_transformer.translation.loading import check_are_models

    check_are_models(models, engine)
    check_alpha(model, changes, OR_A_BEAM)
    pairs = list(TextFiles(source, reference))
    load = session_loader(models, engine, optimise=len(pairs) >= MANY)
    with quiet_tensorflow(streams=True, session=load is not None):
        from tf_transformer.evaluation.perturbation import evaluate_perturbed
        from tf_transformer.evaluation.scores import evaluate_translations
        from tf_transformer.recipe import load_recipe
        from tf_transformer.runs.directory import RunDirectory, is_run
        from tf_transformer.translation.loading import load_translate

    where = {"source": str(source), "reference": str(reference), **changes}
    run = RunDirectory.of_model(model) if engine == "tensorflow" and is_run(model) else None
    if run:
        of_run = load_recipe(run.recipe).evaluation
        lowercase = lowercase or of_run.lowercase
        tokenize, batch_size = tokenize or of_run.tokenize, batch_size or of_run.batch_size
    tokenize, batch_size = tokenize or "13a", batch_size or BATCH_SIZE
    if not as_json:
        _tell_begun(models, len(pairs))
    if run and not others:
        from tf_transformer.experiment import scoring

        scores = scoring.evaluate(run, pairs, lowercase, batch_size, changes, cores(), tokenize)
        if perturb:
            translate = load_translate(model, changes)
            scores["perturbed"] = evaluate_perturbed(translate, pairs, batch_size, cores(), tokenize)
        _show_and_keep({**where, **scores}, run, as_json)
    else:
        translate = load_translate(models, changes, engine, load)
        streams = streams_of(translate)
        scores, _ = evaluate_translations(translate, pairs, lowercase, batch_size, streams, tokenize)
        if perturb:
            scores["perturbed"] = evaluate_perturbed(translate, pairs, batch_size, streams, tokenize)
        show_scores({**where, **scores}, as_json)


def _evaluate_parser(
    model: Path, file: Path, changes: dict[str, Any], grammar: bool | None, batch_size: int | None, as_json: bool
) -> None:
    from tf_transformer.parsing.pairs import TreePairs
    from tf_transformer.parsing.reading import TreeFiles
    from tf_transformer.recipe import load_recipe
    from tf_transformer.runs.directory import RunDirectory, is_run

    check_parsers_alpha(model, changes, grammar)
    run = RunDirectory.of_model(model) if is_run(model) else None
    tags = load_recipe(run.recipe).data.tags if run else False
    trees = list(TreeFiles(file, tags))  # mistakes in the file are reported before the model is loaded
    load = session_loader(model, optimise=len(trees) >= MANY)
    with quiet_tensorflow(streams=True, session=load is not None):
        from tf_transformer.parsing.sentences import evaluate_parses, load_parse

    where = {"trees": str(file), **changes, **given(grammar=grammar)}
    if not as_json:
        _tell_begun([model], len(trees))
    if run:
        from tf_transformer.experiment import scoring

        pairs = TreePairs(trees, tags)
        scores = scoring.evaluate(run, pairs, False, batch_size, changes, cores(), grammar=grammar)
        _show_and_keep({**where, **scores}, run, as_json)
    else:
        function = load_parse(model, changes, grammar, load)
        scores = evaluate_parses(function, TreePairs(trees).trees(), batch_size or BATCH_SIZE, cores())
        show_scores({**where, **scores}, as_json)


def _tell_begun(models: list[Path], sentences: int) -> None:
    from tf_transformer.runs.directory import RunDirectory, is_run

    files = [RunDirectory.of_model(model).best_checkpoint() if is_run(model) else model for model in models]
    notes.print(f"scoring {sentences:,} sentences with {', '.join(map(str, files))}")


def _show_and_keep(scores: dict[str, Any], run: RunDirectory, as_json: bool) -> None:
    show_scores(scores, as_json)  # first, so that they are not lost if the file can't be written
    if not run.chosen:
        from tf_transformer.model_card.files import renewed

        with renewed(run):
            run.write_scores(scores)
