"""A model together with its tokenizers: a sentence in, its tree in brackets out, entirely inside the graph."""

from __future__ import annotations

import tensorflow as tf

from tf_transformer.decoding import beam_search, length_penalty, shift_right
from tf_transformer.parsing.grammar import TreeGrammar
from tf_transformer.tokenizers.base import END_ID, START_ID
from tf_transformer.tokenizers.marks import WORD
from tf_transformer.translation.reading import read
from tf_transformer.translation.search import lengths
from tf_transformer.translation.signature_options import Output, batch_of_strings
from tf_transformer.translation.translator import TEXT, Translator

# What a tree takes beside its words: the root's two brackets, and the closing token.
ROOT_AND_END = 3

# What is whitespace to Python, besides that of ASCII, at which TensorFlow splits words too.
BLANK = r"[\p{Z}\x1c-\x1f\x{85}]"


class Parser(Translator):
    """Parses batches of sentences, and has all that a `Translator` has.

    What it adds is the function, and signature, `parse`. It takes sentences, strings (batch,), with spaces between
    their words, and gives a dict: "tree", string (batch,), one tree in Penn brackets over exactly these words, each
    with the tag `XX`, or with the tag that the model gives it (`data.tags` of a recipe); "score", float32 (batch,), its
    log-probability over the length penalty; "mended", bool (batch,), whether there was no room for all words: the root
    then has those behind the last of the model's own tree as its last children; "truncated", bool (batch,), whether the
    sentence was cut because it has more tokens than the model has positions: its tree has the words that were not read
    too. A round bracket in a word becomes `-LRB-` or `-RRB-`, as treebanks have it; a sentence without words has an
    empty tree.

    The search writes nothing but trees (`TreeGrammar`). Where the encoder has learned to tell the tree from each word
    and span (`tree_loss`), the parser takes the hypothesis whose log-probabilities by encoder and decoder add up to
    most; in an `Ensemble` the encoder's is the mean over the models that learned it. `translate` and the other
    signatures search without a grammar, and give what the model writes as it is: a linearised tree, or something that
    is none.

    Args:
        model: as a `Translator` has it.
        tokenizers: those of a parsing task; the target's is a `BracketTokenizer`.
        options: how trees are searched for; of them `beam_size`, `alpha`, `extra_length` and `max_length` count in
            `parse`.
        half: as a `Translator` has it.

    Example:
        >>> import tf_transformer as tt
        >>> from tf_transformer.tokenizers import train_parsing_tokenizers
        >>> tokenizers = train_parsing_tokenizers([("a dog", "(NP XX XX )NP")], vocab_size=270)
        >>> sizes = {"input_vocab_size": 270, "target_vocab_size": tokenizers.target.vocab_size}
        >>> model = tt.Transformer(1, 8, 2, 16, **sizes, share_embeddings="target", max_length=64)
        >>> parser = Parser(model, tokenizers, tt.DecodingOptions(extra_length=0))
        >>> parser.parse(["a dog", ""])["tree"].numpy().tolist()
        [b'(NP (XX a) (XX dog))', b'']
    """

    def parse(self, sentences: list[str] | tf.Tensor) -> Output:
        """Parses sentences; see the class.

        Raises:
            UserError: one string in place of a list, or what is no batch of strings.
        """
        return self.functions["parse"](batch_of_strings(sentences, "sentences"))

    def _make_functions(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        matrix, vector = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
        self._best_tree = tf.function(self._search_tree, input_signature=[matrix, vector], autograph=False)
        parse = tf.function(self._parse, input_signature=[TEXT], autograph=False)
        return {"parse": parse, **super()._make_functions()}

    def _parse(self, text: tf.Tensor) -> Output:
        words = words_of(text)
        source_ids, truncated = read(
            self.tokenizers.source, tf.strings.reduce_join(words, axis=1, separator=" "), self.max_length
        )
        counts = tf.cast(words.row_lengths(), tf.int32)
        ids, scores = self._best_tree(source_ids, counts)
        trees, left_out = self._brackets(ids, words)
        return {"tree": trees, "score": scores, "mended": left_out, "truncated": truncated}

    def _search_tree(self, source_ids: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Trees over so many words each: ids (batch, length) and scores (batch,)."""
        options, target = self.options, self.tokenizers.target
        limits = self._search.limits(source_ids, options.max_length or self.max_length)
        # Every tree has room for its words, as far as the model has positions.
        least = tf.minimum(words + ROOT_AND_END, self.max_length)
        limits = tf.where(words > 0, tf.maximum(limits, least), 0)
        grammar = TreeGrammar(
            target.opens,
            target.closes,
            target.stands_for_word,
            END_ID,
            tf.maximum(tf.minimum(words, limits - ROOT_AND_END), 0),
        )
        with self._search.weights_in_use():
            stepper = self._search.stepper()
            cache = stepper.start_cache(source_ids, options.beam_size)
            ids, scores = beam_search(
                stepper,
                cache,
                limits,
                START_ID,
                END_ID,
                options.beam_size,
                options.alpha,
                options.beam_size,
                grammar=grammar,
                length_offset=options.length_offset,
            )
            best = self._best_hypothesis(source_ids, ids, scores)
        ids, scores = (tf.gather(each, best, batch_dims=1) for each in (ids, scores))
        return ids, tf.where(words > 0, scores, 0.0)

    def _best_hypothesis(self, source_ids: tf.Tensor, ids: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        """Which hypothesis is the best, int32 (batch,), counting what the encoder tells where it learned that."""
        options, models = self.options, getattr(self.model, "models", [self.model])  # an ensemble has several
        learned = [model for model in models if model.told is not None and model.told.tree_loss]
        if options.beam_size > 1 and learned:
            contexts = [model.encoder(source_ids, training=False) for model in learned]

            def by_encoder(hypothesis: tf.Tensor) -> tf.Tensor:
                target_ids = shift_right(hypothesis, START_ID)
                log_probs, *others = (
                    -model.told.loss_of_tree(source_ids, target_ids, context)
                    for model, context in zip(learned, contexts, strict=True)
                )
                if others:
                    log_probs = tf.add_n([log_probs, *others]) / len(learned)
                return log_probs / length_penalty(lengths(hypothesis), options.alpha, options.length_offset)

            # One hypothesis of each sentence at a time: what is worked out grows with the square of the length.
            each = tf.map_fn(by_encoder, tf.transpose(ids, [1, 0, 2]), fn_output_signature=tf.float32)
            scores += tf.transpose(each)
        return tf.argmax(scores, axis=1, output_type=tf.int32)

    def _brackets(self, ids: tf.Tensor, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Writes trees, ids (batch, length), as Penn brackets; and tells which had no room for all words."""
        target = self.tokenizers.target
        is_word = tf.gather(tf.constant(target.stands_for_word), ids)
        opens = tf.gather(tf.constant(target.opens), ids) > 0
        closes = tf.gather(tf.constant(target.closes), ids) > 0
        padded = tf.pad(words.to_tensor(), [[0, 0], [0, 1]])
        # Each word's place; what is no word takes the empty string behind them all.
        places = tf.where(is_word, tf.cumsum(tf.cast(is_word, tf.int32), axis=1) - 1, tf.shape(padded)[1] - 1)
        tokens = target.piece_texts(ids)
        leaves = tf.strings.join(["(", tokens, " ", tf.gather(padded, places, batch_dims=1), ")"])
        parts = tf.where(opens, tokens, tf.where(closes, ")", leaves))
        written = tf.reduce_sum(tf.cast(is_word, tf.int64), axis=1)
        left = tf.ragged.boolean_mask(words, tf.ragged.range(words.row_lengths()) >= written[:, None])
        left = tf.strings.join([f"({WORD} ", left, ")"])
        # The root's bracket is the last one: what is left comes before it.
        last = tf.reduce_sum(tf.cast(ids > END_ID, tf.int32), axis=1) - 1
        is_last = tf.range(tf.shape(ids)[1]) == last[:, None]
        parts = tf.ragged.boolean_mask(parts, (ids > END_ID) & ~is_last)
        root = tf.where(words.row_lengths() > 0, ")", "")[:, None]
        text = tf.strings.reduce_join(tf.concat([parts, left, root], axis=1), axis=1, separator=" ")
        return tf.strings.regex_replace(text, r" \)", ")"), left.row_lengths() > 0


def words_of(text: tf.Tensor) -> tf.RaggedTensor:
    """The words of sentences, strings (batch, None): what `str.split` gives, with brackets as treebanks have them."""
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")  # what is not UTF-8 becomes U+FFFD
    for found, instead in (r"\(", "-LRB-"), (r"\)", "-RRB-"), (BLANK, " "):
        text = tf.strings.regex_replace(text, found, instead)
    return tf.strings.split(text)
