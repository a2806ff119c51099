"""Several models given to a command are an ensemble."""

import json

import numpy as np
import pytest

from tests.eager import eagerly
from tests.tiny_run import PAIRS
from tf_transformer import load_translator

TEXTS = [PAIRS[5][0], "Our dog sees a man.", ""]


@pytest.fixture(scope="module")
def checkpoints(tiny_run_directory):
    return [tiny_run_directory.checkpoints / name for name in ("best.keras", "step-00000050.keras")]


@pytest.fixture(scope="module")
def expected(checkpoints):
    with eagerly():
        found = load_translator(checkpoints, beam_size=2).translate(TEXTS)
    return [text.decode() for text in found["translation"].numpy()], found["score"].numpy()


@pytest.mark.thorough
def test_translate(command, checkpoints, expected, tmp_path):
    """The file stands behind the models, or standard input is read."""
    file = tmp_path / "texts.en"
    file.write_text("".join(text + "\n" for text in TEXTS))
    with eagerly():
        for words, stdin in ([file], b""), ([], file.read_bytes()):
            outcome = command("translate", *checkpoints, *words, "--beam-size", 2, "--json", stdin=stdin)
            assert (outcome.status, outcome.err) == (0, "")
            rows = [json.loads(line) for line in outcome.lines]
            assert [row["translation"] for row in rows] == expected[0]
            np.testing.assert_allclose([row["score"] for row in rows], expected[1], atol=1e-4)


def test_shards(command, checkpoints, expected, tmp_path):
    file = tmp_path / "texts.en"
    file.write_text("".join(text + "\n" for text in TEXTS))
    words = ["translate", *checkpoints, file, "--beam-size", 2, "--shards", tmp_path / "shards", "--shard-lines", 2]
    with eagerly():
        assert command(*words).lines == expected[0]
    manifest = json.loads((tmp_path / "shards" / "manifest.json").read_text())
    assert manifest["model"]["path"] == " + ".join(map(str, checkpoints))
    first, second = manifest["model"]["sha256"].split(" + ")
    assert first != second


def test_evaluate_leaves_the_runs_scores_alone(command, tiny_run_directory, checkpoints, tmp_path):
    for suffix, lines in zip(("en", "de"), zip(*PAIRS[:3], strict=True), strict=True):
        (tmp_path / f"three.{suffix}").write_text("".join(line + "\n" for line in lines))
    before = tiny_run_directory.scores.read_bytes()
    files = ["--source", tmp_path / "three.en", "--reference", tmp_path / "three.de"]
    with eagerly():
        outcome = command("evaluate", *checkpoints, *files, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert json.loads(outcome.out)["sentences"] == 3
    assert tiny_run_directory.scores.read_bytes() == before
