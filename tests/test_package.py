"""The package as a whole: light to import, and every public name there."""

import importlib
import importlib.metadata
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

import tf_transformer
from tests.bounded import SECONDS
from tests.recipe.recipes import DEMO

ROOT = Path(__file__).parents[1]
WITHOUT_PUBLIC_NAMES = {"apache_beam", "commands", "files", "model_card", "server", "session", "shards", "terminal"}
SUBPACKAGES = [
    each.name
    for each in pkgutil.iter_modules(tf_transformer.__path__)
    if each.ispkg and each.name not in WITHOUT_PUBLIC_NAMES
]


def test_importing_it_loads_nothing_heavy():
    loaded = subprocess.run(
        [sys.executable, "-c", "import json, sys, tf_transformer; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        check=True,
        timeout=SECONDS,
    ).stdout
    packages = {name.partition(".")[0] for name in json.loads(loaded)}
    assert "tf_transformer" in packages
    assert not packages & {"tensorflow", "keras", "numpy", "matplotlib", "sentencepiece", "sacrebleu", "pydantic"}


@pytest.mark.parametrize("package", [None, *SUBPACKAGES])
def test_every_public_name_is_there(package):
    module = importlib.import_module(f"tf_transformer.{package}" if package else "tf_transformer")
    assert module.__all__
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        public = getattr(module, name)
        assert public is not None
        if inspect.isclass(public) or inspect.isfunction(public):
            assert public.__module__.startswith("tf_transformer.")
            assert public.__name__ == name
            assert public.__doc__, f"{name} has no docstring"


def test_subpackages_are_reached_without_an_import_of_their_own():
    asked = "import tf_transformer as tt; print(tt.inspection.inspect.__name__, tt.tensorboard.show.__name__)"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True, text=True, timeout=SECONDS)
    assert told.stdout.split() == ["inspect", "show"]


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="Transformerr"):
        tf_transformer.Transformerr  # noqa: B018


def test_the_version_is_the_installed_one():
    assert importlib.metadata.version("tf_transformer") == tf_transformer.__version__


# -- what is released ----


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The names in the source distribution and in the wheel, and the wheel installed in a folder of its own."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True, timeout=SECONDS)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(source) as archive:
        top = source.name.removesuffix(".tar.gz")
        in_source = {name.removeprefix(f"{top}/") for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
        archive.extractall(folder / "installed")
    return in_source, in_wheel, folder / "installed"


def test_the_distributions_hold_all_of_the_package_and_nothing_else(distributions):
    in_source, in_wheel, _ = distributions
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    files = {name for name in tracked.stdout.splitlines() if (ROOT / name).exists()}
    package = {name for name in files if name.startswith("tf_transformer/") and not (ROOT / name).is_symlink()}
    package |= {f"tf_transformer/{name}" for name in files if name.startswith("train/") and name.endswith(".yaml")}
    information = f"tf_transformer-{tf_transformer.__version__}.dist-info/"
    assert {name for name in in_wheel if not name.startswith(information)} == package
    assert f"{information}licenses/LICENSE" in in_wheel
    assert package <= in_source
    assert {"README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md"} <= in_source
    assert not [name for name in in_source if name.startswith(("tests", "docs", "benchmarks", "runs", "savedmodels"))]


def run_installed(installed, folder, *words, timeout=SECONDS):
    """Runs the installed wheel's command in a folder without a checkout."""
    code = "import sys; from tf_transformer.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout)


def test_the_installed_command_has_its_files(distributions, tmp_path):
    *_, installed = distributions
    version = run_installed(installed, tmp_path, "--version")
    assert (version.returncode, version.stdout.split()[-1]) == (0, tf_transformer.__version__)
    written = run_installed(installed, tmp_path, "recipes")
    assert written.returncode == 0
    assert (tmp_path / "train" / "recipes" / "demo.yaml").read_bytes() == DEMO.read_bytes()


@pytest.mark.slow
def test_the_demo_and_the_tab_of_the_installed_package(distributions, tmp_path):
    *_, installed = distributions
    demo = run_installed(installed, tmp_path, "demo", timeout=1200)
    assert demo.returncode == 0, demo.stderr
    assert float(re.findall(r"BLEU +(\d+\.\d+)", demo.stdout)[-1]) > 90  # those before are of the training
    exported = tmp_path / "savedmodels" / "demo" / "1"
    sentence = tmp_path / "sentence.en"
    sentence.write_text("The old man reads a book.\n", encoding="utf-8")
    translated = run_installed(installed, tmp_path, "translate", exported, sentence)
    assert translated.stdout == "Der alte Mann liest ein Buch.\n"
    seen = run_installed(installed, tmp_path, "inspect", exported, "The old man reads.", "--html", "seen.html")
    assert seen.returncode == 0 and (tmp_path / "seen.html").stat().st_size > 10_000
    # TensorBoard finds the tab, and the tab its files, where only the wheel is.
    asked = (
        "import tf_transformer.tensorboard.plugin as plugin; from importlib.metadata import entry_points; "
        "(tab,) = [e.load() for e in entry_points(group='tensorboard_plugins') if e.name == 'attention']; "
        "print(tab is plugin.AttentionPlugin, plugin.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    found = subprocess.run(
        [sys.executable, "-c", asked], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["True", str(installed / "tf_transformer" / "tensorboard" / "plugin.py")]


def test_the_metadata_say_one_thing():
    metadata = importlib.metadata.metadata("tf_transformer")
    assert metadata["License-Expression"] == "Apache-2.0"
    supported = re.findall(
        r"^Programming Language :: Python :: (3\.\d+)$", "\n".join(metadata.get_all("Classifier")), re.M
    )
    allowed = [
        f"3.{minor}" for minor in range(30) if SpecifierSet(metadata["Requires-Python"]).contains(f"3.{minor}.1")
    ]
    assert supported == allowed
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (tf_transformer.__version__, "Apache-2.0")
