"""What every engine trains on: the same batches and the same first weights."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
from exports import write_weights

from tf_transformer import SmoothedCrossEntropy, Transformer
from tf_transformer.data import make_batches
from tf_transformer.experiment.corpus import open_source
from tf_transformer.recipe import Recipe
from tf_transformer.tokenizers import train_tokenizers

Batch = tuple[np.ndarray, np.ndarray, np.ndarray]  # source ids, target ids, labels


def sample_batches(recipe: Recipe, batch_tokens: int, vocab_size: int, count: int) -> list[Batch]:
    """Makes batches of a recipe's training data, of all lengths, as often as the data has them.

    Args:
        recipe: names the corpus, the tokenizer and the longest sentence.
        batch_tokens: the most positions on a side of a batch, in place of the recipe's.
        vocab_size: of the model; the tokenizer may have fewer tokens, but not more.
        count: how many batches.

    Returns:
        The batches: int32 arrays, padded with 0.

    Raises:
        SystemExit: the tokenizer has more tokens than the model.
    """
    pairs = open_source(recipe, "train")
    settings = recipe.tokenizer
    tokenizers = train_tokenizers(pairs, kind=settings.kind, vocab_size=settings.vocab_size, joint=settings.joint)
    tokens = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    if tokens > vocab_size:
        raise SystemExit(
            f"the tokenizer has {tokens} tokens, the model {vocab_size}: give --set tokenizer.vocab_size={vocab_size}"
        )
    batches = make_batches(
        pairs,
        tokenizers,
        batch_tokens=batch_tokens,
        max_length=min(recipe.data.max_length, batch_tokens),
        max_ratio=recipe.data.max_ratio,
        shuffle_buffer=100_000,
        seed=recipe.seed,
        repeat=True,  # so that every batch is full
    )
    drawn = [(source, target, labels) for (source, target), labels in batches.take(8 * count).as_numpy_iterator()]
    drawn.sort(key=lambda batch: batch[2].shape[1])
    return [drawn[i * len(drawn) // count] for i in range(count)]


def save_batches(batches: list[Batch], file: Path) -> None:
    """Writes batches as a NumPy archive."""
    names = "source", "target", "labels"
    np.savez(file, **{f"{names[j]}_{i}": ids for i, batch in enumerate(batches) for j, ids in enumerate(batch)})


def count_tokens(batches: list[Batch]) -> int:
    """Target tokens to be predicted, padding not counted."""
    return sum(int(np.count_nonzero(labels)) for _, _, labels in batches)


def save_first_weights(sizes: dict, checked: Batch, file: Path) -> tuple[dict, float]:
    """Draws a model's first weights and writes them.

    Args:
        sizes: num_layers, d_model, num_heads, dff, vocab_size and max_length.
        checked: rows whose loss every engine tells.
        file: the NumPy archive to write.

    Returns:
        The sizes with the layer norms' "epsilon" and the number of "parameters"; and the checked rows' loss a token,
        worked out from the full logits.
    """
    keras.utils.set_random_seed(1)
    arguments = {name: sizes[name] for name in ("num_layers", "d_model", "num_heads", "dff", "max_length")}
    vocabularies = {f"{side}_vocab_size": sizes["vocab_size"] for side in ("input", "target")}
    model = Transformer(**arguments, **vocabularies, share_embeddings="all")
    source, target, labels = checked
    loss = float(SmoothedCrossEntropy()(labels, model((source, target), training=False)))
    write_weights(model, file)
    epsilon = model.encoder.layers[0].feed_forward_residual.norm.epsilon
    return {**sizes, "epsilon": epsilon, "parameters": model.count_params()}, loss
