"""What the README, the docs and the docstrings say is true."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tf_transformer

ROOT = Path(__file__).parents[1]
FOLDERS = "train", "savedmodels", "serving", "benchmarks"
PAGES = [ROOT / "README.md", *(ROOT / folder / "README.md" for folder in FOLDERS), *ROOT.glob("docs/*.md")]
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(tf_transformer.__path__, "tf_transformer.") if not module.ispkg
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name, monkeypatch):
    monkeypatch.chdir(ROOT)  # some read train/recipes
    module = importlib.import_module(name)
    # An example may use the names of its module without importing them.
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0


@pytest.fixture
def from_python():
    """The README's example of training from Python."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## From Python")[1]
    code = re.search(r"```python\n(.*?)```", section, re.S)[1]
    assert len(code.strip().splitlines()) <= 30
    return code


def run_from_python(code, folder):
    process = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=900)
    assert process.returncode == 0, process.stderr
    assert (folder / "savedmodels" / "from_python" / "1" / "saved_model.pb").is_file()
    return process.stdout


def test_readme_fit_from_python_runs_with_smaller_numbers(from_python, tmp_path):
    for number, smaller in (
        ("steps_per_epoch=100", "steps_per_epoch=2"),
        ("tt.Transformer(2, 128, 4, 512, ", "tt.Transformer(1, 16, 2, 32, max_length=64, "),
    ):
        assert number in from_python
        from_python = from_python.replace(number, smaller)
    run_from_python(from_python, tmp_path)


@pytest.mark.slow
def test_readme_fit_from_python_learns_as_it_stands(from_python, tmp_path):
    # An untrained model's perplexity is about the vocabulary's size, 1,000.
    asking = "\nassert model.evaluate(validation, verbose=0, return_dict=True)['perplexity'] < 200"
    shown = run_from_python(from_python + asking, tmp_path)
    assert shown.splitlines()[-1].strip()  # a translation, whatever one epoch has taught


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_named_files_exist(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
    for target in re.findall(r"`((?:tf_transformer|train|tests|docs|serving|benchmarks)/[\w/.]+)`", text):
        assert (ROOT / target).exists(), target
