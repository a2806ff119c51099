"""Scores of a test set whose source texts were perturbed: how much a model loses where people write in haste."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tf_transformer.data.noise import Noise
from tf_transformer.evaluation.scores import score_translations

if TYPE_CHECKING:
    from tf_transformer.translation.texts import Translate

# A copy of the test set is made with each; the same for every model, so that figures compare.
PERTURBATIONS = {
    "lower_case": Noise(lower_case=1),
    "upper_case": Noise(upper_case=1),
    "no_accents": Noise(no_accents=1),
    "typos": Noise(typos=0.1),
}


def evaluate_perturbed(
    translate: Translate,
    pairs: Sequence[tuple[str, str]],
    batch_size: int = 64,
    streams: int = 1,
    tokenize: str = "13a",
) -> dict[str, dict[str, Any]]:
    """Translates a copy of a set with each of `PERTURBATIONS`, and scores it against the same references.

    Args:
        translate: as `tf_transformer.translation.load_translate` gives it.
        pairs: sentences and their references.
        batch_size: sentences at once.
        streams: batches at once.
        tokenize: as in `score_translations`.

    Returns:
        By the perturbation's name a dict that `json.dumps` takes: "bleu", "chrf", and "changed", the number of
        sentences that it changed. One that changes none is left out: it would score as the set itself does.

    Example:
        >>> import tensorflow as tf
        >>> def echo(texts):
        ...     rows = len(texts)
        ...     return {"translation": tf.constant(texts), "score": tf.zeros(rows), "truncated": tf.fill(rows, False)}
        >>> scores = evaluate_perturbed(echo, [("I saw the old man there.", "I saw the old man there.")])
        >>> scores["lower_case"]["changed"], scores["upper_case"]["bleu"] < 100, "no_accents" in scores
        (1, True, False)
    """
    from tf_transformer.translation.texts import translate_texts

    sources, references = zip(*pairs, strict=True)
    scores = {}
    for name, noise in PERTURBATIONS.items():
        texts = [noise(number, text) for number, text in enumerate(sources, start=1)]
        changed = sum(text != source for text, source in zip(texts, sources, strict=True))
        if changed:
            hypotheses = [each.text for each in translate_texts(translate, texts, batch_size, streams)]
            found = score_translations(hypotheses, references, tokenize=tokenize)
            scores[name] = {"bleu": found.bleu, "chrf": found.chrf, "changed": changed}
    return scores
