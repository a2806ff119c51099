"""The demo's parts; and, slow, the demo itself, as a newcomer types it."""

import io
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tensorflow as tf
from rich.console import Console

from tf_transformer import demo
from tf_transformer.data.demo import DemoSource
from tf_transformer.demo import (
    LOADING,
    SAMPLES,
    _folder_to_train_in,
    _samples,
    _show_figures,
    translate_in_new_process,
)
from tf_transformer.errors import UserError
from tf_transformer.recipe import load_recipe, save_recipe
from tf_transformer.runs.directory import RunDirectory

RECIPE = Path(__file__).parents[1] / "train" / "recipes" / "demo.yaml"


def test_samples_are_test_sentences_of_some_length():
    samples = _samples()
    assert len(set(samples)) == SAMPLES
    test = list(DemoSource("test"))
    assert set(samples) <= set(test)
    assert min(len(source) for source, _ in samples) > sum(len(source) for source, _ in test) / len(test)


def test_an_earlier_folder_is_never_taken_again(tmp_path):
    recipe, taken = load_recipe(RECIPE), []
    for _ in range(3):
        folder = _folder_to_train_in(recipe, tmp_path / "demo")
        assert not folder.exists()
        folder.mkdir()
        taken.append(folder.name)
    assert taken == ["demo", "demo-2", "demo-3"]


def test_an_interrupted_demo_is_resumed_unless_it_is_another_or_still_runs(tmp_path):
    recipe = load_recipe(RECIPE)
    runs = [RunDirectory.create(tmp_path / name) for name in ("demo", "demo-2")]
    for run, given in zip(runs, (load_recipe(RECIPE, ["seed=99"]), recipe), strict=True):
        save_recipe(given, run.recipe)
    assert _folder_to_train_in(recipe, runs[0].path) == runs[1].path
    with runs[1].locked():
        assert _folder_to_train_in(recipe, runs[0].path).name == "demo-3"
    runs[1].end_training()
    assert _folder_to_train_in(recipe, runs[0].path).name == "demo-3"


class Reverse(tf.Module):
    """Says everything backwards."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def translate(self, text):
        characters = tf.strings.unicode_decode(text, "UTF-8")
        return {"translation": tf.strings.unicode_encode(tf.reverse(characters, axis=[1]), "UTF-8")}


def test_the_signature_is_one_line_however_narrow_the_terminal():
    shown = io.StringIO()
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    scores = {"loss": 0.1, "perplexity": None, "bleu": 96.571, "training_seconds": 80.2, "signature": signature}
    _show_figures(scores, 100.0, Console(file=shown, width=60))
    assert f"signature of BLEU: {signature}" in shown.getvalue().splitlines()
    assert ["BLEU", "96.57"] in map(str.split, shown.getvalue().splitlines())
    assert "not finite" in shown.getvalue()  # as null in scores.json says


def test_translating_in_a_new_process(tmp_path):
    tf.saved_model.save(Reverse(), str(tmp_path / 'it\'s "here"'))
    assert translate_in_new_process(tmp_path / 'it\'s "here"', ["häuser", "\n🐕"]) == ["resuäh", "🐕\n"]


@pytest.mark.parametrize(
    "loading",
    [
        pytest.param(LOADING, marks=pytest.mark.thorough, id="by TensorFlow"),
        pytest.param("open({path!r})", id="a file"),
    ],
)
def test_a_broken_export_is_told_in_a_line(tmp_path, monkeypatch, loading):
    monkeypatch.setattr(demo, "LOADING", loading)
    with pytest.raises(UserError) as raised:
        translate_in_new_process(tmp_path / "none", ["a"])
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / 'none'}: the SavedModel does not translate in a new process (")
    assert "\n" not in message


@pytest.mark.slow
def test_the_demo(tmp_path, capsys):
    began = time.perf_counter()
    command = Path(sys.executable).with_name("tf-transformer")
    process = subprocess.run([command, "demo"], cwd=tmp_path, capture_output=True, text=True, timeout=1800)
    seconds = time.perf_counter() - began
    gibibytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    shown = process.stdout + process.stderr
    assert process.returncode == 0, shown
    assert "Traceback" not in shown

    run = tmp_path / "runs" / "demo"
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    with capsys.disabled():
        print(f"\ndemo: BLEU {scores['bleu']:.2f}, {seconds:.0f} s, {gibibytes:.2f} GiB")
    assert scores["bleu"] >= 90
    assert scores["sentences"] == len(list(DemoSource("test")))
    assert gibibytes < 3
    assert (run / "attention.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

    told = [
        line.split()[0] for line in shown.splitlines() if line.startswith(("scoring ", "exporting ", "translating "))
    ]
    assert told == ["scoring", "exporting", "translating"]

    # What it shows: the figures, three translations, the picture, the export and the two lines that load it.
    exported = Path("savedmodels") / "demo" / "1"
    for text in (f"{scores['bleu']:.2f}", scores["signature"], "perplexity", "loss", "seconds", "attention.png"):
        assert text in shown
    assert all(source in shown for source, _ in _samples())
    assert f"tensorboard --logdir {Path('runs') / 'demo'}" in shown
    assert f"tf-transformer serve {exported.parent}" in shown
    lines = LOADING.format(path=str(exported))
    assert lines.strip() in shown

    # The two lines work as they stand, where they were shown.
    source, reference = _samples()[0]
    asking = f"print(translator.translate(tf.constant([{source!r}]))['translation'].numpy()[0].decode())"
    words = [sys.executable, "-I", "-c", lines + asking]
    answer = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert answer.stdout.strip() and answer.stdout.strip() in shown
    assert len(answer.stdout.split()) == pytest.approx(len(reference.split()), abs=3)
