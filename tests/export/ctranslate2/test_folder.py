"""CTranslate2's folder: what is in it, what it does not replace, and what is told of a damaged one."""

import errno
import os
import shutil
import sys

import numpy as np
import pytest

from tests.export.ctranslate2.conftest import BEAM, GREEDY, TEXTS, translate
from tf_transformer.errors import UserError
from tf_transformer.export.ctranslate2 import export_ctranslate2
from tf_transformer.export.destinations import free_folder
from tf_transformer.model_card.page import is_generated
from tf_transformer.runs.directory import CARD
from tf_transformer.tokenizers.pair import TokenizerPair
from tf_transformer.translation.ctranslate2_engine import load_ctranslate2

pytest.importorskip("ctranslate2", reason="needs CTranslate2: pip install -e '.[ctranslate2]'")


@pytest.mark.parametrize(("quantization", "share"), [("int8", 0.8), ("int16", 0.9), ("float16", 0.9)])
def test_quantized_models_are_smaller_and_score_alike(separate, tmp_path, quantization, share):
    model, tokenizers, path = separate
    quantized = export_ctranslate2(model, tokenizers, tmp_path / quantization, quantization)
    assert (quantized / "model.bin").stat().st_size < share * (path / "model.bin").stat().st_size
    exact, rounded = (translate(where, TEXTS, GREEDY) for where in (path, quantized))
    assert np.mean([a == b for a, b in zip(exact["translation"], rounded["translation"], strict=True)]) > 0.5
    np.testing.assert_allclose(rounded["score"][1], exact["score"][1], atol=0.5)


def test_the_folder_alone_is_enough(separate, tmp_path):
    shutil.copytree(separate[2], tmp_path / "elsewhere")
    assert translate(tmp_path / "elsewhere", TEXTS, BEAM) == translate(separate[2], TEXTS, BEAM)


def test_the_card_names_a_command_that_takes_the_model(separate):
    page = (separate[2] / CARD).read_text(encoding="utf-8")
    assert "run `tf-transformer translate FOLDER --engine ctranslate2` with" in page and is_generated(page)


def test_what_is_there_stays_as_it_is(separate, tmp_path):
    model, tokenizers, _ = separate
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes").write_bytes(b"precious")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"taken: the folder is not empty"):
        export_ctranslate2(model, tokenizers, tmp_path / "taken")
    with pytest.raises(UserError, match=r"notes: a file"):
        export_ctranslate2(model, tokenizers, tmp_path / "taken" / "notes")
    with pytest.raises(UserError, match=r"notes/deeper: the CTranslate2 model can't be written: Not a directory"):
        export_ctranslate2(model, tokenizers, tmp_path / "taken" / "notes" / "deeper")
    assert sorted(os.listdir(tmp_path)) == ["empty", "taken"]
    assert (tmp_path / "taken" / "notes").read_bytes() == b"precious"
    assert export_ctranslate2(model, tokenizers, tmp_path / "empty") == free_folder(tmp_path / "new").with_name("empty")
    assert translate(tmp_path / "empty", ["dog"], GREEDY)["translation"]


@pytest.mark.parametrize("folder", [".", "", "..", "new/.."])
def test_a_folder_without_a_name_of_its_own_is_refused(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="has no name of its own"):
        free_folder(folder)


def test_a_mount_point_is_refused(tmp_path, monkeypatch):
    """Also where a link names it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "link").symlink_to(disk)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == os.path.realpath(disk))
    for folder in disk, tmp_path / "link":
        with pytest.raises(UserError, match="a mount point; give a new folder in it"):
            free_folder(folder)


def test_a_failure_leaves_nothing_behind(separate, tmp_path):
    class FullDisk(TokenizerPair):
        def save(self, directory):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    model, tokenizers, _ = separate
    with pytest.raises(UserError, match=r"ct2: the CTranslate2 model can't be written: No space left"):
        export_ctranslate2(model, FullDisk(tokenizers.source, tokenizers.target, "wordpiece"), tmp_path / "ct2")
    assert not os.listdir(tmp_path)


def test_an_unknown_quantization(separate, tmp_path):
    model, tokenizers, _ = separate
    with pytest.raises(UserError, match=r"^quantization 'int4' is not known; choose one of int8, .*float16.*float32$"):
        export_ctranslate2(model, tokenizers, tmp_path / "ct2", "int4")
    assert not os.listdir(tmp_path)


def test_without_the_library(separate, tmp_path, monkeypatch):
    model, tokenizers, path = separate
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"pip install 'tf_transformer\[ctranslate2\]'"):
        export_ctranslate2(model, tokenizers, tmp_path / "ct2")
    with pytest.raises(UserError, match=r"pip install 'tf_transformer\[ctranslate2\]'"):
        load_ctranslate2(path)


@pytest.fixture
def copy(separate, tmp_path):
    return shutil.copytree(separate[2], tmp_path / "copy")


@pytest.mark.parametrize(
    "name", ["model.bin", "config.json", "tokenizer/tokenizer.json", "tokenizer/source.txt", "target_vocabulary.json"]
)
def test_a_missing_file_is_named(copy, name):
    (copy / name).unlink()
    words = name.split(".")[0].replace("_", ".")  # as a file, or in CTranslate2's words
    with pytest.raises(UserError, match=rf"{copy}.*{words}") as raised:
        load_ctranslate2(copy)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["model.bin", "config.json"])
@pytest.mark.parametrize("content", [b"", b"{", b'{"tf_transformer": 3}'])
def test_a_damaged_file(copy, name, content):
    (copy / "SHA256SUMS").unlink()  # as an earlier version wrote it
    (copy / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"^{copy}.*export (it|the model) again"):
        load_ctranslate2(copy)


@pytest.mark.parametrize(("option", "value"), [("num_hypotheses", 2), ("replace_unknown", True)])
def test_what_it_does_not_have(separate, option, value):
    with pytest.raises(UserError, match=f"^{option} is .*CTranslate2.*; use a SavedModel$"):
        load_ctranslate2(separate[2], {option: value})
