"""The command `card`, and the cards that runs and exports carry."""

import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor

import keras
import pytest
import tensorflow as tf

import tf_transformer as tt
from tests.cli.command import assert_mistake
from tests.tiny_run import PAIRS
from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.files.checksums import check_checksums
from tf_transformer.model_card.facts import facts_of_run
from tf_transformer.model_card.files import FACTS, read_card, renewed, source_language, write_card
from tf_transformer.model_card.page import is_generated
from tf_transformer.runs.directory import CARD, RunDirectory
from tf_transformer.runs.loading import identity, load_model


@pytest.fixture
def run(tiny_run_directory, tmp_path):
    """A copy of the tiny run, to be changed."""
    return RunDirectory(shutil.copytree(tiny_run_directory.path, tmp_path / "run"))


def facts_of(command, path):
    outcome = command("card", str(path), "--json")
    assert (outcome.status, outcome.err) == (0, "")
    return json.loads(outcome.out)


def test_a_run_s_facts(command, run):
    facts = facts_of(command, run.path)
    assert facts["model"]["parameters"] == load_model(run.path).count_params()
    assert facts["versions"] == {
        "tf_transformer": tt.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }
    assert facts["corpus"]["checksums"]["train"].startswith(f"{len(PAIRS)} pairs, CRC-32 ")
    scores = json.loads(run.scores.read_text())
    assert facts["scores"]["bleu"] == scores["bleu"] and facts["scores"]["signature"] == scores["signature"]
    assert facts["checkpoint"] == run.best_checkpoint().name
    chosen = run.step_checkpoints()[0]
    assert facts_of(command, chosen)["checkpoint"] == chosen.name


def test_a_run_s_page(command, run):
    outcome = command("card", str(run.path))
    assert outcome.status == 0
    page = outcome.out.decode()
    assert page == run.card.read_text()  # as its training left it
    scores = json.loads(run.scores.read_text())
    for told in (
        f"# {json.loads(command('card', str(run.path), '--json').out)['name']}\n",
        f"{load_model(run.path).count_params():,} parameters",
        f"`{scores['signature']}`",
        "translates from en to de",
        "Do not use it alone",
    ):
        assert told in page


def test_the_scores_are_those_of_the_card_s_checkpoint(command, run):
    first, last = run.step_checkpoints()
    assert identity(first)["weights"] != identity(last)["weights"] == identity(run.best)["weights"]
    scores = facts_of(command, run.path)["scores"]
    assert facts_of(command, last)["scores"] == scores  # the best is a copy of it
    assert facts_of(command, first)["scores"] is None
    assert "\n## Scores\n\nNot known.\n" in command("card", str(first)).out.decode()

    shutil.copyfile(first, run.average)  # as `average` does
    assert facts_of(command, run.path)["scores"] is None
    run.write_scores({"source": "a.en", **identity(run.average), "bleu": 12.5})
    assert facts_of(command, run.path)["scores"] == {"source": "a.en", "bleu": 12.5}
    shutil.copyfile(last, run.average)  # another one
    assert facts_of(command, run.path)["scores"] == scores
    run.average.unlink()
    assert facts_of(command, run.path)["scores"] == scores


def test_a_trial_of_other_options_leaves_the_training_s_scores(command, run):
    whose = {"set": "test", **identity(run.best)}
    also = {"also": {"old": {"bleu": 20.0, "sentences": 5}}}
    run.write_scores({**whose, "bleu": 12.5, "perplexity": math.inf, "sentences": 24, **also})
    before = facts_of(command, run.path)
    with renewed(run):
        run.write_scores({"source": "a.en", **identity(run.best), "beam_size": 1, "bleu": 50.0, "sentences": 3})
    assert facts_of(command, run.path) == before and before["comparison"]
    assert "| bleu | 12.5 |\n| perplexity | not finite |\n" in run.card.read_text()
    assert "options other" not in run.card.read_text()


def test_of_what_the_training_did_not_score_others_are_told_with_their_options(command, run):
    shutil.copyfile(run.step_checkpoints()[0], run.average)
    trial = {"source": "a.en", **identity(run.average), "beam_size": 1, "alpha": 0.6, "bleu": 50.0}
    run.write_scores(trial)
    assert facts_of(command, run.path)["scores"] == {"source": "a.en", "bleu": 50.0, "decoding": {"beam_size": 1}}
    page = command("card", str(run.path)).out.decode()
    assert "\nScored with options other than those under Decoding: beam_size 1.\n" in page
    run.write_scores({"source": "a.en", **identity(run.average), "alpha": 0.6, "bleu": 12.5})
    run.write_scores(trial)
    assert facts_of(command, run.path)["scores"] == {"source": "a.en", "bleu": 12.5}


def test_an_export_that_searches_otherwise_tells_what_its_scores_were_made_with(run):
    own = facts_of_run(run)
    facts = facts_of_run(run, DecodingOptions(beam_size=1, extra_length=10, replace_unknown=True))
    assert facts["decoding"] == own["decoding"] | {"beam_size": 1, "replace_unknown": True}
    assert facts["scores"] == own["scores"] | {"decoding": {"beam_size": 4}}
    run.scores.unlink()
    assert facts_of_run(run, DecodingOptions(beam_size=1))["scores"] is None


@pytest.mark.parametrize(("averaged", "result"), [(0, "best.keras"), (2, "average.keras")])
def test_scores_of_an_earlier_version_are_those_of_the_training_s_result(command, run, averaged, result):
    """They don't say of which checkpoint they are."""
    shutil.copyfile(run.best, run.average)
    recipe = run.recipe.read_text()
    run.recipe.write_text(recipe.replace("average_checkpoints: 0", f"average_checkpoints: {averaged}"))
    run.scores.write_text('{"source": "a.en", "bleu": 50, "earlier": [{"set": "test", "bleu": 12.5}]}')
    for file in run.best, run.average, run.step_checkpoints()[0]:
        expected = {"set": "test", "bleu": 12.5} if file.name == result else None
        assert facts_of(command, file)["scores"] == expected


@pytest.mark.parametrize("content", ["[]", '{"earlier": 3}', "{"])
def test_damaged_scores_are_not_known(command, run, content):
    run.scores.write_text(content)
    assert facts_of(command, run.path)["scores"] is None


def test_a_card_is_renewed_unless_somebody_has_edited_it(run):
    with renewed(run):
        run.write_scores({"set": "test", "bleu": 12.5})
    assert "| bleu | 12.5 |" in run.card.read_text()
    edited = run.card.read_text() + "\nAsk Jo before you use it.\n"
    run.card.write_text(edited)
    with renewed(run):
        run.write_scores({"set": "test", "bleu": 50.0})
    assert run.card.read_text() == edited


def test_a_path_that_is_not_utf_8_is_told_by_its_bytes(command, run, tmp_path):
    with renewed(run):
        run.write_scores({"set": "T\udcfcr.en", **identity(run.best), "bleu": 12.5})
    assert r"T\udcfcr.en" in run.card.read_text(encoding="utf-8") and is_generated(run.card.read_text(encoding="utf-8"))
    assert facts_of(command, run.path)["scores"]["set"] == "T\udcfcr.en"
    write_card(tmp_path, facts_of_run(run))
    assert json.loads((tmp_path / FACTS).read_text(encoding="utf-8"))["scores"]["set"] == "T\udcfcr.en"


def test_a_card_that_another_process_renewed_meanwhile_is_no_edited_one(run):
    with renewed(run):
        run.write_scores({"set": "test", "bleu": 12.5})
        with renewed(run):
            run.write_scores({"set": "test", "bleu": 25.0})
        run.write_scores({"set": "test", "bleu": 50.0})
    assert "| bleu | 50 |" in run.card.read_text()


def test_of_many_that_renew_a_card_at_the_same_time_none_fails(run):
    """Each opens the folder by itself, as processes do."""

    def score(number):
        with renewed(RunDirectory(run.path)):
            run.write_scores({"set": "test", "bleu": number, **identity(run.best)})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(score, range(32)))
    assert len(run.read_scores()) == 33
    assert run.card.read_text() == read_card(run.path)[0] and not list(run.path.glob(".partial*"))


def test_a_run_of_an_earlier_version_has_a_card_too(command, run):
    run.training.unlink()
    run.card.unlink()
    facts = facts_of(command, run.path)
    assert (facts["model"]["parameters"], facts["corpus"]["checksums"], facts["versions"]) == (None, None, None)
    page = command("card", str(run.path)).out.decode()
    assert "| checksums | not known |" in page and not run.card.exists()


def test_an_export_tells_what_its_run_tells(command, tiny_run_directory, tiny_saved_model):
    assert facts_of(command, tiny_saved_model) == facts_of(command, tiny_run_directory.path)
    card = tiny_saved_model / "assets.extra" / CARD
    assert command("card", str(tiny_saved_model)).out.decode() == card.read_text()


def test_an_export_s_card_may_be_edited(command, tiny_saved_model, tmp_path):
    copy = shutil.copytree(tiny_saved_model, tmp_path / "export")
    card = copy / "assets.extra" / CARD
    card.write_text(card.read_text() + "\nAsk Jo.\n")
    assert command("card", str(copy)).out.decode().endswith("\nAsk Jo.\n")
    check_checksums(copy, "it is no damage")


def test_mistakes(command, tiny_saved_model, tmp_path):
    assert_mistake(command("card", str(tmp_path)), str(tmp_path), "not a model", "give the folder of a run")
    copy = shutil.copytree(tiny_saved_model, tmp_path / "export")
    (copy / "assets.extra" / FACTS).write_text("{")
    assert_mistake(command("card", str(copy)), "can't be read", "export the model again")
    (copy / "assets.extra" / CARD).unlink()
    assert_mistake(command("card", str(copy)), "no model card", "export it again")


def test_the_language_that_a_model_translates_from(run, tiny_saved_model, tmp_path):
    assert source_language(run.path) == source_language(tiny_saved_model) == "en"
    run.recipe.write_text(run.recipe.read_text().replace("source_language: en", "source_language: de-AT"))
    assert source_language(run.path) == source_language(run.step_checkpoints()[0]) == "de-AT"
    without_card = shutil.copytree(tiny_saved_model, tmp_path / "1")
    (without_card / "assets.extra" / FACTS).unlink()
    assert source_language(without_card) is None
