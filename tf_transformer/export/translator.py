"""A model together with its tokenizers: text in, text out, entirely inside the graph."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from tf_transformer.backend import check_is_tensorflow
from tf_transformer.decoding import (
    DecodingOptions,
    RandomSampler,
    align,
    beam_search,
    greedy_search,
    length_penalty,
    row_keys,
    sample,
    score_tokens,
    shift_right,
)
from tf_transformer.decoding.options import check_options, check_positions
from tf_transformer.distributed.replicas import scope_of
from tf_transformer.errors import UserError
from tf_transformer.export.compiled import CompiledSearch
from tf_transformer.export.exploring import Exploring, no_record
from tf_transformer.export.signature_options import (
    OPTION_TYPES,
    POSITIONS,
    PREFIX_LENGTH,
    Output,
    batch_of_strings,
    check_prefixes,
    option_tensors,
    with_options,
)
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID

if TYPE_CHECKING:
    from tf_transformer.decoding.rounds import Stepping
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.tokenizers import Tokenizer, TokenizerPair

TEXT = tf.TensorSpec([None], tf.string, name="text")


class Translator(Exploring, tf.Module):
    """Translates batches of text, scores translations, and shows what the model attends to.

    Args:
        model: a `Transformer`, say; one that is not built yet, since it is still to be trained, is built.
        tokenizers: the tokenizers it was trained with.
        options: how translations are searched for, unless a call says otherwise.
        half: whether to hold the weights as float16, half the size; the work is done in the model's own precision.
        compiled: whether XLA may compile the search, see `warm_up`. What is worked out from the model's weights is then
            worked out once: a model that is trained on needs another translator.

    Raises:
        UserError: options that the model has no positions for.

    Example:
        >>> import tf_transformer as tt
        >>> pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
        >>> tokenizers = tt.train_tokenizers(pairs, vocab_size=290)
        >>> size = tokenizers.source.vocab_size
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=size, target_vocab_size=size, max_length=64)
        >>> translator = tt.Translator(model, tokenizers)
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
        if not model.built:
            with scope_of(model):
                model.build(((None, None), (None, None)))
        self.tokenizers = tokenizers
        self.options = options
        self.max_length = model.max_length
        # What an attribute holds is saved, what a function returns is not: of the model a SavedModel needs the weights
        # alone, without Keras's own functions, and in one precision.
        self._model = lambda: model
        self._half = half
        weights = [variable.value for variable in model.weights]
        self.weights = [tf.Variable(tf.cast(w, tf.float16), trainable=False) for w in weights] if half else weights
        model.share_constants()
        self._derived = self._hold_derived() if compiled else []
        # What is drawn by chance is searched for among all tokens, which takes too long for a program of fixed size.
        self._compiles = compiled and not options.temperature
        self.functions = self._make_functions()

    @property
    def model(self) -> SequenceModel:
        """The model."""
        return self._model()

    def translate(
        self, texts: Sequence[str] | tf.Tensor, prefix: Sequence[str] | None = None, **changes: Any
    ) -> Output:
        """Translates texts.

        Args:
            texts: a list of strings or a tensor (batch,), UTF-8; of one text a list of one.
            prefix: string (batch,): what each translation must begin with.
            **changes: options that differ from the translator's; see `DecodingOptions`, all but `extra_length`.

        Returns:
            A dict: "translation", string (batch,); "score", float32 (batch,), the translation's log-probability over
            the length penalty; "truncated", bool (batch,), whether the text was cut because it has more tokens than
            the model has positions. An empty or blank text has an empty translation and score 0. With
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
        graph = self.functions["translate_with_options"]
        translate = with_options(
            lambda texts, prefix, tensors: graph(texts, prefix, *tensors.values()),
            options,
            several="num_hypotheses" in changes,
        )
        return translate(texts, prefix)

    def warm_up(
        self, rows: Sequence[int] = (1, 8, 32), lengths: Sequence[int] = (16, 32, 64)
    ) -> dict[tuple[int, int], float]:
        """Has XLA compile the search with the translator's own options, which makes `translate` faster from then on.

        One program is compiled for each size of a batch, in one to ten seconds each. A batch is padded to the next
        size that was compiled: at most twice its sentences. Other batches, other options, and translations of half as
        many tokens again as the padded source are searched for as ever, with the same result but for rounding.

        Args:
            rows: sentences in a batch: up to 1, 2, 4, 8, 16 or 32.
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
        for size in product(rows, lengths):
            began = time.perf_counter()
            if self.functions["warm_up"](*([number] for number in size))["compiled"].numpy().all():
                seconds[size] = time.perf_counter() - began
        return seconds

    def _make_functions(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """The graphs, by the names of the signatures they are exported as."""
        matrix = tf.TensorSpec([None, None], tf.int32)

        def graph(function: Any, *specs: tf.TensorSpec) -> Any:
            return tf.function(function, input_signature=specs, autograph=False)

        # These are graphs of their own: the functions that share one have one copy of it between them.
        functions = {}
        if self._compiles:
            self._compiled = CompiledSearch(self._search_fixed, self._search_best, self.max_length)
            self._best = graph(self._compiled, matrix)
            sizes = (tf.TensorSpec([None], tf.int32, name=name) for name in ("rows", "lengths"))
            functions["warm_up"] = graph(self._warm_up, *sizes)
        else:
            self._best = graph(self._search_best, matrix)
        options = [tf.TensorSpec([], dtype, name) for name, dtype in OPTION_TYPES.items()]
        self._any = graph(self._search_any, matrix, matrix, tf.TensorSpec([], tf.bool), *options)
        self._attend = graph(self._attention, matrix, matrix)
        return {
            "translate": graph(self._translate, TEXT),
            "translate_nbest": graph(self._translate_nbest, TEXT),
            "translate_with_attention": graph(self._translate_with_attention, TEXT),
            "translate_with_options": graph(
                self._translate_with_options, TEXT, tf.TensorSpec([None], tf.string, name="prefix"), *options
            ),
            "score": graph(
                self._score, *(tf.TensorSpec([None], tf.string, name=side) for side in ("source", "target"))
            ),
            "tokenize": graph(self._tokenize, TEXT),
            "detokenize": graph(self._detokenize, tf.TensorSpec([None, None], tf.int32, name="ids")),
            **self._exploring_functions(),
            **functions,
        }

    def _translate(self, text: tf.Tensor) -> Output:
        source_ids, truncated = self._read(self.tokenizers.source, text)
        ids, scores = self._best(source_ids)
        return {
            "translation": self._write(text, source_ids, ids, self.options.replace_unknown)[:, 0],
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
        source_ids, truncated = self._read(self.tokenizers.source, text)
        ids, scores = self._best(source_ids)
        ids = ids[:, 0]
        ids = ids[:, : tf.reduce_max(tf.concat([_lengths(ids), [0]], axis=0))]
        return {
            "translation": self._write(text, source_ids, ids[:, None], self.options.replace_unknown)[:, 0],
            "score": scores[:, 0],
            "truncated": truncated,
            **self._looked_at(source_ids, ids),
        }

    def _translate_with_options(self, text: tf.Tensor, prefix: tf.Tensor, *options: tf.Tensor) -> Output:
        source_ids, truncated = self._read(self.tokenizers.source, text)
        prefix_ids = self.tokenizers.target.tokenize(prefix).to_tensor()
        with tf.control_dependencies([check_prefixes(prefix, text)]):
            ids, scores, *_ = self._any(source_ids, prefix_ids, False, *options)
        replace_unknown = dict(zip(OPTION_TYPES, options, strict=True))["replace_unknown"]
        translation = tf.cond(
            replace_unknown,
            lambda: self._write(text, source_ids, ids, True),
            lambda: self._write(text, source_ids, ids, False),
        )
        return {"translation": translation, "score": scores, "truncated": truncated}

    def _score(self, source: tf.Tensor, target: tf.Tensor) -> Output:
        source_ids, source_truncated = self._read(self.tokenizers.source, source)
        target_ids, target_truncated = self._read(self.tokenizers.target, target)
        with self._weights():
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

    def _read(self, tokenizer: Tokenizer, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Maps texts to ids, int32 (batch, length), with the closing token; and tells which were cut."""
        tokens = tokenizer.tokenize(text)
        most = self.max_length - 1  # one position is the closing token's
        closing = tf.fill([tf.shape(text)[0], 1], END_ID)
        return tf.concat([tokens[:, :most], closing], axis=1).to_tensor(), tokens.row_lengths() > most

    def _write(self, text: tf.Tensor, source_ids: tf.Tensor, ids: tf.Tensor, replace_unknown: bool) -> tf.Tensor:
        """Maps ids (batch, hypotheses, length) to texts (batch, hypotheses)."""
        shape = tf.shape(ids)[:2]
        flat = tf.reshape(ids, [shape[0] * shape[1], tf.shape(ids)[2]])
        if not replace_unknown:
            return tf.reshape(self.tokenizers.target.detokenize(flat), shape)
        repeated = tf.repeat(source_ids, shape[1], axis=0)
        words, word_of_token = self.tokenizers.source.words(text)
        # The closing token is no word's; where it is all there is, nothing is unknown.
        word_of_token = tf.pad(word_of_token, [[0, 0], [0, 1]])
        aligned = align(self._attend(repeated, flat)["cross"], repeated, flat, END_ID)
        rows = tf.repeat(tf.range(shape[0]), shape[1])
        place = tf.gather(tf.gather(word_of_token, rows), tf.maximum(aligned, 0), batch_dims=1)
        words = tf.gather(tf.pad(words.to_tensor(), [[0, 0], [0, 1]]), rows)
        return tf.reshape(self.tokenizers.target.detokenize_with(flat, tf.gather(words, place, batch_dims=1)), shape)

    def _attention(self, source_ids: tf.Tensor, ids: tf.Tensor) -> Output:
        """Each layer's and head's weights, (batch, layers, heads, query_len, key_len), for sources and translations."""
        with self._weights():
            inputs = source_ids, shift_right(ids, START_ID)
            _, scores = self.model(inputs, return_attention_scores=True, training=False)
        return {kind: tf.cast(tf.stack(layers, axis=1), tf.float32) for kind, layers in scores.items()}

    def _search_best(self, source_ids: tf.Tensor, steps: tf.Tensor | None = None) -> tuple[tf.Tensor, ...]:
        """The translator's own options: ids (batch, 1, length), scores (batch, 1), and with steps what is done."""
        options = self.options
        limits = self._limits(source_ids, options.max_length or self.max_length)
        with self._weights():
            stepper = self._stepper()
            if options.temperature:
                tensors = option_tensors(replace(options, num_hypotheses=1))
                return self._sample(stepper, source_ids, limits, None, tensors)
            if options.beam_size == 1:
                cache = stepper.start_cache(source_ids, steps=steps)
                ids, log_probs, *done = greedy_search(
                    stepper, cache, limits, START_ID, END_ID, options.min_length, steps=steps
                )
                return ids[:, None], (log_probs / length_penalty(_lengths(ids), options.alpha))[:, None], *done
            return self._beam(stepper, source_ids, limits, None, vars(options) | {"num_hypotheses": 1}, steps)

    def _search_fixed(self, source_ids: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The same in memory of a fixed size, with room for all but the longest translations."""
        steps = tf.shape(source_ids)[1] * 3 // 2
        return self._search_best(source_ids, tf.minimum(steps, self.options.max_length or self.max_length))

    def _search_any(
        self, source_ids: tf.Tensor, prefix: tf.Tensor, trace: tf.Tensor, *values: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """Any options: ids (batch, hypotheses, length), scores (batch, hypotheses), and what a `Record` holds."""
        options = dict(zip(OPTION_TYPES, values, strict=True))
        most = tf.where(options["max_length"] > 0, options["max_length"], self.max_length)
        limits = self._limits(source_ids, most)
        prefix_lengths = tf.where(limits > 0, _lengths(prefix), 0)
        checks = [
            *check_options(options),
            tf.debugging.assert_less_equal(options["min_length"], self.max_length, POSITIONS),
            tf.debugging.assert_less(prefix_lengths, tf.maximum(limits, 1), PREFIX_LENGTH),
        ]
        with tf.control_dependencies(checks), self._weights():
            # The identity is what waits for the checks.
            source_ids = tf.identity(source_ids)
            stepper = self._stepper()
            return tf.cond(
                options["temperature"] > 0,
                lambda: (*self._sample(stepper, source_ids, limits, prefix, options), *no_record()),
                lambda: self._beam(stepper, source_ids, limits, prefix, options, trace=trace),
            )

    def _beam(
        self,
        stepper: Stepping,
        source_ids: tf.Tensor,
        limits: tf.Tensor,
        prefix: tf.Tensor | None,
        options: dict,
        steps: tf.Tensor | None = None,
        trace: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, ...]:
        names = "beam_size", "alpha", "num_hypotheses", "min_length"
        chosen = {name: options[name] for name in names}
        cache = stepper.start_cache(source_ids, options["beam_size"], steps)
        ids, scores, *more = beam_search(
            stepper, cache, limits, START_ID, END_ID, prefix=prefix, steps=steps, trace=trace, **chosen
        )
        more = more if trace is None else more[-1]
        return ids, _nothing_for_nothing(scores, limits), *more

    def _sample(
        self, stepper: Stepping, source_ids: tf.Tensor, limits: tf.Tensor, prefix: tf.Tensor | None, options: dict
    ) -> tuple[tf.Tensor, tf.Tensor]:
        number, vocabulary = options["num_hypotheses"], self.tokenizers.target.vocab_size

        def each(tensor: tf.Tensor | None) -> tf.Tensor | None:
            return None if tensor is None else tf.repeat(tensor, number, axis=0)

        ids, log_probs = sample(
            stepper,
            keras.tree.map_structure(each, stepper.start_cache(source_ids)),
            each(limits),
            START_ID,
            END_ID,
            RandomSampler(options["temperature"], options["top_p"], options["seed"]),
            row_keys(source_ids, number),
            tf.where(options["top_k"] > 0, tf.minimum(options["top_k"], vocabulary), vocabulary),
            options["min_length"],
            each(prefix),
        )
        scores = log_probs / length_penalty(_lengths(ids), options["alpha"])
        scores = tf.reshape(scores, [-1, number])
        order = tf.argsort(scores, axis=1, direction="DESCENDING", stable=True)
        ids = tf.gather(tf.reshape(ids, [-1, number, tf.shape(ids)[1]]), order, batch_dims=1)
        return ids, _nothing_for_nothing(tf.gather(scores, order, batch_dims=1), limits)

    def _limits(self, source_ids: tf.Tensor, most: int | tf.Tensor) -> tf.Tensor:
        """The most tokens of each translation; none for a text without any."""
        lengths = _lengths(source_ids) - 1
        extra = min(self.options.extra_length, self.max_length)  # so that the sum is an int32, whatever was asked for
        limits = tf.minimum(lengths + extra, tf.minimum(most, self.max_length))
        return tf.where(lengths <= 0, 0, limits)  # a row of padding has not even the closing token

    def _stepper(self) -> Stepping:
        """The model's, with what is worked out from its weights taken from where it is held."""
        stepper = self.model.stepper()
        if self._derived:
            stepper.derived = [tf.cast(held, self.model.compute_dtype) for held in self._derived]
        return stepper

    def _hold_derived(self) -> list[tf.Variable]:
        """What a stepper works out from the model's weights, of a model that has such."""
        tensors = getattr(self.model.stepper(), "derived", [])
        return [tf.Variable(tf.cast(x, tf.float16) if self._half else x, trainable=False) for x in tensors]

    def _weights(self) -> AbstractContextManager:
        """Where the model reads its weights from: its own variables, or the float16 ones in its own precision."""
        if not self._half:
            return nullcontext()
        pairs = zip(self.model.weights, self.weights, strict=True)
        return keras.StatelessScope(state_mapping=[(own, tf.cast(held, own.dtype)) for own, held in pairs])


def make_translator(
    model: SequenceModel,
    tokenizers: TokenizerPair,
    options: DecodingOptions | None = None,
    half: bool = False,
    compiled: bool = False,
) -> Translator:
    """Makes a `Translator`; a `Parser`, whose search is not compiled, where what the model writes is trees.

    See there for the arguments.
    """
    if tokenizers.target_kind == "brackets":
        from tf_transformer.parsing.parser import Parser

        return Parser(model, tokenizers, options, half)
    return Translator(model, tokenizers, options, half, compiled)


def _lengths(ids: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(ids != PAD_ID, tf.int32), axis=1)


def _nothing_for_nothing(scores: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
    """An empty text's first translation is sure to be empty."""
    first = tf.range(tf.shape(scores)[1]) == 0
    return tf.where((limits == 0)[:, None], tf.where(first, 0.0, -float("inf")), scores)
