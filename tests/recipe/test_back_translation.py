"""`train/back_translation.mk`: the experiment's commands, read and, with tiny models, run."""

import json
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import typer

from tests.cli.command import COMMAND
from tests.recipe.recipes import MULTI30K
from tests.tiny_run import PAIRS, settings, write_pairs
from tf_transformer.commands import app
from tf_transformer.recipe import load_recipe

ROOT = Path(__file__).parents[2]
MAKE = ["make", "-f", "train/back_translation.mk"]


@pytest.fixture
def data(tmp_path):
    """The tiny corpus, as the experiment finds it."""
    for split, pairs in (("train", PAIRS), ("val", PAIRS[:2]), ("test", PAIRS[:2])):
        (tmp_path / split).mkdir()
        for path, side in zip(write_pairs(tmp_path / split, pairs), ("en", "de"), strict=True):
            path.rename(tmp_path / f"{split}.{side}")
    return tmp_path


def read_commands(make, folder):
    """The names of the commands that would be run, and the recipes of the trainings among them by their runs' names."""
    shown = subprocess.run([*make, "-n"], cwd=folder, capture_output=True, text=True, check=True)
    commands = [shlex.split(line) for line in shown.stdout.splitlines()]
    read, recipes = [], {}
    for _, name, *words in (words for words in commands if words[0] == "tf-transformer"):
        parameters = typer.main.get_command(app).commands[name].make_context(name, words).params
        read.append(name)
        if name == "train":
            recipes[parameters["run_dir"].name] = load_recipe(folder / parameters["recipe"], parameters["overrides"])
    return read, recipes


def test_its_commands_are_ones_of_each_kind(data):
    read, recipes = read_commands([*MAKE, f"DATA={data}"], ROOT)
    assert sorted(read) == ["backtranslate", "train", "train", "train"]
    alone, back = recipes["alone-1"].data, recipes["backward-1"].data
    assert [Path(file).name for file in alone.train] == ["train.en", "train.de"]
    assert back.train == alone.train[::-1] and back.validation == ("val.de", "val.en")
    genuine, made = recipes["with-1"].data.sources()
    assert genuine.files == alone.train and made.tag == "<bt>"


@pytest.mark.parametrize(
    ("name", "runs"), [("back_translation", "alone backward with"), ("diversify", "teacher student")]
)
def test_folders_may_have_blanks_in_their_names(tmp_path, name, runs):
    folder = tmp_path / "my work"
    folder.mkdir()
    _, recipes = read_commands(["make", "-f", ROOT / "train" / f"{name}.mk", f"RECIPE={MULTI30K}"], folder)
    for run in runs.split():
        files = [file for source in recipes[f"{run}-1"].data.sources() for file in source.files]
        assert files and all(file.startswith(f"{folder}/runs/") for file in files)


@pytest.mark.parametrize("name", ["back_translation", "diversify"])
def test_norwegian_is_no_false(name):
    make = ["make", "-f", f"train/{name}.mk", "SOURCE=no"]
    back = read_commands(make, ROOT)[1]["backward-1"].data
    assert (back.source_language, back.target_language, back.validation) == ("de", "no", ("val.de", "val.no"))


@pytest.mark.parametrize("name", ["back_translation", "diversify"])
def test_an_unfinished_training_goes_on_though_it_has_scores(tmp_path, name):
    """As after `evaluate` of an interrupted run."""
    (tmp_path / "text").mkdir()
    (tmp_path / "backward-1" / "training_state").mkdir(parents=True)
    (tmp_path / "backward-1" / "scores.json").touch()
    words = ["make", "-f", f"train/{name}.mk", "-n", f"OUT={tmp_path}", str(tmp_path / "backward-1" / "scores.json")]

    def trained():
        shown = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        return f"--run-dir {tmp_path / 'backward-1'} " in shown.stdout

    assert trained()
    (tmp_path / "backward-1" / "training_state").rmdir()
    assert not trained()


INTERRUPTED = """#!/bin/bash
while [ "$1" != --run-dir ]; do shift; done
mkdir -p "$2" && touch "$2/scores.json"
read -ra stat < /proc/$$/stat
kill -TERM "${stat[4]}"  # make, which leads the group, and ends what it has started
while kill -0 $PPID; do sleep 0.01; done
"""


@pytest.mark.parametrize(
    ("name", "runs"),
    [("back_translation", "alone backward with"), ("diversify", "forward backward teacher student")],
)
def test_scores_stay_where_make_is_interrupted_just_after_a_training(tmp_path, name, runs):
    """Else the same command would train once more, which a finished training refuses."""
    (tmp_path / "tf-transformer").write_text(INTERRUPTED)
    (tmp_path / "tf-transformer").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for run in runs.split():
        out = tmp_path / run
        for there in "text", "back-1", "diverse", "distilled":
            (out / there).mkdir(parents=True)
        scores = out / f"{run}-1" / "scores.json"
        words = ["make", "-s", "-f", f"train/{name}.mk", f"OUT={out}", str(scores)]
        # A group of its own, whose leader the signal goes to.
        made = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, start_new_session=True)
        assert made.returncode == -signal.SIGTERM, made.stderr
        assert scores.exists(), made.stderr


@pytest.mark.skipif(not shutil.which("shuf"), reason="needs shuf, of GNU's core utilities")
def test_the_text_keeps_each_pair_together_and_leaves_out_one_with_a_tab(tmp_path):
    pairs = [(f"one {number}", f"eins {number}, und noch mehr, damit es reicht") for number in range(40)]
    pairs[7] = ("one\t7", pairs[7][1])
    for split, held in (("train", pairs), ("val", pairs[:1]), ("test", pairs[1:2])):
        for path, side in zip(write_pairs(tmp_path, held), ("en", "de"), strict=True):
            path.rename(tmp_path / f"{split}.{side}")
    text = tmp_path / "out" / "text"
    words = [f"DATA={tmp_path}", f"OUT={tmp_path / 'out'}", "PAIRS=20", str(text)]
    subprocess.run([*MAKE, *words], cwd=ROOT, check=True, capture_output=True)
    source, target, mono = ((text / name).read_text().splitlines() for name in ("train.en", "train.de", "mono.de"))
    without = [pair for number, pair in enumerate(pairs) if number != 7]
    assert len(source) == 20 and set(zip(source, target, strict=True)) <= set(without)
    assert set(target) | set(mono) | {german for _, german in pairs[:2]} == {german for _, german in without}
    assert not set(target) & set(mono)


@pytest.mark.skipif(not shutil.which("shuf"), reason="needs shuf, of GNU's core utilities")
def test_no_line_is_lost_and_none_of_val_and_test_is_text_whatever_wrote_the_files(tmp_path):
    german = [b"eins %d, und noch mehr, damit es reicht" % number for number in range(40)]
    german[7], german[8] = b"a byte \0 of zero", b"T\xfcr in Latin-1"
    (tmp_path / "train.en").write_bytes(b"".join(b"one %d\n" % number for number in range(40)))
    (tmp_path / "train.de").write_bytes(b"".join(line + b"\r\n" for line in german))
    (tmp_path / "val.de").write_bytes(b"\xef\xbb\xbf" + german[0] + b"\n" + german[1])
    (tmp_path / "test.de").write_bytes(german[2] + b"\n")
    text = tmp_path / "out" / "text"
    words = [f"DATA={tmp_path}", f"OUT={tmp_path / 'out'}", "PAIRS=20", str(text)]
    subprocess.run([*MAKE, *words], cwd=ROOT, check=True, capture_output=True)
    kept, mono = ((text / name).read_bytes().splitlines() for name in ("train.de", "mono.de"))
    assert sorted([*kept, *mono]) == sorted(set(german) - (set(german[:3]) - set(kept)))
    assert not set(mono) & set(german[:3])
    assert sorted(os.listdir(text)) == ["mono.de", "train.de", "train.en"]


def test_a_translation_like_the_reference_is_no_further_pair_whatever_wrote_the_files(tmp_path):
    for run in "forward-1", "backward-1":
        (tmp_path / run).mkdir()
        (tmp_path / run / "scores.json").touch()
    (tmp_path / "train.en").write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    (tmp_path / "backward-1.en").write_bytes(b"one\na couple\n")
    (tmp_path / "forward-1.de").write_bytes(b"eins\nzwei\n")
    made = tmp_path / "diverse"
    words = ["make", "-f", "train/diversify.mk", f"DATA={tmp_path}", f"OUT={tmp_path}", "MODELS=1", str(made)]
    assert subprocess.run(words, cwd=ROOT, capture_output=True).returncode  # without train.de
    assert not made.exists()
    (tmp_path / "train.de").write_bytes(b"eins\r\nzwei")
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    assert {path.name: path.read_bytes() for path in made.iterdir()} == {
        "train.en": b"one\ntwo\na couple\n",
        "train.de": b"eins\nzwei\nzwei\n",
    }


@pytest.mark.skipif(not shutil.which("shuf"), reason="needs shuf, of GNU's core utilities")
def test_more_pairs_than_there_are_is_told(data):
    words = [f"DATA={data}", f"OUT={data / 'out'}", "PAIRS=1000", str(data / "out" / "text")]
    made = subprocess.run([*MAKE, *words], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode and "PAIRS=1000 leaves no text" in made.stderr
    assert not (data / "out" / "text").exists()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("shuf"), reason="needs shuf, of GNU's core utilities")
def test_it_ends_with_the_scores_of_both(data, tmp_path):
    changed = settings(data, training__steps=40, training__validate_every=40, evaluation__beam_size=1)
    keep = ("name", "data.root", "data.train", "data.validation", "data.test", "data.kind")
    tiny = " ".join(f"--set {each}" for each in changed if each.split("=")[0] not in keep)
    words = [f"DATA={data}", f"OUT={tmp_path / 'out'}", "PAIRS=12", f"TRAIN={tiny}", "BACK=--beam-size 1"]
    environment = {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    process = subprocess.run([*MAKE, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert process.returncode == 0, process.stderr
    text = tmp_path / "out" / "text"
    kept, mono = ((text / name).read_text().splitlines() for name in ("train.de", "mono.de"))
    assert len(kept) == 12 and not set(kept) & set(mono)
    german = {target for _, target in PAIRS}
    assert set(kept) | set(mono) == german - {target for _, target in PAIRS[:2] if target not in kept}
    for name in "alone-1", "with-1":
        assert "bleu" in json.loads((tmp_path / "out" / name / "scores.json").read_text())
    again = subprocess.run([*MAKE, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert "tf-transformer" not in again.stdout
