"""What the command says of itself, and to a mistyped one."""

import json
import os
import subprocess
import time

import pytest

import tf_transformer
from tests.bounded import SECONDS
from tests.cli.command import COMMAND
from tf_transformer.models.presets import PRESETS


def test_help_answers_without_tensorflow():
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    process = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, env=environment, timeout=SECONDS)
    print(f"tf-transformer --help: {time.perf_counter() - began:.2f} s")
    assert process.returncode == 0
    commands = (
        "train prepare filter sweep evaluate translate parse score-trees average import export serve inspect card "
        "presets"
    )
    for name in (*commands.split(), "backtranslate", "recipes", "demo"):
        assert f" {name} " in process.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in process.stderr.splitlines()}
    assert "tf_transformer" in imported
    assert not imported & {"tensorflow", "keras", "numpy", "pydantic"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("train", "recipe --set --run-dir --json"),
        ("prepare", "recipe --set --run-dir"),
        (
            "evaluate",
            "model... --source --reference --trees --lowercase --tokenize --perturb --beam-size --alpha --grammar "
            "--no-grammar --engine --batch-size --json",
        ),
        (
            "translate",
            "model... [file] --beam-size --alpha --nbest --min-length --max-length --temperature --top-k --top-p "
            "--seed --replace-unknown --protect --glossary --alignments --cut --paragraphs --engine --batch-size "
            "--json --interactive --shards --shard-lines --job --output",
        ),
        (
            "filter",
            "source target --output --unit --min-length --max-length --max-ratio --max-overlap --max-repeats "
            "--source-script --target-script --min-script --duplicates --dropped --json",
        ),
        ("sweep", "sweep --run-dir --json"),
        (
            "backtranslate",
            "model monolingual out --method --beam-size --alpha --top-k --seed --min-score --unit --min-length "
            "--max-length --max-ratio --max-overlap --max-repeats --source-script --target-script --min-script "
            "--duplicates --engine --batch-size --shard-lines --job --json",
        ),
        ("parse", "model [file] --beam-size --alpha --grammar --no-grammar --pretty --html --png --batch-size"),
        ("score-trees", "gold predicted --json"),
        ("export", "run... dest --format --beam-size --alpha --float16 --quantization"),
        ("average", "run --last"),
        ("import", "folder run --source-language --target-language"),
        (
            "serve",
            "model... --host --port --api-key --log-texts --deadline --queue --batch-tokens --max-body --max-texts "
            "--max-characters",
        ),
        ("inspect", "model --logdir --html --png"),
        ("presets", "--json"),
        ("card", "model --json"),
        ("recipes", "[folder]"),
        ("demo", ""),
    ],
)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_each_command(command, name, options, flag):
    outcome = command(name, flag)
    assert (outcome.status, outcome.err) == (0, "")
    for option in ("usage:", name, *options.split()):
        assert option in outcome.out.decode().lower()


def test_version(command):
    assert command("--version") == (0, f"tf-transformer {tf_transformer.__version__}\n".encode(), "")


def test_presets_as_json(command):
    outcome = command("presets", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    presets = {preset["name"]: preset for preset in json.loads(outcome.out)}
    assert set(presets) == set(PRESETS)
    for name, preset in presets.items():
        assert (preset["model"], preset["parameters"]) == (PRESETS[name].model, PRESETS[name].parameters)
    assert presets["big"]["model"]["d_model"] == 1024
    figures = {key: presets["big"][key] for key in ("steps", "perplexity", "bleu", "paper_millions")}
    assert figures == {"steps": 300_000, "perplexity": 4.33, "bleu": 26.4, "paper_millions": 213}
    assert presets["table3_d_smoothing20"]["label_smoothing"] == 0.2


def test_presets_as_a_table(command):
    outcome = command("presets")
    assert outcome.status == 0
    rows = [" ".join(line.split()) for line in outcome.lines]
    for row in (
        "base 6 512 2048 8 64 64 0.1 0.1 100K 63,082,496 65 M 4.92 25.8",
        "table3_b_dk16 6 512 2048 8 16 64 0.1 0.1 100K 55,990,784 58 M 5.16 25.1",
        "table3_d_dropout0 6 512 2048 8 64 64 0.0 0.1 100K 63,082,496 5.77 24.6",  # the paper has no count here
    ):
        assert row in rows
    assert {row.split()[0] for row in rows if row} >= set(PRESETS)


@pytest.mark.parametrize(
    "words",
    [
        ["trian"],
        ["train"],
        ["translate", ".", "--beam"],
        ["translate", ".", "--batch-size", "0"],
        ["translate", ".", "--beam-size", "0"],
        ["translate", ".", "--nbest", "0"],
        ["translate", ".", "--alpha", "-0.1"],
        ["translate", ".", "--alpha", "nan"],
        ["translate", ".", "--min-length", "0"],
        ["translate", ".", "--max-length", "0"],
        ["translate", ".", "--temperature", "hot"],
        ["translate", ".", "--top-k", "-1"],
        ["translate", ".", "--seed", str(2**31)],
        ["parse", ".", "--batch-size", "0"],
        ["score-trees", "a"],
    ],
)
def test_a_mistyped_command_is_status_2(command, words):
    outcome = command(*words)
    assert (outcome.status, outcome.out) == (2, b"")
    assert "Usage:" in outcome.err
    assert "Traceback" not in outcome.err
