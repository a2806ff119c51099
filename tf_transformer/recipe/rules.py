"""The rules that compare a recipe's sections: what goes with its task, and what fits into what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tf_transformer.layers.arguments import check_head
from tf_transformer.recipe.data_settings import DEMO_SPLITS, are_two_paths, is_path
from tf_transformer.recipe.refusals import refuse, shown
from tf_transformer.tokenizers.kinds import TOKENIZER_KINDS

if TYPE_CHECKING:
    from tf_transformer.recipe.settings import Recipe


def check_task(recipe: Recipe) -> None:
    """Refuses what does not go with the recipe's task."""
    if recipe.task == "translation":
        if recipe.data.kind == "trees":
            refuse("data.kind", "is trees, which needs task: parsing")
        if recipe.data.tags:
            refuse("data.tags", "is true; it must be false, since only the words of trees have tags")
        if recipe.model.next_word:
            refuse("model.next_word", "is true; it must be false, since only trees tell which word comes next")
        if recipe.model.tree_state:
            refuse("model.tree_state", "is true; it must be false, since task translation writes no trees")
        if recipe.model.tree_loss:
            refuse("model.tree_loss", f"is {recipe.model.tree_loss}; it must be 0, since a translation is not a tree")
        if not recipe.evaluation.grammar:
            refuse("evaluation.grammar", "is false; it must be true, since task translation has no grammar")
        return
    parts_words = TOKENIZER_KINDS[recipe.tokenizer.kind].parts_words
    whole_words = f"false with tokenizer.kind: {recipe.tokenizer.kind}, which splits words at punctuation; or use bpe"
    for key, value, rule in (
        ("data.kind", recipe.data.kind in ("trees", "demo"), "trees, or demo"),
        ("tokenizer.joint", not recipe.tokenizer.joint, "false: trees have their own vocabulary"),
        ("model.share_embeddings", recipe.model.share_embeddings != "all", "target or none"),
        ("model.next_word", not (recipe.model.next_word and parts_words), whole_words),
        ("model.tree_state", not (recipe.model.tree_state and parts_words), whole_words),
        (
            "model.next_word",
            not (recipe.model.next_word and recipe.model.tree_state),
            "false with model.tree_state, which includes it",
        ),
        ("model.tree_loss", recipe.model.tree_state or not recipe.model.tree_loss, "0 without model.tree_state"),
        ("data.placeholders", not recipe.data.placeholders, "0"),
        ("evaluation.lowercase", not recipe.evaluation.lowercase, "false"),
        ("evaluation.no_repeat_ngram_size", not recipe.evaluation.no_repeat_ngram_size, "0: trees repeat brackets"),
        ("evaluation.tokenize", recipe.evaluation.tokenize == "13a", "left out: it is for BLEU"),
    ):
        if not value:
            section, _, leaf = key.rpartition(".")
            found = getattr(getattr(recipe, section), leaf)
            refuse(key, f"is {shown(found)}; for task parsing it must be {rule}")


def check_alignments(recipe: Recipe) -> None:
    """Refuses alignments that no head can learn, and a head that is none of the model's."""
    head, model = recipe.model.alignment_head, recipe.model
    if any(source.alignments for source in recipe.data.sources()) and model.kind != "transformer":
        refuse("data.alignments", f"is given, which needs model.kind: transformer, not {model.kind}")
    layers = model.decoder_layers or model.num_layers
    try:
        check_head(head, layers, model.num_heads)
    except ValueError:
        rule = f"[layer, head]: a decoder layer from 0 to {layers - 1} and a head from 0 to {model.num_heads - 1}"
        refuse("model.alignment_head", f"is {shown(head)}; it must be {rule}")


def check_also(recipe: Recipe) -> None:
    """Refuses other sets to score that the task has no use for."""
    also = recipe.evaluation.also
    if also is None:
        return
    parsing = recipe.task == "parsing"
    is_right = is_path if parsing else are_two_paths
    allowed = "the path of one treebank" if parsing else "two paths, [source, reference]"
    named = isinstance(also, dict) and all(map(is_path, also))
    if not named or not all(map(is_right, also.values())):
        refuse("evaluation.also", f"is {shown(also)}; it must be a mapping of names to sets, each {allowed}")
    for name in DEMO_SPLITS:
        if name in also:
            refuse("evaluation.also", f"has a set named {name}, which is the name of data.{name}; give it another name")


def check_fine_tuning(recipe: Recipe) -> None:
    """Refuses what goes only with a model to begin from."""
    if not recipe.tokenizer.keep and recipe.init_from is None:
        refuse(
            "tokenizer.keep", "is false, which needs init_from: without it, each training run learns its own tokenizer"
        )
    if not recipe.tokenizer.keep and recipe.task == "parsing":
        refuse("tokenizer.keep", "is false; for task parsing it must be true, since brackets have no pieces to map")


def check_sections(recipe: Recipe) -> None:
    """Refuses what one section says and another has no room for."""
    if recipe.data.placeholders and not TOKENIZER_KINDS[recipe.tokenizer.kind].has_symbols:
        rule = f"0 with tokenizer.kind: {recipe.tokenizer.kind}; or use bpe"
        refuse("data.placeholders", f"is {recipe.data.placeholders}; it must be {rule}")
    if recipe.model.share_embeddings == "all" and not recipe.tokenizer.joint:
        refuse("model.share_embeddings", "is all, which needs tokenizer.joint: true; or use target or none")
    for key, value, other, limit in (
        ("data.max_length", recipe.data.max_length, "data.batch_tokens", recipe.data.batch_tokens),
        ("data.max_length", recipe.data.max_length, "model.max_length", recipe.model.max_length),
    ):
        if value > limit:
            refuse(key, f"is {value}; it must be at most {other}, {limit}")
    parts, rows = recipe.training.parts(), recipe.data.batch_tokens // recipe.data.max_length
    if parts > rows:
        room = f"data.batch_tokens, {recipe.data.batch_tokens}, has room for {rows} of data.max_length"
        key, *other = (
            f"training.{k}" for k in ("gradient_accumulation", "parallel_parts") if getattr(recipe.training, k) > 1
        )
        product = "".join(f"times {factor} " for factor in other)
        refuse(key, f"{product}is {parts}; it must be at most {rows}: each part needs a row, and {room}")
