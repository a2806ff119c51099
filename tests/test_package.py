"""The package as a whole: light to import, and every public name there."""

import importlib
import importlib.metadata
import inspect
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import tf_transformer

WITHOUT_PUBLIC_NAMES = {"commands", "files"}
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
        timeout=60,
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
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True, text=True, timeout=120)
    assert told.stdout.split() == ["inspect", "show"]


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="Transformerr"):
        tf_transformer.Transformerr  # noqa: B018


def test_the_version_is_the_installed_one():
    assert importlib.metadata.version("tf_transformer") == tf_transformer.__version__


def test_an_installed_package_has_what_its_commands_read(tmp_path):
    """What lies beside the modules; a package that is installed has no checkout around it."""
    root = Path(tf_transformer.__file__).parents[1]
    command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "--quiet"]
    subprocess.run([*command, "build", "--build-base", tmp_path / "build"], cwd=root, check=True, timeout=120)
    built = tmp_path / "build" / "lib" / "tf_transformer"
    assert (built / "demo.yaml").read_bytes() == (root / "train" / "recipes" / "demo.yaml").read_bytes()
    assert not (built / "demo.yaml").is_symlink()
    for folder in (root / "tf_transformer", built):
        assert (folder / "tensorboard" / "static" / "index.js").is_file()
