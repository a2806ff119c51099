"""The commands for a parser: parse, evaluate --trees, export."""

import json
import shutil

import pytest
import tensorflow as tf

from tests.cli.command import assert_mistake
from tests.tiny_parser import TREES, parsing_settings, tiny_parser, tiny_parser_export, write_trees
from tests.tiny_run import MAX_LENGTH, RECIPE
from tf_transformer.experiment import train
from tf_transformer.model_card.facts import facts_of_run
from tf_transformer.model_card.files import write_card
from tf_transformer.parsing import ParseScorer, clean, read_tree
from tf_transformer.recipe import load_recipe
from tf_transformer.runs.directory import RunDirectory

GOLD = [clean(read_tree(tree)) for tree in TREES]
FEW = sorted(TREES, key=len)[:6]
SENTENCES = [" ".join(tree.words()) for tree in GOLD]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_parser(tmp_path_factory.getbasetemp()).path


@pytest.fixture(scope="module", autouse=True)
def _at_once(run, tiny_run_directory, tiny_saved_model, eager):
    """What is trained here is traced, what is tested here is not."""


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(SENTENCES) + "\n")
    return path


@pytest.fixture
def few(tmp_path):
    """The sentences of the shortest trees, whose search has the fewest steps, and these trees."""
    gold = [clean(read_tree(tree)) for tree in FEW]
    path = tmp_path / "few.txt"
    path.write_text("".join(" ".join(tree.words()) + "\n" for tree in gold))
    return path, gold


def f1(lines, gold=GOLD):
    scorer = ParseScorer()
    for tree, line in zip(gold, lines, strict=True):
        scorer.add(tree, read_tree(line))
    return scorer.scores()["f1"]


def test_a_line_is_a_tree_over_its_words(command, run, sentences):
    outcome = command("parse", run, sentences)
    assert (outcome.status, outcome.err) == (0, "")
    assert [" ".join(read_tree(line).words()) for line in outcome.lines] == SENTENCES
    assert f1(outcome.lines) > 50  # it has learned something, and the order is right


def test_lines_without_words_and_words_with_brackets(command, run):
    outcome = command("parse", run, stdin="\n  \nA (man) \u00a0sees (\n".encode())
    assert outcome.status == 0
    first, second, third = outcome.lines
    assert first == second == ""
    assert read_tree(third).words() == ["A", "-LRB-man-RRB-", "sees", "-LRB-"]


def test_what_is_cut_and_what_has_no_room_is_told(command, run, tmp_path):
    few, many = " ".join(["Москва"] * 20), " ".join(["man"] * 2 * MAX_LENGTH)
    outcome = command("parse", run, "--beam-size", 1, stdin=f"{few}\nA man\n{many}\n".encode())
    assert [len(read_tree(line).words()) for line in outcome.lines] == [20, 2, 2 * MAX_LENGTH]
    assert "1 trees had no room for all words; the last words were put at the end of the root\n" in outcome.err
    assert "2 sentences were cut to the model's maximum length, so their last words were not read" in outcome.err
    flat = (" ".join(f"(NN {word})" for word in text.split()) for text in (few, many))
    trees = write_trees(tmp_path, [f"(S {words})" for words in flat])
    outcome = command("evaluate", run, "--trees", trees, "--beam-size", 1)
    assert "1 of 2 sentences have a tree without room for all words; the last words" in outcome.err
    assert "2 of 2 sentences were cut to the model's maximum length\n" in outcome.err


def test_without_the_grammar_what_is_no_tree_is_mended_and_told(command, run, few):
    sentences, gold = few
    outcome = command("parse", run, sentences, "--no-grammar", "--beam-size", 1)
    assert outcome.status == 0
    assert [read_tree(line).words() for line in outcome.lines] == [tree.words() for tree in gold]
    trees = write_trees(sentences.parent, FEW)
    evaluated = command("evaluate", run, "--trees", trees, "--no-grammar", "--json", "--beam-size", 1)
    assert (evaluated.status, evaluated.err) == (0, "")
    scores = json.loads(evaluated.out)
    assert scores["f1"] == pytest.approx(f1(outcome.lines, gold))
    assert json.loads((run / "scores.json").read_text())["f1"] == scores["f1"]
    assert (f"{scores['mended']} outputs were not well-formed trees" in outcome.err) == bool(scores["mended"])


def test_evaluate_scores_what_parse_says(command, run, few, tmp_path):
    sentences, gold = few
    lines = command("parse", run, sentences, "--beam-size", 2, "--alpha", 0.1).lines
    trees = write_trees(tmp_path, FEW)
    outcome = command("evaluate", run, "--trees", trees, "--beam-size", 2, "--alpha", 0.1)
    assert (outcome.status, outcome.err) == (0, f"scoring 6 sentences with {run / 'checkpoints' / 'best.keras'}\n")
    scores = json.loads((run / "scores.json").read_text())
    assert scores["f1"] == pytest.approx(f1(lines, gold))
    assert (scores["trees"], scores["sentences"], scores["mended"]) == (str(trees), len(FEW), 0)
    told = outcome.lines
    assert told[0].startswith(f"F1 {scores['f1']:.2f}   recall {scores['recall']:.2f}, precision ")
    assert told[1].endswith("at most 40 words, 6 sentences")


@pytest.mark.thorough
def test_evaluate_knows_whether_the_model_writes_tags(command, tmp_path):
    """Its perplexity is that of the end of training; of trees without tags it would be that of other tokens."""
    write_trees(tmp_path)
    changes = {"data__tags": "true", "training__steps": 2, "tensorboard__bleu": 0}
    run = train(load_recipe(RECIPE, parsing_settings(tmp_path, **changes)), tmp_path / "run")
    before = json.loads(run.scores.read_text())
    after = json.loads(command("evaluate", run.path, "--trees", tmp_path / "trees.mrg", "--json").out)
    assert after["perplexity"] == pytest.approx(before["perplexity"], rel=1e-5)


@pytest.mark.slow
def test_an_export_parses_as_its_run(command, run, sentences, tmp_path, tmp_path_factory):
    exported = tiny_parser_export(tmp_path_factory.getbasetemp())
    assert command("parse", exported, sentences).lines == command("parse", run, sentences).lines
    trees = write_trees(tmp_path)
    scores = json.loads(command("evaluate", exported, "--trees", trees, "--json").out)
    assert scores["f1"] == pytest.approx(json.loads(command("evaluate", run, "--trees", trees, "--json").out)["f1"])
    assert_mistake(command("parse", exported, sentences, "--beam-size", 2), "a SavedModel's parsing options are fixed")
    assert command("inspect", exported, SENTENCES[0], "--html", tmp_path / "page.html").status == 0


@pytest.mark.thorough
def test_trees_are_drawn(command, run, sentences, tmp_path):
    """What a tree looks like, tests/parsing/test_drawing.py tells."""
    page, picture = tmp_path / "trees.html", tmp_path / "tree.png"
    outcome = command("parse", run, sentences, "--html", page)
    assert outcome.status == 0 and f"page: {page}" in outcome.err
    assert page.read_text(encoding="utf-8").count("<svg") == len(SENTENCES)
    outcome = command("parse", run, "--png", picture, "--pretty", stdin=SENTENCES[0].encode())
    assert outcome.status == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [word for word in outcome.out.decode().split() if word in SENTENCES[0].split()] == SENTENCES[0].split()
    assert_mistake(
        command("parse", run, sentences, "--png", tmp_path / "other.png"), "only one tree, not 24; give one sentence"
    )
    assert_mistake(command("parse", run, sentences, "--png", picture), "already exists")


def test_what_a_translator_and_a_parser_can_not_do(
    command, run, tiny_run_directory, tiny_saved_model, sentences, tmp_path
):
    for model in tiny_run_directory.path, tiny_saved_model:
        for options in [], ["--no-grammar"]:
            outcome = command("parse", model, sentences, *options)
            assert_mistake(outcome, f"{model}: a translation model, not a parser")
    exported = tmp_path / "exported"  # its card alone is looked at: it is refused before it is loaded
    (exported / "assets.extra").mkdir(parents=True)
    (exported / "saved_model.pb").touch()
    write_card(exported / "assets.extra", facts_of_run(RunDirectory.open(run)))
    for model in run, run / "checkpoints" / "best.keras", exported:
        for words in (
            ["translate", model, sentences],
            ["backtranslate", model, sentences, tmp_path / "out"],
            ["evaluate", model, "--source", sentences, "--reference", sentences],
        ):
            assert_mistake(command(*words), f"{model}: a parser, not a translation model", "tf-transformer parse")
    trees = write_trees(tmp_path)
    assert_mistake(command("evaluate", tiny_run_directory.path, "--trees", trees), "not a parser", "task: parsing")
    assert_mistake(command("evaluate", run, "--source", sentences, "--reference", sentences), "give --trees FILE")
    assert_mistake(command("evaluate", run, "--trees", trees, "--lowercase"), "--trees scores a parser")
    assert_mistake(command("evaluate", run), "give --source FILE and --reference FILE, or for a parser --trees FILE")
    words = "--source", sentences, "--reference", sentences, "--grammar"
    assert_mistake(command("evaluate", tiny_run_directory.path, *words), "--grammar and --no-grammar are for parsers")
    assert_mistake(command("evaluate", run, "--trees", sentences), "sentences.txt, line 1")
    assert_mistake(
        command("export", run, tmp_path / "ct2", "--format", "ctranslate2"), "export a parser as a SavedModel"
    )


def test_a_word_without_a_tag_is_told_with_its_line_where_the_parser_writes_tags(command, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    recipe = copy / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("tags: false", "tags: true"))
    (tmp_path / "trees.mrg").write_text("(S (DT a) (NN dog))\n(S (DT a) ( dog))\n")
    outcome = command("evaluate", copy, "--trees", tmp_path / "trees.mrg")
    assert_mistake(outcome, "trees.mrg, line 2: 'dog' in the tree has no tag")


def test_what_a_training_leaves_of_f1(run):
    """In TensorBoard, as the log has it, and in the scores."""
    events = [
        event
        for path in (run / "logs" / "validation").glob("*tfevents*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
    ]
    figures = {
        (value.tag, event.step): float(tf.make_ndarray(value.tensor))
        for event in events
        for value in event.summary.value
        if value.tag == "quality/F1"
    }
    assert set(figures) == {("quality/F1", step) for step in (60, 120)}
    assert all(0 <= figure <= 100 for figure in figures.values())
    assert json.loads((run / "scores.json").read_text())["f1"] > 50
