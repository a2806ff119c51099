"""Two random MarianMT models, with one vocabulary and with two, and the runs that are made of them."""

import pytest

from tests.marian.folders import TAGS, write_folder
from tests.marian.reference import Marian
from tf_transformer.marian import import_marian


class Imported:
    """A folder, what is in it, the model by the equations, and the run."""

    def __init__(self, path, **options):
        self.folder, self.run_path = path / "opus-mt-en-de", path / "run"
        self.config, self.weights = write_folder(self.folder, **options)
        self.by_equations = Marian(self.weights, self.config)
        self.run = import_marian(self.folder, self.run_path)


@pytest.fixture(scope="session")
def joint(tmp_path_factory):
    """As most OPUS-MT models are; its one vocabulary has two language tags."""
    return Imported(tmp_path_factory.mktemp("joint"), tags=TAGS)


@pytest.fixture(scope="session")
def separate(tmp_path_factory):
    """Two vocabularies, a projection of its own, and the other settings."""
    return Imported(
        tmp_path_factory.mktemp("separate"),
        separate=True,
        activation_function="gelu",
        scale_embedding=False,
        tie_word_embeddings=False,
    )
