"""Argos Translate itself installs packages and translates with them: `make test-argos`.

It finds the ends of sentences with a model that it gets from the network when it first translates. Here a small one is
put where it would look.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.bounded import SECONDS
from tests.export.argos.conftest import TEXTS, engine_of
from tests.export.argos.splitter import write_splitter
from tests.marian.folders import TAGS
from tests.tiny_run import PAIRS
from tf_transformer.experiment import export_run_argos

pytest.importorskip("argostranslate", reason="needs Argos Translate: make test-argos")

# What a user of Argos Translate writes, in a process that knows nothing of this package.
PROGRAM = """
import json, sys
from argostranslate import package, translate
source, target, *packages = sys.argv[1:]
for path in packages:
    package.install_from_path(path)
print(json.dumps({
    "languages": [[language.code, language.name] for language in translate.get_installed_languages()],
    "translations": [translate.translate(text, source, target) for text in json.load(sys.stdin)],
    "pages": [installed.get_readme() for installed in package.get_installed_packages()],
}))
"""


@pytest.fixture
def argos(tmp_path):
    """Runs the program with a home of its own."""
    splitters = tmp_path / "data" / "argos-translate" / "minisbd"
    splitters.mkdir(parents=True)
    for language in "en", "de":
        write_splitter(splitters / f"{language}.onnx")
    home = {f"XDG_{kind.upper()}_HOME": str(tmp_path / kind) for kind in ("data", "config", "cache")}
    # What was rounded would not be compared to the last digit.
    environment = {**os.environ, **home, "HOME": str(tmp_path), "ARGOS_COMPUTE_TYPE": "default"}

    def run(source, target, texts, *packages):
        process = subprocess.run(
            [sys.executable, "-c", PROGRAM, source, target, *map(str, packages)],
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            timeout=SECONDS,
        )
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    return run


def expected(run, path, texts):
    return [text.decode().replace("_", " ") for text in engine_of(run, path)(texts)["translation"].numpy()]


def test_a_run(tiny_run_directory, tmp_path, argos):
    package = export_run_argos(tiny_run_directory, tmp_path / "tiny.argosmodel")
    sources, targets = zip(*PAIRS, strict=True)
    several = ["", f"{sources[0]} {sources[5]}", f"{sources[1]}\n\n{sources[2]} {sources[3]}"]
    found = argos("en", "de", [*sources, *several], package)
    assert found["translations"][: len(PAIRS)] == list(targets)
    assert found["translations"][len(PAIRS) :] == [
        "",
        f"{targets[0]} {targets[5]}",
        f"{targets[1]}\n\n{targets[2]} {targets[3]}",
    ]
    assert found["languages"] == [["en", "English"], ["de", "German"]]
    assert "It translates from en to de." in found["pages"][0]


def test_an_imported_model_and_one_with_tags(separate, multilingual, tmp_path, argos):
    """English to German and German to Dutch, by which Argos Translate also gets from English to Dutch."""
    packages = [
        export_run_argos(separate, tmp_path / "first.argosmodel"),
        export_run_argos(multilingual, tmp_path / "second.argosmodel", languages=("de", "nl"), tag=TAGS[1]),
    ]
    texts = [text for text in TEXTS if "\u00a0" not in text]
    assert argos("en", "de", texts, *packages)["translations"] == expected(separate, tmp_path / "ct2", texts)
    tagged = expected(multilingual, tmp_path / "ct2_tags", [f"{TAGS[1]} {text}" for text in texts])
    assert argos("de", "nl", texts)["translations"] == tagged
    found = argos("en", "nl", texts)
    assert all(found["translations"])
    assert [code for code, _ in found["languages"]] == ["en", "nl", "de"]
