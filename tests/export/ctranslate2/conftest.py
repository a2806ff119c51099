"""Models that say anything their vocabularies can, and their CTranslate2 exports."""

from dataclasses import replace

import numpy as np
import pytest

from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.export.ctranslate2 import export_ctranslate2
from tf_transformer.models.transformer import Transformer
from tf_transformer.tokenizers import WordPieceTokenizer
from tf_transformer.tokenizers.pair import TokenizerPair
from tf_transformer.translation.ctranslate2_engine import load_ctranslate2

SPECIAL = ["[PAD]", "[UNK]", "[START]", "[END]"]
ENGLISH = [*SPECIAL, "a", "dog", "##s", "sees", "the", "cat", "."]
GERMAN = [*SPECIAL, "Hund", "##e", "sieht", "die", "Katze", "."]

MAX_LENGTH = 12
GREEDY = DecodingOptions(beam_size=1, extra_length=3)
BEAM = replace(GREEDY, beam_size=3)

TEXTS = ["a dog sees the cats.", "dogs", "", "the cat unheard", "cat cat cat cat cat cat cat cat", " \t"]


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread):
    """All tests of this folder run CTranslate2; their samples and their own translators heed it."""


def random_model(**arguments):
    """A model that says anything its vocabulary can, and its tokenizers."""
    source = WordPieceTokenizer(ENGLISH)
    target = source if arguments.get("share_embeddings") == "all" else WordPieceTokenizer(GERMAN)
    tokenizers = TokenizerPair(source, target, "wordpiece")
    sizes = {"input_vocab_size": source.vocab_size, "target_vocab_size": target.vocab_size}
    model = Transformer(2, 8, 2, 16, max_length=MAX_LENGTH, **sizes, **arguments)
    model.build(((None, None), (None, None)))
    random = np.random.default_rng(5)
    model.set_weights([random.normal(size=weights.shape) * 0.7 for weights in model.get_weights()])
    return model, tokenizers


def projection_of(piece, model):
    return model.projection.kernel.numpy()[:, GERMAN.index(piece)]


def set_projection(model, columns):
    kernel = model.projection.kernel.numpy()
    for piece, column in columns.items():
        kernel[:, GERMAN.index(piece)] = column
    model.projection.kernel.assign(kernel)


@pytest.fixture(scope="module")
def separate(tmp_path_factory):
    """A model with its tokenizers, two vocabularies, and its export. Its likeliest word and to close are near."""
    model, tokenizers = random_model()
    closing = projection_of("sieht", model) + 0.6 * np.random.default_rng(3).normal(size=8)
    set_projection(model, {"[END]": closing})
    return model, tokenizers, export_ctranslate2(model, tokenizers, tmp_path_factory.mktemp("separate") / "ct2")


def translate(path, texts, options):
    """What comes out, as lists."""
    return {key: value.numpy().tolist() for key, value in load_ctranslate2(path, vars(options))(texts).items()}
