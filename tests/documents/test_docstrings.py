"""Every public class and function has an example, and it runs."""

import doctest
import importlib
import inspect
from contextlib import nullcontext

import pytest

from tests.documents.reading import ROOT
from tests.test_package import SUBPACKAGES

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
        *("inspection.aligning", "inspection.sentence"),
        *("tensorboard.board", "tensorboard.page", "training.data_wait"),
    )
}
# To run eagerly what these show takes less time than to trace it, which tests of their own do.
EAGER = {
    f"tf_transformer.{name}"
    for name in (
        *("decoding.beam", "decoding.single", "parsing.parser", "tensorboard.samples"),
        *("training.averaged_weights", "training.pace", "training.step_count"),
        *("translation.loading", "translation.translator"),
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
    from tests.eager import eagerly

    monkeypatch.chdir(ROOT)  # some read train/recipes
    module = importlib.import_module(name)
    # An example may use the names of its module without importing them.
    with eagerly() if name in EAGER else nullcontext():
        failed, attempted = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert attempted and failed == 0
