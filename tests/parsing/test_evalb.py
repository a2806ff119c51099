"""The figures are those of the reference program, to the last digit that it prints."""

import random
import shutil
import subprocess
from itertools import islice
from pathlib import Path

import pytest

from tests.parsing.random_trees import damage, untagged
from tf_transformer.parsing import ParseScorer, TreeFiles, clean, read_tree, score_trees

PRINTED = {
    "Number of sentence": ("sentences", "6d"),
    "Number of Skip  sentence": ("skipped", "6d"),
    "Bracketing Recall": ("recall", "6.2f"),
    "Bracketing Precision": ("precision", "6.2f"),
    "Bracketing FMeasure": ("f1", "6.2f"),
    "Complete match": ("complete_match", "6.2f"),
    "Average crossing": ("average_crossing", "6.2f"),
    "No crossing": ("no_crossing", "6.2f"),
    "2 or less crossing": ("two_or_less_crossing", "6.2f"),
}


@pytest.fixture(scope="module")
def evalb(shared_data, tmp_path_factory):
    """Runs the reference program on two lists of lines, and gives its summary: all sentences, and the short ones."""
    source = shared_data.parent / "evalb"
    compiler = shutil.which("cc")
    if not (source / "evalb.c").is_file() or not compiler:
        pytest.skip("needs EVALB's source in ../shared/evalb and a C compiler")
    folder = tmp_path_factory.mktemp("evalb")
    program = folder / "evalb"
    subprocess.run([compiler, "-O1", "-w", "-o", program, source / "evalb.c"], check=True)

    def run(gold: list[str], predicted: list[str]) -> list[dict[str, str]]:
        for name, lines in (("gold", gold), ("predicted", predicted)):
            (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        words = [program, "-p", source / "COLLINS.prm", folder / "gold", folder / "predicted"]
        output = subprocess.run(words, check=True, capture_output=True).stdout.decode("utf-8")
        sections = output.split("=== Summary ===")[1].split("-- len<=40 --")
        rows = [[line.split(" = ") for line in section.splitlines() if " = " in line] for section in sections]
        return [{name.strip(): value for name, value in section} for section in rows]

    return run


def trees_of(path: Path, number: int) -> list[tuple[str, str]]:
    """Lines of the file, as they stand and cleaned; without those that hold blanks within words, one word to EVALB."""
    lines = path.read_text(encoding="utf-8").split("\n")
    pairs = zip(lines, TreeFiles(path), strict=False)
    return [(line, clean(tree)) for line, tree in islice(pairs, number) if " ".join(line.split()) == line]


@pytest.mark.parametrize("file", ["craft_dev.mrg", "craft_train.mrg"])
def test_craft_against_damaged_copies(evalb, craft, file):
    """Where its trees are cleaned, and as they stand."""
    rng = random.Random(7)
    gold = trees_of(craft / file, 2600)
    assert len(gold) > 2500
    predicted = [damage(tree, rng) if rng.random() < 0.9 else tree for _, tree in gold]
    scorer = ParseScorer()
    for (_, tree), copy in zip(gold, predicted, strict=True):
        scorer.add(tree, untagged(copy))
    scores = scorer.scores()
    assert 70 < scores["f1"] < 95 and scores["no_crossing"] < scores["two_or_less_crossing"] < 99  # there is damage

    # With TOP for a root that has no label, which EVALB would count; it strips function tags by itself.
    for lines in ([str(tree) for _, tree in gold], ["(TOP" + line[1:] for line, _ in gold]):
        sections = evalb(lines, [str(tree) for tree in predicted])
        for section, ours in zip(sections, (scores, scores["at_most_40_words"]), strict=True):
            for name, (key, how) in PRINTED.items():
                assert section[name] == format(ours[key], how), name
            assert section["Number of Error sentence"] == format(ours["without_parse"], "6d") == "     0"
            assert int(section["Number of Valid sentence"]) == ours["sentences"] - ours["skipped"]


def test_what_craft_lacks_is_counted_as_evalb_does(evalb):
    trees = [
        "(S (NP (NN dog)) (. .))",
        "(S (. .))",  # skipped, as is the next
        "(S (`` a) ('' b))",
        "(TOP (S (ADVP (RB up)) (PRN (: -)) (VP (VB go) (PRT (RP up)))))",
        "(FRAG (ADVP (ADVP (RB so))) (: :))",
    ]
    copies = [*trees[:3], "(S (PRT (RB up)) (: -) (VP (VB go) (ADVP (ADVP (RP up)))))", "(TOP (PRT (RB so)) (: :))"]
    section = evalb(trees, copies)[0]
    scores = score_trees(map(read_tree, trees), map(read_tree, copies))
    assert {name: section[name] for name in PRINTED} == {
        name: format(scores[key], how) for name, (key, how) in PRINTED.items()
    }
    assert (scores["skipped"], scores["matched_brackets"]) == (2, 7)  # S NP, S ADVP VP ADVP, ADVP
