"""`backtranslate`: two aligned files and a manifest, whole or not at all, whoever breaks it off.

The tiny model translates what it knows by heart, so that each pair is known: its English sentence on the target's side,
its German one on the source's.
"""

import gzip
import hashlib
import json
import random
import signal
import subprocess
import sys
from dataclasses import asdict

import pytest

from tests.bounded import SECONDS
from tests.cli.command import LIMITS, assert_mistake, contents, typed
from tests.tiny_run import MAX_LENGTH, PAIRS, RECIPE, settings, write_pairs
from tf_transformer.data.noise import FILLER, Noise
from tf_transformer.experiment import export_run_ctranslate2
from tf_transformer.experiment.corpus import open_source
from tf_transformer.recipe import load_recipe

pytestmark = pytest.mark.usefixtures("loaded_once")

TOO_LONG = "house " * 2 * MAX_LENGTH
SPOILT = [("", "empty"), (PAIRS[3][0], "duplicate"), (TOO_LONG, "truncated"), ("A man\x07 sleeps.", "damaged")]


@pytest.fixture(scope="module")
def monolingual(tmp_path_factory):
    """All English sentences, with some lines among them that make no pair."""
    lines = [english for english, _ in PAIRS]
    for place, (line, _) in zip((2, 9, 12, 15), SPOILT, strict=True):
        lines.insert(place, line)
    file = tmp_path_factory.mktemp("monolingual") / "mono.en"
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return file


def sides(out):
    """Both files, line by line, beside each other."""
    files = [(out / name).read_text(encoding="utf-8").split("\n") for name in ("source.txt", "target.txt")]
    assert [file.pop() for file in files] == ["", ""]
    return list(zip(*files, strict=True))


EXPECTED = [(german, english) for english, german in PAIRS]


def test_pairs_counts_and_manifest(command, tiny_saved_model, monolingual, tmp_path):
    out = tmp_path / "back"
    words = ["backtranslate", tiny_saved_model, monolingual, out, "--shard-lines", 5]
    outcome = command(*words, "--json")
    assert outcome.status == 0
    assert sides(out) == EXPECTED
    counts = {
        "pairs": 28,
        "kept": 24,
        "dropped": {reason: 1 for _, reason in sorted(SPOILT, key=lambda s: s[1] != "truncated")},
    }
    found = json.loads(outcome.out)
    assert {key: found[key] for key in counts} == counts
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["result"]["pairs"] == counts
    for name, checksum in manifest["result"]["sha256"].items():
        assert checksum == hashlib.sha256((out / name).read_bytes()).hexdigest()
    assert (manifest["source"]["lines"], manifest["filters"]["max_ratio"]) == (28, 3)
    assert manifest["options"] == {"json": True}
    assert sorted(contents(out)) == ["manifest.json", "source.txt", "target.txt"]
    assert len(list((tmp_path / "back.shards").glob("*.txt"))) == 6 and not list(tmp_path.rglob(".*"))
    # Its shards hold more than translations, and are not taken for those.
    plain = ["translate", tiny_saved_model, monolingual, "--shards", tmp_path / "back.shards", "--shard-lines", 5]
    assert_mistake(command(*plain), "another command, which differs in options.json (True there, None here)")
    # Again it does nothing, and says the same.
    before = contents(tmp_path)
    again = command(*words)
    assert again.status == 0 and again.lines[-1].endswith("24 kept of 28 (85.7%)")
    assert "data.train" in again.err and contents(tmp_path) == before
    # With other filters the translations are not made again.
    (out / "source.txt").rename(tmp_path / "old")
    for file in out.iterdir():
        file.unlink()
    out.rmdir()
    other = command(*words, "--max-length", 5)
    assert other.status == 0 and "shard" not in other.err
    assert sides(out) == [pair for pair in EXPECTED if max(len(side.split()) for side in pair) <= 5]


@pytest.mark.thorough
def test_files_whose_names_are_not_utf_8(command, tiny_saved_model, monolingual, tmp_path):
    file, out = tmp_path / "m\udcf6no.en", tmp_path / "zur\udcfcck"
    file.write_bytes(monolingual.read_bytes())
    for _ in range(2):  # the second time they are there
        outcome = command("backtranslate", tiny_saved_model, file, out, "--json")
        assert outcome.status == 0 and sides(out) == EXPECTED
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["source"]["path"] == str(file)


def test_a_recipe_takes_the_pairs(command, tiny_saved_model, monolingual, tmp_path, monkeypatch):
    """What is printed goes into a recipe as it is, wherever the recipe's data are."""
    write_pairs(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    outcome = command("backtranslate", tiny_saved_model, monolingual, "back")
    assert outcome.status == 0
    entry = " ".join(outcome.err.split()).partition("of a recipe: ")[2]
    train = f"[{{files: [pairs.de, pairs.en]}}, {entry}]"
    recipe = load_recipe(RECIPE, settings(tmp_path, data__train=train))
    assert list(open_source(recipe, "train")) == EXPECTED + [
        (f"<bt> {german}", english) for german, english in EXPECTED
    ]


def test_low_scores_are_dropped(command, tiny_saved_model, monolingual, tmp_path):
    """Beside what `translate --json` tells. All limits of what is left reach the filters."""
    rows = [json.loads(line) for line in command("translate", tiny_saved_model, monolingual, "--json", "--cut").lines]
    scores = sorted(row["score"] for row in rows if not row["truncated"])
    least = (scores[9] + scores[10]) / 2
    words = ["backtranslate", tiny_saved_model, monolingual, tmp_path / "back"]
    outcome = command(*words, "--min-score", least, *typed(LIMITS), "--json")
    assert json.loads(outcome.out)["dropped"]["low_score"] == 10
    manifest = json.loads((tmp_path / "back" / "manifest.json").read_text())
    assert manifest["filters"] == {**LIMITS, "min_score": least}


def test_noised_beam_is_noise_on_the_beam_s_translations(command, tiny_saved_model, monolingual, tmp_path):
    words = ["backtranslate", tiny_saved_model, monolingual]
    for out, seed in ("first", 1), ("again", 1), ("other", 2):
        options = ["--method", "noised-beam", "--seed", seed]
        assert command(*words, tmp_path / out, *options).status == 0
    first, again, other = (sides(tmp_path / out) for out in ("first", "again", "other"))
    assert first == again != other
    assert [target for _, target in first] == [english for _, english in EXPECTED]
    changed = 0
    for (source, _), (german, _) in zip(first, EXPECTED, strict=True):
        left = [word for word in source.split() if word != FILLER]
        assert len(source.split()) <= len(german.split()) and set(left) <= set(german.split())
        changed += source != german
    assert changed > len(EXPECTED) / 2
    manifest = json.loads((tmp_path / "first" / "manifest.json").read_text())
    assert manifest["noise"] == asdict(Noise(drop=0.1, fill=0.1, swap=3, seed=1))
    # Its translations are the beam's, which need not be made again.
    (tmp_path / "first.shards").rename(tmp_path / "plain.shards")
    outcome = command(*words, tmp_path / "plain")
    assert (outcome.status, "shard" in outcome.err) == (0, False) and sides(tmp_path / "plain") == EXPECTED


@pytest.mark.thorough
def test_sampling_and_many_jobs(command, tiny_saved_model, monolingual, tmp_path):
    packed = tmp_path / "mono.gz"
    packed.write_bytes(gzip.compress(monolingual.read_bytes()))
    words = ["backtranslate", tiny_saved_model, packed, tmp_path / "back", "--shard-lines", 10]
    words += ["--method", "sampling", "--seed", 3]
    assert command(*words, "--job", "1/2").err.splitlines()[-1] == "2 of 3 shards are left to other jobs"
    assert not (tmp_path / "back").exists()
    assert command(*words, "--job", "0/2").status == 0
    manifest = json.loads((tmp_path / "back" / "manifest.json").read_text())
    assert manifest["options"] == {"temperature": 1.0, "seed": 3, "json": True}
    sampled = command("translate", tiny_saved_model, packed, "--temperature", 1, "--seed", 3, "--cut").lines
    assert {source for source, _ in sides(tmp_path / "back")} <= set(sampled)


def test_with_ctranslate2(command, tiny_run_directory, monolingual, tmp_path):
    pytest.importorskip("ctranslate2", reason="needs CTranslate2: pip install -e '.[ctranslate2]'")
    model = export_run_ctranslate2(tiny_run_directory, tmp_path / "model")
    words = ["backtranslate", model, monolingual, tmp_path / "back", "--engine", "ctranslate2"]
    assert command(*words).status == 0
    assert sides(tmp_path / "back") == EXPECTED


@pytest.mark.parametrize(
    ("number", "where"),
    [(3, "half"), pytest.param(0, "folder", marks=pytest.mark.thorough)],
    ids=["a shard", "the pairs"],
)
def test_killed_the_same_command_ends_with_the_very_files(command, tiny_saved_model, tmp_path, number, where):
    file = tmp_path / "mono.en"
    lines = random.Random(4).choices(PAIRS, k=300)
    file.write_text("".join(f"{english}\n" for english, _ in lines))
    words = ["backtranslate", tiny_saved_model, file, tmp_path / "back", "--shard-lines", 100, "--duplicates"]
    words = [*map(str, words)]
    program = [sys.executable, "-m", "tests.shards.killed", str(number), where, *words]
    process = subprocess.run(program, capture_output=True, timeout=SECONDS)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not (tmp_path / "back").exists()
    assert len(list((tmp_path / "back.shards").glob("*.txt"))) == (1 if where == "half" else 3)
    outcome = command(*words)
    assert outcome.status == 0, outcome.err
    assert sides(tmp_path / "back") == [(german, english) for english, german in lines]


# What a person can do wrong


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["{}/none.en", "{}/o"], ["{}/none.en does not exist"]),
        (["{}/empty.txt", "{}/o"], ["no sentences in {}/empty.txt: give a file that holds at least one"]),
        (["{}/latin.de", "{}/o"], ["{}/latin.de, line 3: not valid UTF-8"]),
        (["{}/pairs.en", "{}/run"], ["{}/run: already exists, holds no back-translation"]),
        (["{}/pairs.en", "{}/o", "--method", "diverse"], ["--method is diverse", "noised-beam"]),
        (["{}/pairs.en", "{}/o", "--seed", "1"], ["--seed has no effect with --method beam"]),
        (["{}/pairs.en", "{}/o", "--method", "sampling", "--alpha", "1"], ["--alpha has no effect"]),
        (["{}/pairs.en", "{}/o", "--method", "noised-beam", "--top-k", "5"], ["--top-k has no effect"]),
        (["{}/pairs.en", "{}/o", "--job", "2/2"], ["--job is 2/2"]),
        (["{}/pairs.en", "{}/o", "--source-script", "German"], ["Unicode has no script called German"]),
    ],
    ids=str,
)
def test_a_mistake_is_told_before_the_model_is_loaded(command, mistakes, words, told, monkeypatch):
    before = contents(mistakes)
    words = [word.replace("{}", str(mistakes)) for word in words]
    monkeypatch.setattr("tf_transformer.translation.loading.load_translate", lambda *arguments: 1 / 0)
    outcome = command("backtranslate", mistakes / "versions" / "3", *words)
    assert_mistake(outcome, *(text.replace("{}", str(mistakes)) for text in told))
    assert contents(mistakes) == before


def test_another_command_is_refused(command, tiny_saved_model, monolingual, tmp_path):
    words = ["backtranslate", tiny_saved_model, monolingual, tmp_path / "back"]
    assert command(*words, "--beam-size", 1).status == 0
    before = contents(tmp_path)
    told = [
        "back/manifest.json: this back-translation is from another command",
        "filters.max_ratio (3.0 there, 2.0 here)",
    ]
    assert_mistake(command(*words, "--beam-size", 1, "--max-ratio", 2), *told)
    (tmp_path / "back").rename(tmp_path / "elsewhere")
    assert_mistake(
        command(*words), "back.shards/manifest.json: these shards are from another command", "options.beam_size"
    )
    assert {name.replace("elsewhere", "back"): content for name, content in contents(tmp_path).items()} == before


def test_a_damaged_shard_is_told(command, tiny_saved_model, monolingual, tmp_path):
    words = ["backtranslate", tiny_saved_model, monolingual, tmp_path / "back"]
    assert command(*words).status == 0
    (tmp_path / "back").rename(tmp_path / "elsewhere")
    shard = tmp_path / "back.shards" / "00000.txt"
    shard.write_bytes(shard.read_bytes().replace(b"{", b"[", 1))
    assert_mistake(command(*words), f"{shard}: damaged, not lines of JSON; remove it")
    assert not (tmp_path / "back").exists()
