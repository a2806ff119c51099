"""What the tests of the command share.

Most tests run it in this process (`command` in tests/conftest.py), which has TensorFlow already; those in which the
process itself matters start one.
"""

import gzip
import shutil
from functools import cache

import pytest

from tests.tiny_run import MAX_LENGTH, PAIRS, RECIPE, write_pairs


@pytest.fixture(scope="session")
def mistakes(tiny_run_directory, tiny_saved_model, tmp_path_factory):
    """A folder of everything that can be wrong."""
    from tf_transformer.tokenizers import train_tokenizers

    folder = tmp_path_factory.mktemp("mistakes")
    source, _ = write_pairs(folder)
    (folder / "short.de").write_text("Ein Haus.\n" * 5)
    (folder / "latin.de").write_bytes(b"Ein Haus.\nEin Hund.\nEine T\xfcr.\n" + b"Ein Haus.\n" * 21)
    (folder / "empty.txt").touch()
    (folder / "long.en").write_text("A man.\n" + "house " * 2 * MAX_LENGTH + "\nA man.\n")
    recipe = RECIPE.read_text(encoding="utf-8")
    for name, key, line in (
        ("wrong_type", "  steps: ", "  steps: many"),
        ("unknown_key", "  warmup_steps: ", "  warm_up_steps: 400"),
        ("heads", "  num_heads: ", "  num_heads: 5"),
    ):
        lines = [line if old.startswith(key) else old for old in recipe.splitlines()]
        assert lines != recipe.splitlines()
        (folder / f"{name}.yaml").write_text("\n".join(lines))
    shutil.copytree(tiny_run_directory.path, folder / "unfinished", ignore=shutil.ignore_patterns("*.keras"))
    shutil.copytree(tiny_run_directory.path, folder / "run")
    shutil.copytree(tiny_run_directory.path, folder / "greedy")
    greedy = (folder / "run" / "recipe.yaml").read_text().replace("beam_size: 4", "beam_size: 1")
    (folder / "greedy" / "recipe.yaml").write_text(greedy)
    shutil.copytree(tiny_run_directory.path, folder / "other tokenizer")
    shutil.rmtree(folder / "other tokenizer" / "tokenizer")
    train_tokenizers(PAIRS, vocab_size=300).save(folder / "other tokenizer" / "tokenizer")
    (folder / "broken off" / "training_state").mkdir(parents=True)
    shutil.copy(tiny_run_directory.recipe, folder / "broken off")
    (folder / "alone.keras").touch()
    (folder / "tabs.yaml").write_text("training:\n\tsteps: 3\n")
    (folder / "cut.gz").write_bytes(gzip.compress(b"A man sees a house.")[:-4])
    shutil.copytree(tiny_saved_model, folder / "versions" / "3")
    # Files by which a folder is known as a CTranslate2 model: it is told before they are read.
    (folder / "ctranslate2").mkdir()
    (folder / "ctranslate2" / "model.bin").touch()
    assert source.name == "pairs.en"
    return folder


@pytest.fixture(scope="module")
def load_once(tiny_saved_model, tiny_loaded):
    """`tf.saved_model.load`, which takes seconds, done once for each folder."""
    import tensorflow as tf

    load = cache(tf.saved_model.load)
    return lambda path: tiny_loaded if path == str(tiny_saved_model) else load(path)


@pytest.fixture(scope="session")
def load_in_session_once(tiny_saved_model):
    """`load_in_session` done once for each signature of the tiny model, in whose folder nothing is changed."""
    from tf_transformer.session.signature import load_in_session

    once = cache(load_in_session)
    return lambda path, *name, **how: (once if path == tiny_saved_model else load_in_session)(path, *name, **how)


@pytest.fixture
def loaded_once(monkeypatch, load_once, load_in_session_once):
    """The commands that a test runs in this process share what they load."""
    import tensorflow as tf

    from tf_transformer.session import signature

    monkeypatch.setattr(tf.saved_model, "load", load_once)
    monkeypatch.setattr(signature, "load_in_session", load_in_session_once)
