"""Scores a run's best checkpoint on a data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tf_transformer.data.batching import make_batches, with_known_length
from tf_transformer.data.counting import count_pairs
from tf_transformer.data.pairs import Pairs
from tf_transformer.errors import UserError, telling_out_of_memory
from tf_transformer.evaluation.scores import check_tokenizer, evaluate_translations
from tf_transformer.experiment.compiling import compile_model
from tf_transformer.parsing.pairs import TreePairs
from tf_transformer.parsing.sentences import NO_PARSER, evaluate_parses, parse_function
from tf_transformer.recipe import Recipe, load_recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import identity, load_model
from tf_transformer.translation.making import make_translator
from tf_transformer.translation.translator import Translator

if TYPE_CHECKING:
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.tokenizers import TokenizerPair


PERPLEXITY_ADVICE = "end other programs that use this memory, or leave very long sentences out of the set"


def evaluate(
    run: RunDirectory,
    pairs: Pairs,
    lowercase: bool = False,
    batch_size: int | None = None,
    changes: Mapping[str, Any] | None = None,
    streams: int = 1,
    tokenize: str | None = None,
    grammar: bool | None = None,
) -> dict[str, Any]:
    """Translates a set with a run's best checkpoint and scores it.

    The model works in float32, whatever it was trained in: half precision rounds differently with each number of
    threads and on each processor, and so gives other translations.

    Args:
        run: the run directory.
        pairs: sentences and their references; for a parser `TreePairs`.
        lowercase: whether to score without regard to case as well.
        batch_size: number of sentences at once; the recipe's by default.
        changes: decoding options in place of the recipe's.
        streams: number of batches at once.
        tokenize: how BLEU splits text into words; the recipe's by default.
        grammar: for a parser, whether to search only well-formed trees; the recipe's by default.

    Returns:
        What `scores.json` holds: "bleu", "chrf", "perplexity", "signature" and more; of a parser "f1", "recall",
        "precision" and more in place of the first two. Perplexity, accuracy and loss are those of the
        "perplexity_sentences" that are not empty on a side, nor longer than the model's positions, nor trees with a tag
        that the tokenizer lacks; if there are none, these scores are missing. "checkpoint" and "weights" say which
        checkpoint was scored.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> from tf_transformer.recipe import save_recipe
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=280, target_vocab_size=280, max_length=64)
        >>> model.build(((None, None), (None, None)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = RunDirectory.create(f"{folder}/runs/small")  # a training leaves the same there
        ...     save_recipe(tt.load_recipe("train/recipes/demo.yaml"), run.recipe)
        ...     tokenizers.save(run.tokenizer)
        ...     model.save(run.best)
        ...     scores = evaluate(run, [("a dog", "ein Hund")])
        >>> scores["sentences"], scores["truncated"], scores["bleu"] < 100
        (1, 0, True)
    """
    recipe = load_recipe(run.recipe)
    if isinstance(pairs, TreePairs) != (recipe.task == "parsing"):
        if recipe.task == "parsing":
            raise UserError(f"{run.path}: a parser, which is scored on trees; give --trees FILE instead")
        raise UserError(NO_PARSER.format(run.path))
    if tokenize:
        check_tokenizer(tokenize)  # told before all work
    checkpoint = run.best_checkpoint()
    scored = identity(checkpoint)
    model, tokenizers = load_model(checkpoint, "float32"), run.load_tokenizers()
    translator = _prepare(model, tokenizers, recipe, changes)
    return scored | _score(translator, recipe, pairs, lowercase, batch_size, streams, tokenize, grammar)


def evaluate_sets(
    model: SequenceModel, tokenizers: TokenizerPair, recipe: Recipe, sets: Mapping[str, Pairs]
) -> dict[str, dict[str, Any]]:
    """Scores several sets, by name, as at the end of a training."""
    translator = _prepare(model, tokenizers, recipe)
    # Parts side by side leave each operation one thread; so do batches translated at once.
    options = {"lowercase": recipe.evaluation.lowercase, "streams": recipe.training.parallel_parts}
    return {name: _score(translator, recipe, pairs, **options) for name, pairs in sets.items()}


def _prepare(
    model: SequenceModel, tokenizers: TokenizerPair, recipe: Recipe, changes: Mapping[str, Any] | None = None
) -> Translator:
    """What translates all sets, with the model ready to be evaluated: each traces its graph but once."""
    # Not by XLA: a set is read once, and XLA would compile a program for each length of its batches.
    once = recipe.training.model_copy(update={"jit_compile": False, "steps_per_execution": 1})
    compile_model(model, recipe.model_copy(update={"training": once}))
    return make_translator(model, tokenizers, recipe.evaluation.decoding_options().changed(**(changes or {})))


def _score(
    translator: Translator,
    recipe: Recipe,
    pairs: Pairs,
    lowercase: bool = False,
    batch_size: int | None = None,
    streams: int = 1,
    tokenize: str | None = None,
    grammar: bool | None = None,
) -> dict[str, Any]:
    """What `evaluate` returns of one set."""
    model, tokenizers = translator.model, translator.tokenizers
    sentences = list(pairs)
    longest = model.max_length  # unlike in training, where data.max_length drops pairs
    batches = make_batches(
        sentences, tokenizers, batch_tokens=max(recipe.data.batch_tokens, longest), max_length=longest
    )
    scored = count_pairs(sentences, tokenizers, max_length=longest).kept
    with telling_out_of_memory(lambda: "while the perplexity was computed", PERPLEXITY_ADVICE):
        figures = model.evaluate(with_known_length(batches), verbose=0, return_dict=True) if scored else {}
    batch_size = batch_size or recipe.evaluation.batch_size
    if recipe.task == "parsing":
        grammar = recipe.evaluation.grammar if grammar is None else grammar
        scores = evaluate_parses(parse_function(translator, grammar), pairs.trees(), batch_size, streams)
    else:
        tokenize = tokenize or recipe.evaluation.tokenize
        scores, _ = evaluate_translations(translator.translate, sentences, lowercase, batch_size, streams, tokenize)
    chosen = {name: figures[name] for name in ("perplexity", "accuracy", "loss") if name in figures}
    return {**scores, **chosen, "perplexity_sentences": scored}
