"""An ensemble of two of the tiny run's checkpoints: text in, text out, in Python and as a SavedModel."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.decoding import by_hand
from tests.eager import eagerly
from tests.tiny_run import PAIRS
from tests.translation.conftest import OPTIONS
from tf_transformer import Ensemble, Translator, UserError, export_saved_model, load_translator
from tf_transformer.decoding import DecodingOptions
from tf_transformer.experiment import export_run
from tf_transformer.files.checksums import check_checksums
from tf_transformer.model_card.facts import facts_of_ensemble
from tf_transformer.model_card.page import as_markdown
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.tokenizers import train_tokenizers
from tf_transformer.tokenizers.base import END_ID

# None of them has seen the last two: there the models differ.
TEXTS = [PAIRS[5][0], "Our dog", "green! houses, love; a man's apple"]


@pytest.fixture(scope="module")
def checkpoints(tiny_run_directory):
    """The last one, and one of half the steps."""
    return [tiny_run_directory.checkpoints / name for name in ("best.keras", "step-00000050.keras")]


@pytest.fixture(scope="module")
def alone(checkpoints):
    return [load_translator(path) for path in checkpoints]


@pytest.fixture(scope="module")
def ensemble(alone):
    """As it is exported, but for what no test here looks at."""
    return only_the_needed(Translator(Ensemble([each.model for each in alone]), alone[0].tokenizers, alone[0].options))


def only_the_needed(translator):
    kept = {"translate", "translate_with_options", "score", "warm_up"} & set(translator.functions)
    translator.functions = {name: translator.functions[name] for name in sorted(kept)}
    return translator


def columns(output):
    return [text.decode() for text in output["translation"].numpy()], output["score"].numpy()


def test_it_finds_what_a_search_by_hand_finds(ensemble, alone):
    """Over the mean of what the Keras models say, each hypothesis again for each token."""
    each = [by_hand.whole_passes(translator.model) for translator in alone]
    found, scores = columns(ensemble.translate(TEXTS[:2]))
    for text, translation, score in zip(TEXTS[:2], found, scores, strict=True):
        source = [*ensemble.tokenizers.source.tokenize([text]).to_list()[0], END_ID]

        def mean(target, source=source):
            return [sum(both) / 2 for both in zip(*(one(source, target) for one in each), strict=True)]

        ((best, ids),) = by_hand.beam(mean, len(source) - 1 + 10, 4, 0.6, 1).hypotheses
        assert translation == ensemble.tokenizers.target.detokenize(tf.ragged.constant([ids]))[0].numpy().decode()
        assert score == pytest.approx(best, abs=1e-4)


def test_a_score_is_the_mean_of_the_models_scores(ensemble, alone):
    translations, scores = columns(ensemble.translate(TEXTS))
    pairs = tf.constant(TEXTS), tf.constant(translations)
    with eagerly():
        each = np.array([translator.functions["score"](*pairs)["score"] for translator in alone])
        own = ensemble.functions["score"](*pairs)["score"]
    np.testing.assert_allclose(own, each.mean(axis=0), rtol=0, atol=1e-4)
    lengths = ensemble.tokenizers.target.tokenize(translations).row_lengths().numpy() + 1
    np.testing.assert_allclose(scores, each.mean(axis=0) / ((5 + lengths) / 6) ** 0.6, rtol=0, atol=1e-4)
    assert np.abs(each[0] - each[1]).min() > 0.05


def test_order_does_not_matter(ensemble, checkpoints):
    translations, scores = columns(ensemble.translate(TEXTS))
    with eagerly():
        found = columns(load_translator(checkpoints[::-1]).translate(TEXTS))
    assert found[0] == translations
    np.testing.assert_allclose(found[1], scores, atol=1e-5)


@pytest.mark.thorough
def test_a_model_with_itself_is_that_model(alone):
    one = alone[1]
    twice = Translator(Ensemble([one.model, one.model]), one.tokenizers, one.options)
    with eagerly():
        for prefix, changes in (
            (None, {"beam_size": 3, "num_hypotheses": 3, "no_repeat_ngram_size": 2}),
            (["Ein", ""], {"temperature": 1.0, "seed": 4}),
        ):
            found, expected = (each.translate(TEXTS[1:], prefix, **changes) for each in (twice, one))
            assert found["translation"].numpy().tolist() == expected["translation"].numpy().tolist()
            np.testing.assert_allclose(found["score"], expected["score"], rtol=0, atol=1e-4)


PROGRAM = """
import json, sys
import tensorflow as tf, tensorflow_text
loaded = tf.saved_model.load(sys.argv[1])
assert not any(name.split(".")[0] == "tf_transformer" for name in sys.modules)
texts, options = json.loads(sys.argv[2]), json.loads(sys.argv[3])
def told(output):
    texts, scores = (output[name].numpy().reshape(-1) for name in ("translation", "score"))
    return [text.decode() for text in texts], scores.tolist()
found = {"cold": told(loaded.signatures["translate"](text=tf.constant(texts[:1])))}
signature = loaded.signatures["translate_with_options"]
types = signature.structured_input_signature[1]
given = {"text": texts, "prefix": [""] * len(texts), **options}
found["options"] = told(signature(**{name: tf.constant(value, types[name].dtype) for name, value in given.items()}))
if "warm_up" in loaded.signatures:
    compiled = loaded.signatures["warm_up"](rows=tf.constant([1]), lengths=tf.constant([16]))["compiled"]
    found["compiled"] = compiled.numpy().tolist()
found["warm"] = told(loaded.signatures["translate"](text=tf.constant(texts[:1])))
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    "compiled",
    [pytest.param(False, marks=pytest.mark.thorough), pytest.param(True, marks=pytest.mark.slow)],
    ids=["plain", "compiled"],
)
def test_a_saved_model_in_a_new_process(ensemble, tmp_path, compiled):
    """Cold and warm, and with options of a call, it is what it is in Python."""
    exported = ensemble
    if compiled:
        exported = Translator(ensemble.model, ensemble.tokenizers, ensemble.options, compiled=True)
    folder = export_saved_model(only_the_needed(exported), tmp_path / "both")
    changes = {"beam_size": 3, "num_hypotheses": 2, "alpha": 1.0, "no_repeat_ngram_size": 3}
    words = [sys.executable, "-c", PROGRAM, str(folder), json.dumps(TEXTS), json.dumps({**OPTIONS, **changes})]
    found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout)
    assert found.get("compiled") == ([True] if compiled else None)
    several = ensemble.translate(TEXTS, **changes)
    flat = {name: tf.reshape(several[name], [-1]) for name in ("translation", "score")}
    best = ensemble.translate(TEXTS[:1])
    for name, expected in {"cold": best, "warm": best, "options": flat}.items():
        translations, scores = columns(expected)
        assert found[name][0] == translations
        np.testing.assert_allclose(found[name][1], scores, rtol=0, atol=1e-4)


def test_its_card_tells_of_each_model(checkpoints):
    runs = [RunDirectory.of_model(path) for path in checkpoints]
    facts = facts_of_ensemble(runs, DecodingOptions(beam_size=3))
    assert [member["checkpoint"] for member in facts["members"]] == [path.name for path in checkpoints]
    assert facts["model"]["parameters"] == 2 * json.loads(runs[0].training.read_text())["parameters"]
    page = as_markdown(facts)
    for told in "# tiny + tiny", "An ensemble of 2 models", "It translates from en to de.", "| beam_size | 3 |":
        assert told in page
    assert all(path.name in page for path in checkpoints)


@pytest.mark.slow
def test_runs_are_exported_with_all_signatures(checkpoints, ensemble, tmp_path):
    folder = export_run([RunDirectory.of_model(path) for path in checkpoints], tmp_path / "both")
    check_checksums(folder, "")
    assert "An ensemble of 2 models" in (folder / "assets.extra" / "model_card.md").read_text()
    loaded = tf.saved_model.load(folder)
    seen = loaded.signatures["translate_with_attention"](text=tf.constant(TEXTS))
    assert columns(seen)[0] == columns(ensemble.translate(TEXTS))[0]
    assert seen["cross_attention"].shape[:3] == [3, 2, 1]


def test_other_tokenizers_are_refused(tiny_run_directory, tmp_path):
    other = shutil.copytree(tiny_run_directory.path, tmp_path / "run")
    shutil.rmtree(other / "tokenizer")
    train_tokenizers(PAIRS, vocab_size=300).save(other / "tokenizer")
    with pytest.raises(UserError, match="its tokenizer differs from that of"):
        load_translator([tiny_run_directory.path, other])
