"""The command `score-trees`."""

import gzip
import json

import pytest

from tests.cli.command import assert_mistake

GOLD = """( (S (NP-SBJ-1 (NNS Dogs)) (VP (VBP bark) (NP (-NONE- *T*-1))) (. .)) )
( (S (NP (NNS Cats))
     (VP (VBP sleep)
         (PP (IN in) (NP (NNS beds)))) (. .)) )
( (NP (-NONE- *)) )
(S (NP (PRP It)) (VP (VBZ rains)))
"""
PARSES = [
    "(S (NP (XX Dogs)) (VP (XX bark)) (XX .))",
    "(S (NP (XX Cats)) (VP (XX sleep) (XX in) (NP (XX beds))) (XX .))",
    "",
    "(TOP (S (NP (XX It)) (VP (XX rains))))",
]


@pytest.fixture
def files(tmp_path):
    def write(parses: list[str], gold: str = GOLD) -> list[str]:
        (tmp_path / "gold.mrg.gz").write_bytes(gzip.compress(gold.encode()))
        (tmp_path / "parses").write_text("".join(f"{parse}\n" for parse in parses))
        return ["score-trees", str(tmp_path / "gold.mrg.gz"), str(tmp_path / "parses")]

    return write


def test_json(command, files):
    outcome = command(*files(PARSES), "--json")
    assert (outcome.status, outcome.err) == (0, "")
    scores = json.loads(outcome.out)
    # 3 + 5 + 3 brackets, of which the parser lacks PP; the tree of empty elements is no sentence
    assert (scores["gold_brackets"], scores["predicted_brackets"], scores["matched_brackets"]) == (11, 10, 10)
    assert scores["recall"] == pytest.approx(1000 / 11) and scores["precision"] == 100
    assert scores["f1"] == pytest.approx(2000 / 21) and scores["complete_match"] == pytest.approx(200 / 3)
    assert scores["sentences"] == 3


def test_table(command, files):
    outcome = command(*files(PARSES))
    assert outcome.status == 0
    rows = [" ".join(line.split()) for line in outcome.lines]
    assert {"recall 90.91 90.91", "F1 95.24 95.24", "sentences 3 3", "average crossing 0.00 0.00"} <= set(rows)


@pytest.mark.parametrize("failed", ["", "(())", "NULL", "(S (NP", "(S (XX Dogs) (XX bark))", "(S (XX a)) (S (XX b))"])
def test_a_line_without_a_usable_tree_is_a_failed_parse(command, files, failed):
    outcome = command(*files([failed, *PARSES[1:]]), "--json")
    assert outcome.status == 0
    scores = json.loads(outcome.out)
    assert (scores["without_parse"], scores["gold_brackets"], scores["matched_brackets"]) == (1, 11, 7)
    assert "1 of 4 lines" in outcome.err and outcome.err.endswith("(line 1)\n")


@pytest.mark.parametrize(("parses", "lines"), [(PARSES[:2], 2), ([], 0), ([*PARSES, PARSES[0]], 5)])
def test_files_of_different_lengths(command, files, parses, lines):
    assert_mistake(command(*files(parses)), "gold.mrg.gz has 4 trees", f"parses has {lines} lines")


def test_a_missing_file_or_damaged_treebank(command, files, tmp_path):
    name, gold, parses = files(PARSES)
    for missing in tmp_path / "none", "no trees":
        told = f"{missing}: can't be read: No such file or directory; give a file of trees, one per line"
        assert_mistake(command(name, gold, missing), told)
    assert_mistake(command(name, tmp_path / "none", parses), f"{tmp_path / 'none'} does not exist")
    assert_mistake(command(*files(PARSES, GOLD + "(S (NN dog)")), "gold.mrg.gz, line 7: ", "not closed")
    assert_mistake(command(*files(PARSES, "Dogs bark.\n")), "gold.mrg.gz, line 1: ", "Penn brackets")
