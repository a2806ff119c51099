"""`evaluate --perturb`: each copy scores as a file with the same text does."""

import json
import shutil

import pytest

from tests.cli.command import assert_mistake
from tests.eager import eagerly
from tests.tiny_run import PAIRS, write_pairs

pytestmark = pytest.mark.usefixtures("loaded_once")


def evaluated(command, model, source, reference, *words):
    outcome = command("evaluate", model, "--source", source, "--reference", reference, "--json", *words)
    assert (outcome.status, outcome.err) == (0, "")
    return json.loads(outcome.out)


@pytest.mark.parametrize("kind", ["export", "run"])
def test_copies_are_scored_beside_the_set(command, kind, tiny_run_directory, tiny_saved_model, tmp_path):
    model, words = tiny_saved_model, ["--perturb"]
    if kind == "run":  # which gets the scores
        model = shutil.copytree(tiny_run_directory.path, tmp_path / "run")
        words += ["--beam-size", 1]
    source, reference = write_pairs(tmp_path)
    with eagerly():
        scores = evaluated(command, model, source, reference, *words)
    perturbed = scores["perturbed"]
    assert list(perturbed) == ["lower_case", "upper_case", "typos"]  # the text has no accents
    assert scores["bleu"] == pytest.approx(100)
    for name, changed in ("lower_case", str.lower), ("upper_case", str.upper):
        copy = tmp_path / f"{name}.en"
        copy.write_text("".join(f"{changed(english)}\n" for english, _ in PAIRS))
        expected = evaluated(command, tiny_saved_model, copy, reference, *words[1:])
        found = perturbed[name]
        assert (found["bleu"], found["chrf"]) == pytest.approx((expected["bleu"], expected["chrf"]))
        assert found["changed"] == 24 and found["bleu"] < 100
    assert 0 < perturbed["typos"]["changed"] < 24
    if kind == "run":
        assert json.loads((model / "scores.json").read_text())["perturbed"] == perturbed


def test_the_table_has_a_row_for_each(command, tiny_saved_model, tmp_path):
    source, reference = write_pairs(tmp_path)
    words = ["evaluate", tiny_saved_model, "--source", source, "--reference", reference]
    outcome = command(*words, "--perturb")
    rows = [" ".join(line.split()) for line in outcome.lines[3:]]
    assert [row.partition(" BLEU")[0] for row in rows] == ["lower case", "upper case", "typos"]
    assert rows[0].endswith("24 sentences changed") and "chrF" in rows[0]
    assert outcome.lines[:3] == command(*words).lines


def test_a_parser_has_none(command, tmp_path):
    assert_mistake(command("evaluate", tmp_path, "--trees", tmp_path, "--perturb"), "leave out", "--perturb")
