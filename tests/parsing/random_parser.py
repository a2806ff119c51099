"""A parser of random weights, which writes the oddest trees."""

import itertools

import keras
import numpy as np
import tensorflow as tf

from tf_transformer import DecodingOptions, Transformer
from tf_transformer.parsing import linearise, read_tree
from tf_transformer.parsing.next_word import next_word_tokens, tree_state_tokens
from tf_transformer.parsing.parser import Parser
from tf_transformer.tokenizers import train_parsing_tokenizers

MAX_LENGTH = 24
SENTENCES = [
    ("The dog sees a cat .", "(S (NP XX XX )NP (VP XX (NP XX XX )NP )VP XX )S"),
    ("Dogs bark", "(S (NP XX )NP (VP XX )VP )S"),
    ("a cat in a house", "(NP (NP XX XX )NP (PP XX (NP XX XX )NP )PP )NP"),
    (
        "What it sees -LRB- so far -RRB- !",
        "(SBAR (WHNP XX )WHNP (S (NP XX )NP (VP XX )VP )S (PRN XX XX XX XX )PRN XX )SBAR",
    ),
]


def tagged(tree):
    """The linearised tree with three tags in turn in place of `XX`."""
    tags = itertools.cycle(["DT", "NN", "."])
    return " ".join(next(tags) if token == "XX" else token for token in tree.split())


def make_parser(seed, told=None, tags=False, tree_loss=0.0, **options):
    pairs = [(sentence, tagged(tree) if tags else tree) for sentence, tree in SENTENCES]
    tokenizers = train_parsing_tokenizers(pairs, vocab_size=300)
    sizes = {"input_vocab_size": 300, "target_vocab_size": tokenizers.target.vocab_size}
    keras.utils.set_random_seed(seed)
    tokens = {"next_word": next_word_tokens, "tree_state": tree_state_tokens}
    more = {told: tokens[told](tokenizers)} if told else {}
    model = Transformer(
        1, 16, 2, 32, **sizes, share_embeddings="target", max_length=MAX_LENGTH, tree_loss=tree_loss, **more
    )
    return Parser(model, tokenizers, DecodingOptions(**options))


def assert_scores_are_those_of_the_trees(parser):
    """As `score` has them, which forces the linearised trees through the model."""
    texts = [sentence for sentence, _ in SENTENCES]
    output = parser.parse(texts)
    linear = [" ".join(linearise(read_tree(tree.decode()), tags=True)) for tree in output["tree"].numpy()]
    log_probs = parser.functions["score"](tf.constant(texts), tf.constant(linear))["score"].numpy()
    lengths = np.array([len(tokens.split()) + 1 for tokens in linear])
    np.testing.assert_allclose(output["score"], log_probs / penalty_of(lengths, parser.options), rtol=1e-4)


def penalty_of(lengths, options):
    """What the log-probabilities of trees with so many tokens are divided by."""
    return ((options.length_offset + lengths) / (options.length_offset + 1)) ** options.alpha
