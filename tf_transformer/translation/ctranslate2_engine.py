"""Translates with CTranslate2, with the same tokenizers, limits and scores as `Translator`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import tensorflow as tf

from tf_transformer.cores import cores
from tf_transformer.decoding.options import DecodingOptions, check_positions
from tf_transformer.errors import UserError, reason
from tf_transformer.files.checksums import check_checksums
from tf_transformer.tokenizers import END_ID, PAD_ID, TokenizerPair
from tf_transformer.translation.ctranslate2_format import TOKENIZER, import_ctranslate2, read_settings
from tf_transformer.translation.signature_options import batch_of_strings

# The paper's score, and ids with the closing token
Hypothesis = tuple[float, list[int]]


class CTranslate2Engine:
    """What `Translator.translate` is, worked out by CTranslate2.

    Its probabilities are shares of what may be said at a step. So they leave padding out, and the closing token before
    the minimum length, where ours count them; for a trained model that is less than a thousandth of a score.

    It may be called from several threads.

    Args:
        translator: a `ctranslate2.Translator`.
        tokenizers: the tokenizers of its model.
        positions: the most tokens that the model takes, the closing one counted.
        options: how to decode.
    """

    def __init__(self, translator: Any, tokenizers: TokenizerPair, positions: int, options: DecodingOptions) -> None:
        self.translator = translator
        self.tokenizers = tokenizers
        self.positions = positions
        self.options = options
        source, target = tokenizers.source, tokenizers.target
        self._source_pieces = source.pieces(list(range(source.vocab_size)))
        self._target_pieces = target.pieces(list(range(target.vocab_size)))
        self._target_ids = {piece: id_ for id_, piece in enumerate(self._target_pieces)}

    @property
    def streams(self) -> int:
        """How many batches it works on at once, each for a thread that calls it."""
        return self.translator.num_translators

    def __call__(self, texts: Any) -> dict[str, tf.Tensor]:
        """Translates; see `Translator.translate`.

        Args:
            texts: string (batch,), UTF-8.

        Returns:
            "translation", string (batch,); "score", float32 (batch,); "truncated", bool (batch,).
        """
        tokens = self.tokenizers.source.tokenize(batch_of_strings(texts, "texts")).to_list()
        most = self.positions - 1  # one position is the closing token's
        sources = {row: ids[:most] for row, ids in enumerate(tokens) if ids}
        best: list[Hypothesis] = [(0.0, [])] * len(tokens)
        for row, hypotheses in self._search(sources).items():
            # What was cut at the limit ranks behind all that has closed.
            best[row] = max(hypotheses, key=lambda hypothesis: (hypothesis[1][-1] == END_ID, hypothesis))
        targets = tf.ragged.constant([ids for _, ids in best], dtype=tf.int32, ragged_rank=1)
        return {
            "translation": self.tokenizers.target.detokenize(targets),
            "score": tf.constant([score for score, _ in best], tf.float32),
            "truncated": tf.constant([len(ids) > most for ids in tokens], tf.bool),
        }

    def _limit(self, source: Sequence[int]) -> int:
        longest = min(self.positions, self.options.max_length or self.positions)
        return min(len(source) + self.options.extra_length, longest)

    def _search(self, sources: dict[int, list[int]]) -> dict[int, list[Hypothesis]]:
        """Gives the hypotheses of each row, and takes care that none depends on another row's limit.

        CTranslate2 has one limit for a batch. A search is that of a lower limit as long as it never reaches it, and few
        do; those are made again. Samples can't be: to draw again where they are long would favour the short ones.
        """
        limits = {row: self._limit(source) for row, source in sources.items()}
        pending, found = list(sources), {}
        if pending and not self.options.temperature:
            highest = max(limits.values())
            found = self._decode(sources, highest)
            pending = [row for row in pending if limits[row] < highest and _longest(found[row]) >= limits[row]]
        for limit, rows in groupby(sorted(pending, key=limits.get), key=limits.get):
            found |= self._decode({row: sources[row] for row in rows}, limit)
        return found

    def _decode(self, sources: dict[int, list[int]], limit: int) -> dict[int, list[Hypothesis]]:
        """Gives the hypotheses of each row as CTranslate2 finds them, scored as in the paper."""
        options = self.options
        # With a penalty of 0 CTranslate2 would end its search by another rule.
        exponent = max(options.alpha, 1e-3)
        beam_size = 1 if options.temperature else options.beam_size
        results = self.translator.translate_batch(
            [[self._source_pieces[i] for i in [*ids, END_ID]] for ids in sources.values()],
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=min(options.min_length - 1, limit),  # it does not count the closing token
            beam_size=beam_size,
            num_hypotheses=beam_size,
            length_penalty=exponent,
            no_repeat_ngram_size=options.no_repeat_ngram_size,
            suppress_sequences=[[self._target_pieces[PAD_ID]]],
            return_end_token=True,
            return_scores=True,
            **self._sampling(),
        )

        def hypothesis(pieces: list[str], score: float) -> Hypothesis:
            # CTranslate2's own normalisation is by length ** exponent.
            log_probability = score * len(pieces) ** exponent
            ids = [self._target_ids[piece] for piece in pieces]
            offset = options.length_offset
            return log_probability / ((offset + len(ids)) / (offset + 1)) ** options.alpha, ids

        return {
            row: [hypothesis(*pair) for pair in zip(result.hypotheses, result.scores, strict=True)]
            for row, result in zip(sources, results, strict=True)
        }

    def _sampling(self) -> dict[str, Any]:
        options = self.options
        if not options.temperature:
            return {}
        return {
            "sampling_temperature": options.temperature,
            "sampling_topk": min(options.top_k, len(self._target_pieces)),
            "sampling_topp": options.top_p,
        }


def _longest(hypotheses: list[Hypothesis]) -> int:
    return max(len(ids) for _, ids in hypotheses)


def load_ctranslate2(path: str | os.PathLike, changes: Mapping[str, Any] | None = None) -> CTranslate2Engine:
    """Loads what `export_ctranslate2` wrote.

    It searches as many batches at once as there are cores, if it is called from as many threads; the weights are in
    memory once. It samples one batch after another: a seed holds for a loaded model, which, loaded again, gives the
    same samples for the same calls.

    Args:
        path: the folder.
        changes: options in place of the export's own, see `DecodingOptions`; one translation a text, and unknown
            tokens stay as they are.

    Returns:
        A function as `tf_transformer.translation.load_translate` gives it.

    Raises:
        UserError: CTranslate2 isn't installed, a file is missing or damaged, or an option that it doesn't have.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> from tf_transformer.export.ctranslate2 import export_ctranslate2
        >>> from tf_transformer.translation.ctranslate2_engine import load_ctranslate2
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund"), ("a cat", "eine Katze")], vocab_size=290)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=290, target_vocab_size=290, max_length=64)
        >>> model.build(((None, None), (None, None)))
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     folder = export_ctranslate2(model, tokenizers, f"{directory}/ct2")
        ...     translate = load_ctranslate2(folder, {"beam_size": 2})
        >>> translate(["a dog", ""])["translation"].shape
        TensorShape([2])
    """
    ctranslate2 = import_ctranslate2()
    path = Path(path)
    for name in ("model.bin", "config.json"):
        if not (path / name).is_file():
            raise UserError(f"{path / name}: no such file; give a folder that `export --format ctranslate2` wrote")
    check_checksums(path, "export the model again")
    positions, exported = read_settings(path)
    options = exported.changed(**(changes or {}))
    _check(options, positions)
    tokenizers = TokenizerPair.load(path / TOKENIZER)
    # A thread draws from a generator of its own, which is seeded when it is made: samples have one worker. A search has
    # one on each core, with one thread: as for TensorFlow, the operations of a step are too small to be split.
    ctranslate2.set_random_seed(options.seed)
    threads = {} if options.temperature else {"inter_threads": cores(), "intra_threads": 1}
    try:
        translator = ctranslate2.Translator(str(path), **threads)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{path}: CTranslate2 can't load the model ({reason(error)}); export it again") from error
    return CTranslate2Engine(translator, tokenizers, positions, options)


def _check(options: DecodingOptions, positions: int) -> None:
    check_positions(options, positions)
    if options.num_hypotheses != 1:
        raise UserError(f"num_hypotheses is {options.num_hypotheses}; CTranslate2 supports only 1; use a SavedModel")
    for name in ("replace_unknown", "protect"):
        if getattr(options, name):
            raise UserError(f"{name} is not supported with CTranslate2; use a SavedModel")
