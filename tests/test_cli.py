"""The command, as a person at a shell meets it.

Most tests run it in this process, which has TensorFlow already; those in which the process itself matters start one.
"""

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import sacrebleu
import yaml

from tests.tiny_run import MAX_LENGTH, PAIRS, RECIPE, settings, tiny_export, tiny_run, write_pairs
from tf_transformer import cli
from tf_transformer.presets import count_parameters

COMMAND = Path(sys.executable).with_name("tf-transformer")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    return tiny_export(tmp_path_factory.getbasetemp())


class Outcome(NamedTuple):
    status: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output's lines, every one of which must be ended."""
        assert self.out.endswith(b"\n") or not self.out
        return self.out.decode("utf-8").split("\n")[:-1]


@pytest.fixture
def command(monkeypatch, capsysbinary):
    """Runs the command in this process."""

    def run_it(*arguments, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["tf-transformer", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsysbinary.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err.decode("utf-8"))

    return run_it


def contents(folder: Path) -> dict[str, bytes | None]:
    """All files with their bytes, and all folders."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


# Help


def test_help_answers_without_tensorflow():
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    process = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, env=environment, timeout=60)
    print(f"tf-transformer --help: {time.perf_counter() - began:.2f} s")
    assert process.returncode == 0
    for name in ("train", "evaluate", "translate", "export", "presets", "demo"):
        assert f" {name} " in process.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in process.stderr.splitlines()}
    assert "tf_transformer" in imported
    assert not imported & {"tensorflow", "keras", "numpy", "pydantic"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("train", ["recipe", "--set", "--run-dir", "--json"]),
        ("evaluate", ["model", "--source", "--reference", "--lowercase", "--batch-size", "--json"]),
        ("translate", ["model", "[file]", "--cut", "--batch-size", "--json"]),
        ("export", ["run", "dest"]),
        ("presets", ["--json"]),
        ("demo", []),
    ],
)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_each_command(command, name, options, flag):
    outcome = command(name, flag)
    assert (outcome.status, outcome.err) == (0, "")
    for option in ("usage:", name, *options):
        assert option in outcome.out.decode().lower()


# Presets


def test_presets_as_json(command):
    outcome = command("presets", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    presets = {preset["name"]: preset for preset in json.loads(outcome.out)}
    assert {"base", "big"} <= set(presets)
    for name, preset in presets.items():
        arguments = {key: value for key, value in preset.items() if key not in ("name", "parameters")}
        sizes = {"input_vocab_size": 37_000, "target_vocab_size": 37_000}
        assert preset["parameters"] == count_parameters(**arguments, **sizes), name
    assert presets["big"]["d_model"] == 1024


def test_presets_as_a_table(command):
    outcome = command("presets")
    assert outcome.status == 0
    rows = [line.split() for line in outcome.lines]
    assert ["base", "6", "512", "2048", "8", "64", "64", "0.1", "63,082,496", "65", "M"] in rows


# Train, evaluate, export


def test_train(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path)
    replaced = settings(".", name="short", training__steps=3, training__validate_every=2, evaluation__extra_length=0)
    outcome = command("train", RECIPE, *(word for setting in replaced for word in ("--set", setting)), "--json")
    assert outcome.status == 0
    run = tmp_path / "runs" / "short"
    assert json.loads(outcome.out) == json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert yaml.safe_load((run / "recipe.yaml").read_text())["training"]["steps"] == 3
    assert (run / "checkpoints" / "step-00000003.keras").is_file()
    assert "24 of 24 pairs kept" in outcome.err
    assert str(Path("runs") / "short") in outcome.err


@pytest.fixture
def almost_right(tmp_path):
    """Source and reference files of which a model that knows `PAIRS` gets some words wrong."""
    other_words = [(source, target.replace("liebt", "mag").replace("Haus", "haus")) for source, target in PAIRS]
    return write_pairs(tmp_path, other_words)


def test_evaluate_scores_what_translate_says(command, saved_model, almost_right):
    source, reference = almost_right
    hypotheses = command("translate", saved_model, source).lines
    references = reference.read_text(encoding="utf-8").splitlines()
    options = ("--source", source, "--reference", reference, "--lowercase", "--batch-size", 5)
    outcome = command("evaluate", saved_model, *options, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    scores = json.loads(outcome.out)

    cased = sacrebleu.corpus_bleu(hypotheses, [references]).score
    lowercased = sacrebleu.corpus_bleu(hypotheses, [references], lowercase=True).score
    assert scores["bleu"] == pytest.approx(cased)
    assert scores["lowercased"]["bleu"] == pytest.approx(lowercased)
    assert 20 < cased < lowercased < 100
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [references]).score)
    assert scores["sentences"] == len(PAIRS)


def test_evaluate_of_a_run_is_kept_in_it(command, run, almost_right, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    # Batches for training may be too small for the longest text the model takes; scoring must not mind.
    recipe = yaml.safe_load((copy / "recipe.yaml").read_text())
    recipe["data"].update(max_length=MAX_LENGTH // 2, batch_tokens=MAX_LENGTH // 2)
    (copy / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    before = json.loads((copy / "scores.json").read_text(encoding="utf-8"))
    source, reference = almost_right
    outcome = command("evaluate", copy, "--source", source, "--reference", reference)
    assert (outcome.status, outcome.err) == (0, "")
    scores = json.loads((copy / "scores.json").read_text(encoding="utf-8"))
    shown = outcome.out.decode()
    assert f"BLEU {scores['bleu']:.2f}   {scores['signature']}\n" in shown
    assert f"chrF {scores['chrf']:.2f}   {scores['chrf_signature']}\n" in shown
    assert f"perplexity {scores['perplexity']:.3f} a token\n" in shown
    assert scores["earlier"] == [{key: value for key, value in before.items() if key != "earlier"}]
    assert (scores["source"], scores["reference"]) == (str(source), str(reference))
    assert scores["bleu"] < before["bleu"]
    assert scores["perplexity"] > before["perplexity"]


def test_export(command, run, tmp_path):
    (tmp_path / "tiny" / "7").mkdir(parents=True)
    outcome = command("export", run.path, tmp_path / "tiny")
    assert (outcome.status, outcome.lines) == (0, [str(tmp_path / "tiny" / "8")])
    assert sorted(os.listdir(tmp_path / "tiny")) == ["7", "8"]
    assert (tmp_path / "tiny" / "8" / "saved_model.pb").is_file()


# Translate

GERMAN = dict(PAIRS)


def test_one_line_in_is_one_line_out_in_order(command, saved_model, tmp_path):
    sources = [source for source, _ in PAIRS] + [""]
    sources = random.Random(5).sample(sources * 2, 2 * len(sources))
    file = tmp_path / "sources.txt"
    file.write_text("".join(source + "\n" for source in sources), encoding="utf-8")
    # With 2 at once the text is more than one window.
    outcome = command("translate", saved_model, file, "--batch-size", 2)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.lines == [GERMAN.get(source, "") for source in sources]
    assert command("translate", saved_model, stdin=file.read_bytes()).out == outcome.out


def test_what_ends_a_line_and_what_does_not(command, saved_model):
    lines = [
        b"\xef\xbb\xbfA man sees a house.\r\n",  # a byte order mark, and Windows' line end
        b"\n",
        "The child finds\u2028the green apple.\n".encode(),  # a line separator to Unicode, a blank to us
        b"\r\n",
        b"Our dog loves\x0b a house.\n",
        b" \n",
        b"A woman sees the green apple.",  # no end
    ]
    outcome = command("translate", saved_model, stdin=b"".join(lines))
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.lines == [
        "Ein Mann sieht ein Haus.",
        "",
        "Das Kind findet den grünen Apfel.",
        "",
        "Unser Hund liebt ein Haus.",
        "",
        "Eine Frau sieht den grünen Apfel.",
    ]


def test_a_translation_of_several_lines_is_written_as_one(capsysbinary):
    cli._write_line("Ein Mann\nsieht\u2028ein\r\nHaus.\n")
    sys.stdout.flush()
    assert capsysbinary.readouterr().out == b"Ein Mann sieht ein Haus.\n"


def test_nothing_in_is_nothing_out(command, saved_model):
    assert command("translate", saved_model, stdin=b"") == (0, b"", "")


def test_translate_as_json(command, saved_model):
    text = "A man sees a house.\n\n" + "house " * 2 * MAX_LENGTH
    outcome = command("translate", saved_model, "--json", "--cut", stdin=text.encode())
    assert (outcome.status, outcome.err) == (0, "")
    known, empty, long = (json.loads(line) for line in outcome.lines)
    assert (known["translation"], known["truncated"]) == ("Ein Mann sieht ein Haus.", False)
    assert -1 < known["score"] < 0
    assert empty == {"translation": "", "score": 0.0, "truncated": False}
    assert long["truncated"] is True


# Mistakes


@pytest.fixture(scope="module")
def mistakes(run, saved_model, tmp_path_factory):
    """A folder of everything that can be wrong."""
    folder = tmp_path_factory.mktemp("mistakes")
    source, _ = write_pairs(folder)
    (folder / "short.de").write_text("Ein Haus.\n" * 5)
    (folder / "latin.de").write_bytes(b"Ein Haus.\nEin Hund.\nEine T\xfcr.\n" + b"Ein Haus.\n" * 21)
    (folder / "empty.txt").touch()
    (folder / "long.en").write_text("A man.\n" + "house " * 2 * MAX_LENGTH + "\nA man.\n")
    recipe = RECIPE.read_text(encoding="utf-8")
    for name, key, line in (
        ("wrong_type", "  steps: ", "  steps: many"),
        ("unknown_key", "  warmup_steps: ", "  warm_up_steps: 400"),
        ("heads", "  num_heads: ", "  num_heads: 5"),
    ):
        lines = [line if old.startswith(key) else old for old in recipe.splitlines()]
        assert lines != recipe.splitlines()
        (folder / f"{name}.yaml").write_text("\n".join(lines))
    shutil.copytree(run.path, folder / "unfinished", ignore=shutil.ignore_patterns("*.keras"))
    shutil.copytree(run.path, folder / "run")
    shutil.copytree(saved_model, folder / "versions" / "3")
    assert source.name == "pairs.en"
    return folder


def train_on(*settings_):
    """The words of a training on the pairs in the folder of mistakes, but for what is replaced."""
    words = ["train", RECIPE, "--run-dir", "{}/new"]
    both = "[pairs.en, pairs.de]"
    files = ["data.kind=files", "data.root={}", *(f"data.{split}={both}" for split in ("train", "validation", "test"))]
    model = ["tokenizer.vocab_size=340", "model.num_layers=1", "model.d_model=16", "model.num_heads=2", "model.dff=16"]
    for setting in [*files, *model, *settings_]:
        words += ["--set", setting]
    return words


def score(model, source, reference):
    return ["evaluate", model, "--source", source, "--reference", reference]


LONG_NAME = "x" * 300

# What was typed ({} is the folder of mistakes), and what the one line must tell.
MISTAKES = {
    "translate: a file that is not there": (
        ["translate", "{}/versions/3", "{}/none.en"],
        ["{}/none.en", "No such file"],
    ),
    "translate: a folder for a file": (["translate", "{}/versions/3", "{}"], ["{}: ", "Is a directory"]),
    "translate: an unreadable file": (["translate", "{}/versions/3", LONG_NAME], [LONG_NAME, "File name too long"]),
    "translate: not UTF-8": (["translate", "{}/versions/3", "{}/latin.de"], ["{}/latin.de, line 3", "UTF-8"]),
    "translate: too long": (["translate", "{}/versions/3", "{}/long.en"], ["{}/long.en, line 2", "--cut"]),
    "translate: no model": (["translate", "{}/none", "{}/pairs.en"], ["{}/none", "no such folder"]),
    "translate: a folder that is no model": (
        ["translate", "{}", "{}/pairs.en"],
        ["{}: neither a run nor a SavedModel"],
    ),
    "translate: a folder of versions": (["translate", "{}/versions", "{}/pairs.en"], ["such as {}/versions/3"]),
    "translate: no checkpoint": (["translate", "{}/unfinished"], ["{}/unfinished/checkpoints", "no checkpoint"]),
    "translate: an unreadable model": (["translate", LONG_NAME], [LONG_NAME, "File name too long"]),
    "evaluate: a file that is not there": (
        score("{}/run", "{}/none.en", "{}/pairs.de"),
        ["{}/none.en does not exist", "give the path"],
    ),
    "evaluate: a folder for a file": (score("{}/run", "{}/pairs.en", "{}"), ["{} is no regular file"]),
    "evaluate: an unreadable file": (score("{}/run", LONG_NAME, "{}/pairs.de"), [LONG_NAME, "File name too long"]),
    "evaluate: unequal lengths": (
        score("{}/run", "{}/pairs.en", "{}/short.de"),
        ["{}/pairs.en has 24 lines", "{}/short.de has 5", "make them equal"],
    ),
    "evaluate: not UTF-8": (score("{}/run", "{}/pairs.en", "{}/latin.de"), ["{}/latin.de, line 3", "UTF-8", "0xfc"]),
    "evaluate: empty": (score("{}/run", "{}/empty.txt", "{}/empty.txt"), ["no sentence pairs in {}/empty.txt"]),
    "evaluate: no model": (score("{}/none", "{}/pairs.en", "{}/pairs.de"), ["{}/none: neither a run nor a SavedModel"]),
    "evaluate: no checkpoint": (score("{}/unfinished", "{}/pairs.en", "{}/pairs.de"), ["no checkpoint yet"]),
    "train: a recipe that is not there": (["train", "{}/none.yaml"], ["{}/none.yaml", "no such recipe"]),
    "train: a folder for a recipe": (["train", "{}"], ["{}: ", "Is a directory"]),
    "train: a wrong type": (
        ["train", "{}/wrong_type.yaml"],
        ["{}/wrong_type.yaml: training.steps is many", "must be a whole number"],
    ),
    "train: an unknown key": (
        ["train", "{}/unknown_key.yaml"],
        ["warm_up_steps", "did you mean training.warmup_steps?"],
    ),
    "train: heads that do not divide": (["train", "{}/heads.yaml"], ["model.num_heads is 5", "must divide d_model"]),
    "train: a wrong setting": (
        train_on("training.steps=-1"),
        ["--set training.steps=-1", "greater than or equal to 1"],
    ),
    "train: not a setting": (train_on("steps"), ["--set steps", "key=value"]),
    "train: no corpus": (train_on("data.test=[pairs.en, none.de]"), ["{}/none.de does not exist"]),
    "train: unequal lengths": (train_on("data.train=[short.de, pairs.en]"), ["has 5 lines", "has 24"]),
    "train: unequal lengths in the test set": (train_on("data.test=[short.de, pairs.en]"), ["has 5 lines", "has 24"]),
    "train: not UTF-8": (train_on("data.train=[pairs.en, latin.de]"), ["{}/latin.de, line 3", "invalid_utf8"]),
    "train: an empty corpus": (train_on("data.train=[empty.txt, empty.txt]"), ["no sentence pairs in {}/empty.txt"]),
    "train: too large a vocabulary": (train_on("tokenizer.vocab_size=5000"), ["5000 is larger than", "or fewer"]),
    "train: too small a vocabulary": (train_on("tokenizer.vocab_size=100"), ["100 is too small", "or more"]),
    "train: nothing short enough": (
        train_on("data.max_length=2"),
        ["data.train: no pair is left", "24 too long", "raise data.max_length"],
    ),
    "train: into another run": ([*train_on(), "--run-dir", "{}/run"], ["{}/run: holds another run", "--run-dir"]),
    "train: into a folder of files": ([*train_on(), "--run-dir", "{}"], ["{}: is not empty", "--run-dir"]),
    "train: under a file": ([*train_on(), "--run-dir", "{}/empty.txt/new"], ["{}/empty.txt is no folder to write to"]),
    "export: no run": (["export", "{}/none", "{}/out"], ["{}/none: no run here"]),
    "export: no checkpoint": (["export", "{}/unfinished", "{}/out"], ["no checkpoint yet"]),
    "export: a version that is there": (
        ["export", "{}/run", "{}/versions/3"],
        ["{}/versions/3: this version is there"],
    ),
    "export: onto a file": (["export", "{}/run", "{}/pairs.en"], ["{}/pairs.en: a file"]),
    "export: under a file": (["export", "{}/run", "{}/pairs.en/out"], ["{}/pairs.en/out/1", "Not a directory"]),
    "export: an impossible name": (["export", "{}/run", LONG_NAME], [LONG_NAME, "File name too long"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_status_2_and_harms_nothing(command, mistakes, name):
    words, told = MISTAKES[name]
    before = contents(mistakes)
    outcome = command(*(str(word).replace("{}", str(mistakes)) for word in words), stdin=b"A man.\n")
    assert outcome.status == 2
    message, *more = outcome.err.removesuffix("\n").split("\n")
    assert more == []
    assert message.startswith("tf-transformer: ")
    for text in told:
        assert text.replace("{}", str(mistakes)) in message
    assert contents(mistakes) == before


def test_a_sentence_too_long_is_cut_on_request(command, mistakes):
    outcome = command("translate", mistakes / "versions" / "3", mistakes / "long.en", "--cut")
    assert (outcome.status, outcome.err, len(outcome.lines)) == (0, "", 3)
    assert outcome.lines[1]
    assert outcome.lines[0] == outcome.lines[2]  # it does not hang on its neighbours


@pytest.mark.parametrize(
    "words",
    [
        ["trian"],
        ["train"],
        ["translate", ".", "--beam"],
        ["translate", ".", "--batch-size", "0"],
        ["evaluate", ".", "--source", "a"],
    ],
)
def test_a_mistyped_command_is_status_2(command, words):
    outcome = command(*words)
    assert (outcome.status, outcome.out) == (2, b"")
    assert "Usage:" in outcome.err
    assert "Traceback" not in outcome.err


# Processes of their own


def test_standard_error_holds_the_mistake_alone(mistakes):
    """No notice of TensorFlow's, neither from loading it nor from using it."""
    process = subprocess.run(
        [COMMAND, "translate", mistakes / "versions" / "3"],
        input=b"A man sees a house.\n\n" + b"house " * 2 * MAX_LENGTH,
        capture_output=True,
        timeout=300,
    )
    assert process.returncode == 2
    assert process.stdout.decode() == "Ein Mann sieht ein Haus.\n\n"
    assert process.stderr.decode().startswith("tf-transformer: standard input, line 3: more tokens than")
    assert process.stderr.count(b"\n") == 1


def test_training_stopped_by_a_mistake_is_quiet_too(mistakes):
    words = [str(word).replace("{}", str(mistakes)) for word in train_on("tokenizer.vocab_size=5000")]
    process = subprocess.run([COMMAND, *words], capture_output=True, timeout=300)
    assert (process.returncode, process.stdout) == (2, b"")
    assert process.stderr.startswith(b"tf-transformer: vocab_size 5000 is larger than")
    assert process.stderr.count(b"\n") == 1


def test_a_reader_who_goes_is_no_reason_to_complain(saved_model, tmp_path):
    file = tmp_path / "sources.txt"
    file.write_text("A man sees a house.\n" * 20_000)
    words = [COMMAND, "translate", saved_model, file, "--batch-size", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"Ein Mann sieht ein Haus.\n"
        process.stdout.close()
        assert process.wait(timeout=60) != 0  # long before the 20,000th line
        assert process.stderr.read() == b""


def test_a_reader_who_never_came_is_no_reason_to_complain():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = subprocess.run([COMMAND, "presets", "--json"], stdout=writing, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(writing)
    assert process.returncode != 0
    assert process.stderr == b""


def test_ctrl_c_leaves_a_checkpoint_that_translates(command, tmp_path):
    write_pairs(tmp_path)
    replaced = settings(
        tmp_path, training__steps=1_000_000, training__validate_every=5, training__distribution="mirrored"
    )
    words = [COMMAND, "train", RECIPE, "--run-dir", tmp_path / "run"]
    words += [word for setting in replaced for word in ("--set", setting)]
    checkpoints = tmp_path / "run" / "checkpoints"
    # Where the tests themselves run in the background, a shell has turned Ctrl-C off for them and their children.
    turned_on = {"preexec_fn": partial(signal.signal, signal.SIGINT, signal.default_int_handler)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **turned_on) as process:
        give_up = time.monotonic() + 300
        while not (checkpoints / "best.keras").exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < give_up
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    # Its own last step is saved, beyond the last validation, and is all that a translation needs.
    told = err.rpartition("interrupted; saved ")[2].strip()
    saved = Path(told)
    assert saved in checkpoints.iterdir()
    for other in set(checkpoints.iterdir()) - {saved}:
        other.unlink()
    outcome = command("translate", tmp_path / "run", stdin=b"A man sees a house.\n\n")
    assert outcome.status == 0
    assert len(outcome.lines) == 2
