"""Everything that can be done with a run can be done with an imported one."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.cli.command import COMMAND
from tests.eager import eagerly
from tests.marian.folders import TAGS
from tests.marian.tuned import tune
from tests.tiny_run import PAIRS
from tests.translation.conftest import with_nothing_but
from tf_transformer import DecodingOptions, SmoothedCrossEntropy, cli, load_model
from tf_transformer.errors import UserError
from tf_transformer.experiment import train
from tf_transformer.export import export_saved_model
from tf_transformer.export.ctranslate2 import export_ctranslate2
from tf_transformer.model_card.files import language_tags
from tf_transformer.recipe import load_recipe
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID
from tf_transformer.translation import Translator
from tf_transformer.translation.loading import load_translate

TEXTS = [">>deu<< A man sees a house.", "Our dog", "", "unheard 狗"]


@pytest.fixture
def command(monkeypatch):
    """Runs `tf-transformer` in this process, eagerly: a few sentences take less time than to trace."""
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")  # which it sets for its own process

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["tf-transformer", *map(str, words)])
        with eagerly(), pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code in (0, None)

    return run


@pytest.fixture(scope="module")
def short(joint):
    """A translator of the run that keeps translations short, which an untrained model would not."""
    options = DecodingOptions(beam_size=2, alpha=1.0, length_offset=0.0, max_length=8)
    return Translator(load_model(joint.run.path), joint.run.load_tokenizers(), options, compiled=True)


def test_the_command_makes_a_run_and_other_commands_take_it(joint, tmp_path, command, capsys):
    texts, run = tmp_path / "texts.txt", tmp_path / "opus"
    texts.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    command("import", joint.folder, run, "--source-language", "nl", "--target-language", "fr")
    assert capsys.readouterr().out == f"{run}\n"
    command("translate", run, texts, "--max-length", 8)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(TEXTS) and lines[2] == ""
    command("card", run)
    card = capsys.readouterr().out
    assert "imported from another library" in card and "translates from nl to fr" in card


def test_each_sentence_of_a_paragraph_has_the_tag_of_its_text(joint, tmp_path, command, capsys):
    def translated(lines, *words):
        texts = tmp_path / "texts.txt"
        texts.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command("translate", joint.run.path, texts, "--max-length", 8, "--beam-size", 1, *words)
        return capsys.readouterr().out.splitlines()

    first, second, bare = translated([">>nld<< Our dog.", ">>nld<< A man sees.", "A man sees."])
    assert second != bare  # to the model the tag makes a difference
    assert translated([">>nld<< Our dog.  A man sees."], "--paragraphs") == [f"{first}  {second}"]
    (told,) = map(json.loads, translated([">>nld<< Our dog.  A man sees."], "--paragraphs", "--json"))
    assert [sentence["source"] for sentence in told["sentences"]] == ["Our dog.", "A man sees."]


@pytest.mark.thorough  # as the one above has it, and tests/runs/test_directory.py of the tiny run
def test_a_process_that_has_nothing_of_this_one_takes_it(joint, tmp_path):
    texts, commands, outcomes = (tmp_path / name for name in ("texts.txt", "commands.json", "outcomes.json"))
    texts.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    words = ["import", joint.folder, tmp_path / "opus"], ["translate", tmp_path / "opus", texts, "--max-length", 8]
    commands.write_text(json.dumps([[str(word) for word in each] for each in words]))
    program = [sys.executable, "-m", "tests.cli.several_commands", commands, outcomes]
    process = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    imported, translated = json.loads(outcomes.read_text(encoding="utf-8"))
    assert (imported["status"], imported["out"]) == (0, f"{tmp_path / 'opus'}\n"), imported["err"]
    assert translated["status"] == 0, translated["err"]
    assert len(translated["out"].splitlines()) == len(TEXTS)
    assert translated["out"].splitlines()[2] == ""


@pytest.mark.thorough
def test_it_can_be_evaluated_and_looked_into(joint, tmp_path, command, capsys):
    source, reference, run = tmp_path / "pairs.en", tmp_path / "pairs.de", tmp_path / "run"
    shutil.copytree(joint.run.path, run)
    for path, lines in zip((source, reference), zip(*PAIRS[:3], strict=True), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command("evaluate", run, "--source", source, "--reference", reference, "--beam-size", 1)
    assert "BLEU" in capsys.readouterr().out
    assert json.loads((run / "scores.json").read_text(encoding="utf-8"))["sentences"] == 3
    command("inspect", run, "Our dog", "--html", tmp_path / "attention.html")
    assert "attention" in (tmp_path / "attention.html").read_text(encoding="utf-8").lower()


@pytest.mark.thorough
def test_the_compiled_search_finds_the_same(short):
    """XLA compiles it with the bias, the activation and the positions of MarianMT."""
    before = short.translate(TEXTS[:2])
    short.warm_up(rows=(2,), lengths=(32,))
    after = short.translate(TEXTS[:2])
    np.testing.assert_array_equal(before["translation"], after["translation"])
    np.testing.assert_allclose(before["score"], after["score"], atol=1e-4)


@pytest.mark.thorough
def test_an_export_says_the_same_without_the_package(joint, tmp_path):
    """In TensorFlow for Python, and by its C API, which the command runs an export with."""
    options = DecodingOptions(beam_size=1, alpha=0.0, length_offset=0.0, max_length=8, extra_length=40)
    translator = Translator(load_model(joint.run.path), joint.run.load_tokenizers(), options)
    expected = [text.decode() for text in translator.translate(TEXTS)["translation"].numpy()]
    folder = export_saved_model(with_nothing_but(translator, "translate"), tmp_path / "opus")
    assert language_tags(folder) == list(TAGS)
    code = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        "translate = tf.saved_model.load(sys.argv[1]).signatures['translate']\n"
        "for text in translate(text=tf.constant(sys.argv[2:]))['translation'].numpy(): print(text.decode())"
    )
    for words in [sys.executable, "-c", code, folder, *TEXTS], [COMMAND, "translate", folder]:
        given = "\n".join(TEXTS) + "\n"
        process = subprocess.run(words, capture_output=True, text=True, input=given, timeout=300)
        assert (process.returncode, process.stdout.splitlines()) == (0, expected), process.stderr


def test_ctranslate2_says_the_same(joint, tmp_path):
    """Its probabilities leave padding out, so the model is one that gives padding none."""
    pytest.importorskip("ctranslate2", reason="needs CTranslate2: pip install -e '.[ctranslate2]'")
    model, tokenizers = load_model(joint.run.path), joint.run.load_tokenizers()
    bias = model.bias.numpy()
    bias[PAD_ID] = -100
    model.bias.assign(bias)
    options = DecodingOptions(beam_size=1, alpha=1.0, length_offset=0.0, max_length=8, extra_length=40)
    folder = export_ctranslate2(model, tokenizers, tmp_path / "ct2", options=options)
    assert language_tags(folder) == list(TAGS)
    found = load_translate(folder, engine="ctranslate2")(TEXTS)
    with eagerly():
        expected = Translator(model, tokenizers, options).translate(TEXTS)
    np.testing.assert_array_equal(found["translation"], expected["translation"])
    np.testing.assert_allclose(found["score"], expected["score"], atol=1e-4)


def test_it_learns(joint):
    """Fine-tuning begins with this: a few steps on three pairs lower the loss, and START stays unsaid."""
    model, tokenizers = load_model(joint.run.path), joint.run.load_tokenizers()
    sources, targets = (
        side.tokenize(tf.constant(texts)).to_list()
        for side, texts in zip((tokenizers.source, tokenizers.target), zip(*PAIRS[:3], strict=True), strict=True)
    )
    as_batch = tf.keras.utils.pad_sequences
    source = as_batch([[*ids, END_ID] for ids in sources], padding="post")
    labels = as_batch([[*ids, END_ID] for ids in targets], padding="post")
    target = as_batch([[START_ID, *ids] for ids in targets], padding="post")
    model.compile(tf.keras.optimizers.Adam(0.02), SmoothedCrossEntropy(0.0), run_eagerly=True)
    losses = [model.train_on_batch((source, target), labels) for _ in range(8)]
    assert losses[-1] < 0.7 * losses[0]
    assert model((source, target))[..., START_ID].numpy().max() < -500


@pytest.mark.thorough
def test_it_is_fine_tuned(joint, tmp_path):
    tuned = tune(joint.run, tmp_path, validate_every=2)
    before, after = (load_model(run.path) for run in (joint.run, tuned))
    changed = [np.abs(a - b).max() for a, b in zip(before.get_weights(), after.get_weights(), strict=True)]
    assert 0 < max(changed) < 0.1  # two steps from where it was
    assert after.activation == "swish" and after.output_bias


def test_training_on_its_recipe_is_refused(joint, tmp_path):
    with pytest.raises(UserError, match="data.kind is none, as for an imported model"):
        train(load_recipe(joint.run.recipe), tmp_path / "run")
