"""A model together with its tokenizers: text in, text out, entirely inside the graph."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tf_transformer.backend import check_is_tensorflow
from tf_transformer.decoding import DecodingOptions, score_tokens
from tf_transformer.decoding.options import check_positions
from tf_transformer.distributed.replicas import scope_of
from tf_transformer.errors import UserError
from tf_transformer.tokenizers.base import START_ID
from tf_transformer.translation.compiled import CompiledSearch, rows_that_pay
from tf_transformer.translation.exploring import Explorer
from tf_transformer.translation.reading import read
from tf_transformer.translation.search import Search, either, lengths
from tf_transformer.translation.signature_options import (
    OPTION_TYPES,
    PREFIX_PROTECTED,
    Output,
    batch_of_strings,
    check_prefixes,
    option_tensors,
    with_options,
)
from tf_transformer.translation.writing import Writer

if TYPE_CHECKING:
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.tokenizers import TokenizerPair

TEXT = tf.TensorSpec([None], tf.string, name="text")


class Translator(tf.Module):
    """Translates batches of text, scores translations, and shows what the model attends to.

    Args:
        model: a `Transformer`, say; one that is not built yet, since it is still to be trained, is built.
        tokenizers: the tokenizers it was trained with.
        options: how translations are searched for, unless a call says otherwise.
        half: whether to hold the weights as float16, half the size; the work is done in the model's own precision.
            They are those that the model has now: after further training, make another translator.
        compiled: whether XLA may compile the search, see `warm_up`. What is computed from the model's weights is then
            computed once: after further training, make another translator.

    Raises:
        UserError: options that the model has no positions for, or tokenizers whose vocabularies are not of the model's
            sizes; only of source tokens the model may have more.

    Example:
        >>> import tf_transformer as tt
        >>> pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
        >>> tokenizers = tt.train_tokenizers(pairs, vocab_size=290)
        >>> size = tokenizers.source.vocab_size
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=size, target_vocab_size=size, max_length=64)
        >>> translator = tt.Translator(model, tokenizers, tt.DecodingOptions(extra_length=5))
        >>> translator.translate(["a dog", ""])["translation"].shape
        TensorShape([2])
        >>> translator.translate(["a dog"], beam_size=8, num_hypotheses=3)["score"].shape
        TensorShape([1, 3])
    """

    def __init__(
        self,
        model: SequenceModel,
        tokenizers: TokenizerPair,
        options: DecodingOptions | None = None,
        half: bool = False,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        check_is_tensorflow("a Translator")
        options = options or DecodingOptions()
        check_positions(options, model.max_length)
        _check_vocabularies(model, tokenizers)
        if not model.built:
            with scope_of(model):
                model.build(((None, None), (None, None)))
        self.tokenizers = tokenizers
        self.options = options
        self.max_length = model.max_length
        model.share_constants()
        self._search = Search(model, options, half, prepared=compiled)
        # What is drawn by chance is searched for among all tokens, which takes too long for a program of fixed size.
        self._compiles = compiled and not options.temperature
        self.functions = self._make_functions()

    @property
    def model(self) -> SequenceModel:
        """The model."""
        return self._search.model

    def translate(
        self, texts: Sequence[str] | tf.Tensor, prefix: Sequence[str] | None = None, **changes: Any
    ) -> Output:
        """Translates texts.

        Args:
            texts: a list of strings or a tensor (batch,), UTF-8; of one text a list of one.
            prefix: string (batch,): what each translation must begin with.
            **changes: options that differ from the translator's; see `DecodingOptions`, all but `extra_length` and
                `length_offset`.

        Returns:
            A dict: "translation", string (batch,); "score", float32 (batch,), the translation's log-probability over
            the length penalty; "truncated", bool (batch,), whether the text was cut because it has more tokens than
            the model has positions. A text that is empty or only spaces has an empty translation and score 0. With
            `num_hypotheses` among the changes the first two are (batch, num_hypotheses), best first; where there are
            fewer, the rest is empty and has score -inf.

        Raises:
            UserError: one string in place of a list, an option that can't be, or a prefix that is longer than its
                translation may be.
        """
        texts = batch_of_strings(texts, "texts")
        if not changes and prefix is None:
            return self.functions["translate"](texts)
        wrong = sorted(set(changes) - set(OPTION_TYPES))
        if wrong:
            raise UserError(f"unknown option {wrong[0]}; choose from {', '.join(['prefix', *OPTION_TYPES])}")
        options = self.options.changed(**changes)
        check_positions(options, self.max_length)
        graph = self._graph_for(options.protect, options.replace_unknown, options.temperature > 0)
        translate = with_options(
            lambda texts, prefix, tensors: graph(texts, prefix, *tensors.values()),
            options,
            several="num_hypotheses" in changes,
        )
        return translate(texts, prefix)

    def warm_up(
        self, rows: Sequence[int] | None = None, lengths: Sequence[int] = (16, 32, 64)
    ) -> dict[tuple[int, int], float]:
        """Has XLA compile the search with the translator's own options, which makes `translate` of few texts faster.

        One program is compiled for each size of a batch, in one to ten seconds each. A batch is padded to the next
        size that was compiled: at most twice its sentences. Other batches, other options, and translations half as
        many tokens again as the padded source are searched for as ever, with the same result but for rounding.

        Args:
            rows: sentences in a batch: up to 1, 2, 4, 8, 16 or 32. By default those with up to 8 hypotheses: 1 and 2
                with a beam of 4, 1 to 8 with greedy search. In larger batches the search that is not compiled is the
                faster one on some machines.
            lengths: tokens of the longest sentence in it, the closing one counted: up to 16, 32, 64 or 128.

        Returns:
            The seconds that each took, by rows and length; none of those that can't be compiled, being larger.

        Raises:
            UserError: the translator was not made with `compiled`, or draws its translations by chance.
        """
        if not self._compiles:
            raise UserError(
                "this translator does not compile its search: make it with compiled=True, and without a temperature"
            )
        seconds = {}
        for size in product(rows_that_pay(self.options.beam_size) if rows is None else rows, lengths):
            began = time.perf_counter()
            if self.functions["warm_up"](*([number] for number in size))["compiled"].numpy().all():
                seconds[size] = time.perf_counter() - began
        return seconds

    def as_new(self) -> AbstractContextManager:
        """The state in which it is exported: nothing is compiled yet when an export is loaded."""
        return self._compiled.cold() if self._compiles else nullcontext()

    def _make_functions(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """The graphs, by the names of the signatures they are exported as."""
        matrix = tf.TensorSpec([None, None], tf.int32)

        def graph(function: Any, *specs: tf.TensorSpec) -> Any:
            return tf.function(function, input_signature=specs, autograph=False)

        # These are graphs of their own: the functions that share one have one copy of it between them.
        search, warm_up = self._search, {}
        if self._compiles:
            self._compiled = CompiledSearch(search.best_in_fixed_memory, search.best, self.max_length)
            self._best = graph(self._compiled, matrix)
            sizes = (tf.TensorSpec([None], tf.int32, name=name) for name in ("rows", "lengths"))
            warm_up["warm_up"] = graph(self._warm_up, *sizes)
        else:
            self._best = graph(search.best, matrix)
        options = [tf.TensorSpec([], dtype, name) for name, dtype in OPTION_TYPES.items()]
        self._any = graph(search.with_options, matrix, matrix, tf.TensorSpec([], tf.bool), *options)
        with_prefix = TEXT, tf.TensorSpec([None], tf.string, name="prefix"), *options

        # A graph without the branches that a call doesn't need is made in a quarter of the time. No attribute holds
        # these graphs, so that none is exported.
        @cache
        def graph_for(protect: bool, replace_unknown: bool, sampled: bool) -> Any:
            known = {"protect": protect, "replace_unknown": replace_unknown, "sampled": sampled}
            return graph(partial(self._translate_with_options, known=known), *with_prefix)

        self._graph_for = graph_for
        self._attend = graph(search.attention, matrix, matrix)
        self._writer = Writer(self.model, self.tokenizers, self.options, self._attend)
        self._explorer = Explorer(self._writer, search, self._any)
        return {
            "translate": graph(self._translate, TEXT),
            "translate_nbest": graph(self._translate_nbest, TEXT),
            "translate_with_attention": graph(self._translate_with_attention, TEXT),
            "translate_with_options": graph(self._translate_with_options, *with_prefix),
            "score": graph(
                self._score, *(tf.TensorSpec([None], tf.string, name=side) for side in ("source", "target"))
            ),
            "tokenize": graph(self._tokenize, TEXT),
            "detokenize": graph(self._detokenize, tf.TensorSpec([None, None], tf.int32, name="ids")),
            **self._explorer.functions(),
            **warm_up,
        }

    def _translate(self, text: tf.Tensor) -> Output:
        taken = self._writer.taken(text)
        source_ids, truncated = read(self.tokenizers.source, taken.text, self.max_length)
        ids, scores = self._best(source_ids)
        return {
            "translation": self._writer.write(taken, source_ids, ids)[:, 0],
            "score": scores[:, 0],
            "truncated": truncated,
        }

    def _translate_nbest(self, text: tf.Tensor) -> Output:
        # Samples are as many as were asked for; a search gives all its hypotheses.
        number = self.options.num_hypotheses if self.options.temperature else self.options.beam_size
        tensors = option_tensors(replace(self.options, num_hypotheses=number))
        no_prefix = tf.fill(tf.shape(text), "")
        return self.functions["translate_with_options"](text, no_prefix, *tensors.values())

    def _translate_with_attention(self, text: tf.Tensor) -> Output:
        taken = self._writer.taken(text)
        source_ids, truncated = read(self.tokenizers.source, taken.text, self.max_length)
        ids, scores = self._best(source_ids)
        ids = ids[:, 0]
        ids = ids[:, : tf.reduce_max(tf.concat([lengths(ids), [0]], axis=0))]
        return {
            "translation": self._writer.write(taken, source_ids, ids[:, None])[:, 0],
            "score": scores[:, 0],
            "truncated": truncated,
            **self._explorer.looked_at(source_ids, ids),
        }

    def _translate_with_options(
        self, text: tf.Tensor, prefix: tf.Tensor, *options: tf.Tensor, known: dict[str, bool] | None = None
    ) -> Output:
        chosen = dict(zip(OPTION_TYPES, options, strict=True)) | (known or {})
        protect, replace_unknown = chosen["protect"], chosen["replace_unknown"]
        taken = either(protect, lambda wanted: self._writer.taken(text, wanted))
        source_ids, truncated = read(self.tokenizers.source, taken.text, self.max_length)
        prefix_ids = self.tokenizers.target.tokenize(prefix).to_tensor()
        checks = [
            check_prefixes(prefix, text),
            tf.debugging.Assert(tf.logical_not(protect) | tf.reduce_all(prefix == ""), [PREFIX_PROTECTED]),
        ]
        with tf.control_dependencies(checks):
            if known:
                found = self._search.with_options(source_ids, prefix_ids, None, *options, sampled=known["sampled"])
            else:
                found = self._any(source_ids, prefix_ids, False, *options)
        ids, scores, *_ = found

        def written(protected: bool) -> tf.Tensor:
            return either(replace_unknown, lambda wanted: self._writer.write(taken, source_ids, ids, protected, wanted))

        # Where there are fewer than were asked for, the rest has no spans either.
        translation = tf.where(scores > -float("inf"), either(protect, written), "")
        return {"translation": translation, "score": scores, "truncated": truncated}

    def _score(self, source: tf.Tensor, target: tf.Tensor) -> Output:
        source_ids, source_truncated = read(self.tokenizers.source, source, self.max_length)
        target_ids, target_truncated = read(self.tokenizers.target, target, self.max_length)
        with self._search.weights_in_use():
            scores = score_tokens(self.model, source_ids, target_ids, START_ID)
        return {
            "score": tf.reduce_sum(scores, axis=1),
            "token_scores": scores,
            "tokens": self.tokenizers.target.piece_texts(target_ids),
            "truncated": source_truncated | target_truncated,
        }

    def _warm_up(self, rows: tf.Tensor, lengths: tf.Tensor) -> Output:
        return {"compiled": self._compiled.warm_up(rows, lengths)}

    def _tokenize(self, text: tf.Tensor) -> Output:
        ids = self.tokenizers.source.tokenize(text).to_tensor()
        return {"ids": ids, "tokens": self.tokenizers.source.piece_texts(ids)}

    def _detokenize(self, ids: tf.Tensor) -> Output:
        return {"text": self.tokenizers.target.detokenize(ids)}


def _check_vocabularies(model: SequenceModel, tokenizers: TokenizerPair) -> None:
    """Raises a UserError where one side has tokens that the other does not know.

    TensorFlow tells nothing of them before it meets one, and SentencePiece's operation ends the process there.
    """
    for side, in_model in ("source", model.input_vocab_size), ("target", model.target_vocab_size):
        size = getattr(tokenizers, side).vocab_size
        # The model never writes source tokens, so that those that no text has do no harm.
        if in_model < size or (side == "target" and in_model > size):
            argument = "input_vocab_size" if side == "source" else "target_vocab_size"
            raise UserError(
                f"the model has {in_model} {side} tokens and the {side} tokenizer {size}; give the tokenizers that the "
                f"model was trained with, or make and train a model with {argument}={size}"
            )
