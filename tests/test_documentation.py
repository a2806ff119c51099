"""What the README, the docs and the docstrings say is true."""

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_package import SUBPACKAGES

ROOT = Path(__file__).parents[1]
FOLDERS = "train", "savedmodels", "serving", "benchmarks"
PAGES = [ROOT / "README.md", *(ROOT / folder / "README.md" for folder in FOLDERS), *ROOT.glob("docs/*.md")]
PAGES += ROOT.glob("docs/tutorials/*.md")
# Found without importing them: TensorFlow is loaded by the tests that need it.
WITH_EXAMPLES = sorted(
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for file in (ROOT / "tf_transformer").rglob("*.py")
    if ">>>" in file.read_text(encoding="utf-8")
)
# These train a model or export one, as tests of their own do: `make test-slow` runs them.
LONG = {
    f"tf_transformer.{name}"
    for name in (
        *("experiment.exporting", "experiment.runner", "experiment.scoring", "export.saved_model"),
        *("inspection.pharaoh", "inspection.sentence"),
        *("tensorboard.board", "tensorboard.page", "training.data_wait"),
    )
}


@pytest.mark.parametrize("package", [None, *SUBPACKAGES])
def test_every_public_class_and_function_has_an_example(package):
    module = importlib.import_module(f"tf_transformer.{package}" if package else "tf_transformer")
    public = {name: getattr(module, name) for name in module.__all__}
    documented = {name: what for name, what in public.items() if inspect.isclass(what) or inspect.isfunction(what)}
    assert documented
    assert not [name for name, what in documented.items() if ">>>" not in what.__doc__]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in WITH_EXAMPLES]
)
def test_examples_of_docstrings(name, monkeypatch):
    monkeypatch.chdir(ROOT)  # some read train/recipes
    module = importlib.import_module(name)
    # An example may use the names of its module without importing them.
    failed, attempted = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert attempted and failed == 0


@pytest.fixture
def from_python():
    """The example of training from Python."""
    page = (ROOT / "docs" / "from_python.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.S)[1]
    assert len(code.strip().splitlines()) <= 30
    return code


def run_from_python(code, folder):
    process = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=900)
    assert process.returncode == 0, process.stderr
    assert (folder / "savedmodels" / "from_python" / "1" / "saved_model.pb").is_file()
    return process.stdout


@pytest.mark.slow
def test_fit_from_python_learns_as_it_stands(from_python, tmp_path):
    # An untrained model's perplexity is about the vocabulary's size, 1,000.
    asking = "\nassert model.evaluate(validation, verbose=0, return_dict=True)['perplexity'] < 200"
    shown = run_from_python(from_python + asking, tmp_path)
    assert shown.splitlines()[-1].strip()  # a translation, whatever one epoch has taught


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_named_files_exist(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"`[^`\n]*`", "", text)):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
    for target in re.findall(r"`((?:tf_transformer|train|tests|docs|serving|benchmarks)/[\w/.]+)`", text):
        assert (ROOT / target).exists(), target
