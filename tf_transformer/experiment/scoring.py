"""What a run's best checkpoint scores on a set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tf_transformer.data.batching import make_batches, with_known_length
from tf_transformer.data.filters import count_pairs
from tf_transformer.evaluation import evaluate_translations
from tf_transformer.experiment.compiling import compile_model
from tf_transformer.experiment.corpus import Pairs
from tf_transformer.export.translator import Translator
from tf_transformer.recipe import load_recipe
from tf_transformer.run_directory import RunDirectory, load_model


def evaluate(
    run: RunDirectory,
    pairs: Pairs,
    lowercase: bool = False,
    batch_size: int | None = None,
    changes: Mapping[str, Any] | None = None,
    streams: int = 1,
    tokenize: str | None = None,
) -> dict[str, Any]:
    """Translates a set with a run's best checkpoint and scores it.

    Args:
        run: the run directory.
        pairs: sentences and their references.
        lowercase: whether to score without regard to case as well.
        batch_size: sentences at once; the recipe's unless given.
        changes: decoding options in place of the recipe's.
        streams: batches at once.
        tokenize: how BLEU splits text into words; as the recipe says unless given.

    Returns:
        What `scores.json` holds: "bleu", "chrf", "perplexity", "signature" and more. Perplexity, accuracy and loss are
        those of the "perplexity_sentences" that are not empty on a side, nor longer than the model's positions; where
        there are none they are missing.
    """
    recipe = load_recipe(run.recipe)
    model, tokenizers = load_model(run.path), run.load_tokenizers()
    compile_model(model, recipe)
    sentences = list(pairs)
    longest = recipe.model.max_length  # unlike in training, where data.max_length drops pairs
    batches = make_batches(
        sentences,
        tokenizers,
        batch_tokens=max(recipe.data.batch_tokens, longest),
        max_length=longest,
        fixed_shapes=recipe.training.jit_compile,
    )
    scored = count_pairs(sentences, tokenizers, max_length=longest).kept
    figures = model.evaluate(with_known_length(batches), verbose=0, return_dict=True) if scored else {}
    translator = Translator(model, tokenizers, recipe.evaluation.decoding_options().changed(**(changes or {})))
    scores, _ = evaluate_translations(
        translator.translate,
        sentences,
        lowercase,
        batch_size or recipe.evaluation.batch_size,
        streams,
        tokenize or recipe.evaluation.tokenize,
    )
    chosen = {name: figures[name] for name in ("perplexity", "accuracy", "loss") if name in figures}
    return {**scores, **chosen, "perplexity_sentences": scored}
