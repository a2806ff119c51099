"""Models that Argos Translate could have, as runs, and the search that it makes."""

import pytest

from tests.marian.folders import TAGS, write_folder
from tf_transformer.experiment import export_run_ctranslate2
from tf_transformer.marian import import_marian
from tf_transformer.translation.ctranslate2_engine import load_ctranslate2

# What Argos Translate asks CTranslate2 for, in this package's terms: its `length_penalty` of 0.2, and at least one
# token beside the closing one.
AS_ARGOS = {"beam_size": 4, "alpha": 0.2, "length_offset": 0.0, "min_length": 2, "extra_length": 200}

# No model of these tests has seen them all.
TEXTS = ["A man sees a house.", "Our dog", "The child loves the green apple.", "unheard 狗 Ω", "a  house,\u00a0twice"]


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread):
    """All tests of this folder run CTranslate2; their own translators heed it."""


def random_marian(path, closing, **options):
    """A run of a random MarianMT model; the more its closing piece is preferred, the shorter are its translations."""
    _, weights = write_folder(path / "opus", **options)
    weights["final_logits_bias"][0, 0] += closing  # `</s>` is the first piece
    write_folder(path / "opus", weights=weights, **options)
    return import_marian(path / "opus", path / "run")


@pytest.fixture(scope="session")
def multilingual(tmp_path_factory):
    """One vocabulary, with language tags."""
    return random_marian(tmp_path_factory.mktemp("multilingual"), 1, tags=TAGS)


@pytest.fixture(scope="session")
def separate(tmp_path_factory):
    """Two vocabularies, and so two SentencePiece models."""
    return random_marian(tmp_path_factory.mktemp("separate"), 1, separate=True, tie_word_embeddings=False)


def engine_of(run, path, quantization=None):
    """What translates as Argos Translate should, by this package's engine."""
    return load_ctranslate2(export_run_ctranslate2(run, path, quantization), AS_ARGOS)
