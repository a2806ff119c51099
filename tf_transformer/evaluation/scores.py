"""Scores of translations: BLEU and chrF as sacreBLEU computes them, each with its signature."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tf_transformer.errors import UserError, check_is_list, reason

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU

    from tf_transformer.translation.texts import Translate, Translation


class NgramCounts(NamedTuple):
    """What BLEU's four precisions are made of, 1-grams first.

    Attributes:
        counts: n-grams of the hypotheses that their references hold too, clipped.
        totals: n-grams of the hypotheses.
    """

    counts: tuple[int, ...]
    totals: tuple[int, ...]


@dataclass(frozen=True)
class Scores:
    """How close a set of translations is to its references.

    Attributes:
        bleu: corpus BLEU, 0 to 100.
        chrf: corpus chrF2, 0 to 100.
        signature: sacreBLEU's signature of the BLEU figure.
        chrf_signature: sacreBLEU's signature of the chrF figure.
        precisions: the clipped n-gram counts and their totals, four of each.
        brevity_penalty: `exp(1 - reference_length / hypothesis_length)`, or 1 if nothing is too short.
        hypothesis_length: tokens of all hypotheses together.
        reference_length: tokens of all references together.

    Example:
        >>> scores = score_translations(["The cat sat on the mat."], ["The cat sat on a mat."])
        >>> scores.precisions.counts, scores.precisions.totals  # clipped n-grams of 1 to 4 words that match, and all
        ((6, 4, 2, 1), (7, 6, 5, 4))
    """

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str
    precisions: NgramCounts
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int

    def as_dict(self) -> dict[str, Any]:
        """The scores as `json.dumps` takes them, under the names of the attributes."""
        counts = {name: list(values) for name, values in self.precisions._asdict().items()}
        return {**asdict(self), "precisions": counts}


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    smooth_method: str = "exp",
) -> Scores:
    """Scores translations against one reference each.

    The defaults are sacreBLEU's. Text goes in as people read it; sacreBLEU splits it into words itself.

    Args:
        hypotheses: the translations, str.
        references: what each of them should have been, str, in the same order.
        lowercase: whether BLEU and chrF ignore case.
        tokenize: how sacreBLEU splits text for BLEU; "none" for text that is tokenised already.
        smooth_method: what BLEU does about an n-gram order without a match; "none" makes the whole BLEU 0.

    Returns:
        The scores of the set as a whole, which are not the means over its sentences.

    Raises:
        UserError: the two differ in length, are empty or contain anything but str, or sacreBLEU
            lacks the tokenizer or the smoothing method.

    Example:
        >>> scores = score_translations(["The cat sat on the mat."], ["The cat sat on a mat."])
        >>> print(f"{scores.bleu:.1f} {scores.signature.split('|version')[0]}")
        48.9 nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp
    """
    from sacrebleu.metrics import CHRF

    hypotheses = _as_texts("hypotheses", hypotheses)
    references = _as_texts("references", references)
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} hypotheses against {len(references)} references: "
            "give one reference for each hypothesis, in the same order"
        )
    if not hypotheses:
        raise UserError("nothing to score: give at least one hypothesis and its reference")
    metric = _bleu(lowercase, tokenize, smooth_method)
    chrf_metric = CHRF(lowercase=lowercase)
    bleu = metric.corpus_score(hypotheses, [references])
    chrf = chrf_metric.corpus_score(hypotheses, [references])
    return Scores(
        bleu=bleu.score,
        chrf=chrf.score,
        signature=str(metric.get_signature()),
        chrf_signature=str(chrf_metric.get_signature()),
        precisions=NgramCounts(tuple(bleu.counts), tuple(bleu.totals)),
        brevity_penalty=bleu.bp,
        hypothesis_length=bleu.sys_len,
        reference_length=bleu.ref_len,
    )


def evaluate_translations(
    translate: Translate,
    pairs: Sequence[tuple[str, str]],
    lowercase: bool = False,
    batch_size: int = 64,
    streams: int = 1,
    tokenize: str = "13a",
) -> tuple[dict[str, Any], list[Translation]]:
    """Translates a set and scores it.

    Args:
        translate: as `tf_transformer.translation.load_translate` gives it.
        pairs: sentences and their references.
        lowercase: whether to score without regard to case as well, under "lowercased".
        batch_size: sentences at once.
        streams: batches at once.
        tokenize: as in `score_translations`.

    Returns:
        A dict that `json.dumps` takes: the scores, "oddities" (see `share_of_oddities`), "sentences", "truncated" (how
        many were cut to the model's positions) and "translation_seconds"; and the translations.

    Raises:
        UserError: there is no pair, or sacreBLEU can't use the tokenizer.

    Example:
        >>> import numpy as np
        >>> def echo(texts):
        ...     rows = len(texts)
        ...     return {"translation": np.array(texts, "S"), "score": np.zeros(rows), "truncated": np.zeros(rows, bool)}
        >>> scores, translations = evaluate_translations(echo, [("We saw the old man.", "We saw the old man.")])
        >>> round(scores["bleu"]), scores["sentences"], translations[0].text
        (100, 1, 'We saw the old man.')
    """
    from tf_transformer.evaluation.oddities import share_of_oddities
    from tf_transformer.translation.texts import translate_texts

    check_tokenizer(tokenize)  # told before the translating, not after it
    start = time.perf_counter()
    sources = [source for source, _ in pairs]
    translations = list(translate_texts(translate, sources, batch_size, streams))
    seconds = time.perf_counter() - start
    hypotheses = [translation.text for translation in translations]
    references = [reference for _, reference in pairs]
    scores = score_translations(hypotheses, references, tokenize=tokenize).as_dict()
    if lowercase:
        lowercased = score_translations(hypotheses, references, lowercase=True, tokenize=tokenize)
        scores["lowercased"] = lowercased.as_dict()
    scores["oddities"] = share_of_oddities(sources, hypotheses, references)
    scores["sentences"] = len(pairs)
    scores["truncated"] = sum(translation.truncated for translation in translations)
    scores["translation_seconds"] = round(seconds, 2)
    return scores, translations


def check_tokenizer(tokenize: str) -> None:
    """Makes sure that BLEU can be computed with a tokenizer of sacreBLEU's.

    Args:
        tokenize: as in `score_translations`.

    Raises:
        UserError: sacreBLEU lacks it, or a package or a file that it needs is missing.
    """
    _bleu(tokenize=tokenize)


def _bleu(lowercase: bool = False, tokenize: str = "13a", smooth_method: str = "exp") -> BLEU:
    from sacrebleu.metrics import BLEU

    _check_choice("tokenize", tokenize, BLEU.TOKENIZERS)
    _check_choice("smooth_method", smooth_method, BLEU.SMOOTH_DEFAULTS)
    try:
        # `force` silences the warning that text looks tokenised, which "none" says it is.
        return BLEU(lowercase=lowercase, tokenize=tokenize, smooth_method=smooth_method, force=tokenize == "none")
    except (ImportError, RuntimeError, OSError) as error:
        # Some of sacreBLEU's tokenizers need another package or a file it downloads.
        raise UserError(f"tokenize={tokenize!r} cannot be used here: {reason(error)}") from error


def _as_texts(name: str, texts: Sequence[str]) -> list[str]:
    """The texts as a list; sacreBLEU would score the characters of a lone string without a word."""
    check_is_list(texts, name)
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"{name}[{index}] is {type(text).__name__}: give str (decode bytes as UTF-8)")
    return texts


def _check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise UserError(f"{name}={value!r} is unknown to sacreBLEU: choose one of {', '.join(allowed)}")
