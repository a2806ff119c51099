"""A parser of random weights, which writes the oddest trees."""

import keras

from tf_transformer import DecodingOptions, Transformer
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


def make_parser(seed, **options):
    tokenizers = train_parsing_tokenizers(SENTENCES, vocab_size=300)
    sizes = {"input_vocab_size": 300, "target_vocab_size": tokenizers.target.vocab_size}
    keras.utils.set_random_seed(seed)
    model = Transformer(1, 16, 2, 32, **sizes, share_embeddings="target", max_length=MAX_LENGTH)
    return Parser(model, tokenizers, DecodingOptions(**options))
