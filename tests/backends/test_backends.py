"""The core is the same model on each of Keras's backends, and `fit` takes the same step there.

Each backend runs `program.py` in a process of its own; TensorFlow's figures, which other tests hold to NumPy's, are the
measure of the others'.
"""

import functools
import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.backends.program import ARGUMENTS, LABELS, SOURCE, TARGET
from tf_transformer import load_model

pytestmark = pytest.mark.slow  # each backend is a process that starts and compiles again

# On the CPU; what JAX compiles here runs once.
ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "CUDA_VISIBLE_DEVICES": ""}
FIGURES = {"loss", "perplexity", "accuracy", "tokens"}


@pytest.fixture(scope="session")
def run_on(tmp_path_factory):
    """Runs the program on a backend, once; skips the test where that is not installed."""

    @functools.cache
    def run(backend):
        file = tmp_path_factory.mktemp(backend) / "figures.npz"
        done = subprocess.run(
            [sys.executable, "-m", "tests.backends.program", file],
            env={**os.environ, **ENVIRONMENT, "KERAS_BACKEND": backend},
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        with np.load(file) as arrays:
            figures = {name: array if array.ndim else array.item() for name, array in arrays.items()}
        return {**figures, "saved": f"{file}.keras"}

    def run_where_installed(backend):
        if importlib.util.find_spec(backend) is None:
            pytest.skip(f"needs {backend}, which is not installed here: pip install -e '.[{backend}]'")
        return run(backend)

    return run_where_installed


@pytest.fixture(scope="module")
def tensorflow(run_on):
    return run_on("tensorflow")


@pytest.fixture(scope="module", params=["jax", "torch"])
def other(request, run_on):
    return run_on(request.param)


@pytest.fixture(scope="module", params=["tensorflow", "jax", "torch"])
def each(request, run_on):
    outcome = run_on(request.param)
    assert outcome["backend"] == request.param
    return outcome


def part(outcome, case):
    """One case's arrays, by the rest of their names."""
    prefix = case + "/"
    return {name.removeprefix(prefix): value for name, value in outcome.items() if name.startswith(prefix)}


def assert_equal(one, other, atol):
    assert one.keys() == other.keys() and one
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize("case", ARGUMENTS)
def test_the_same_weights_give_the_same_logits(other, tensorflow, case):
    """Of padding too: its rows may attend to nothing, and are finite."""
    logits = other[f"{case}/logits"]
    assert np.isfinite(logits).all() and np.abs(logits).max() > 1
    np.testing.assert_allclose(logits, tensorflow[f"{case}/logits"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("positions", "case"), [("learned positions", "target"), ("sinusoids", "all")])
def test_in_a_functional_model_of_unknown_lengths_it_is_the_same(each, positions, case):
    np.testing.assert_allclose(each[f"functional/{positions}"], each[f"{case}/logits"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", ARGUMENTS)
def test_fit_and_evaluate_tell_the_same_and_take_the_same_step(other, tensorflow, case):
    for call in ("evaluate", "fit"):
        figures = part(other, f"{case}/{call}")
        assert figures.keys() == FIGURES
        assert figures == pytest.approx(part(tensorflow, f"{case}/{call}"), rel=1e-5)
    assert part(other, f"{case}/fit")["tokens"] == np.count_nonzero(LABELS)
    assert_equal(part(other, f"{case}/weights"), part(tensorflow, f"{case}/weights"), atol=1e-5)


@pytest.mark.parametrize(("case", "plain"), [("target", "plain"), ("added", "plain, added")])
def test_a_step_without_logits_is_the_step_over_them(each, case, plain):
    """The loss that projects, and Keras's own step with the same loss on logits; also with what a layer adds to it."""
    assert_equal(part(each, f"{case}/weights"), part(each, f"{plain}/weights"), atol=1e-5)
    for call in ("evaluate", "fit"):
        assert part(each, f"{case}/{call}") == pytest.approx(part(each, f"{plain}/{call}"), rel=1e-5)
    assert abs(each["added/fit/loss"] - each["target/fit/loss"] / 2) > 0.01


def test_r_drop_without_dropout_is_the_usual_step(each):
    """Both predictions of a sentence are then one."""
    assert_equal(part(each, "all/weights"), part(each, "no dropout/weights"), atol=1e-5)
    assert part(each, "no dropout/fit") == pytest.approx(part(each, "all/fit"), rel=1e-5)


@pytest.mark.parametrize("kind", ["single", "r_drop"])
def test_the_projected_loss_and_its_gradients_are_the_formulas(each, kind):
    """In chunks, against the backend's own differentiation of the whole."""
    formula = part(each, f"formula/{kind}")
    assert formula.keys() == {"value", "states", "embeddings"}
    assert all(np.abs(value).max() > 0.1 for value in formula.values())
    assert_equal(part(each, f"projected/{kind}"), formula, atol=2e-5)


def test_with_dropout_and_r_drop_in_mixed_bfloat16_it_learns(each):
    losses = each["learning"]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.5 * losses[0]


def test_a_step_whose_update_loss_scaling_leaves_out_is_counted(each):
    np.testing.assert_array_equal(each["steps"], [3, 2])


def test_a_model_saved_there_is_the_same_under_tensorflow(other):
    """And so can be exported."""
    logits = load_model(other["saved"])((SOURCE, TARGET))
    np.testing.assert_allclose(np.asarray(logits, "float32"), other["learned/logits"], rtol=0.02, atol=0.05)


def test_greedy_search_finds_the_same_translations(run_on, tensorflow):
    found = run_on("torch")["translations"]
    assert found.any()
    np.testing.assert_array_equal(found, tensorflow["translations"])


def test_parts_are_refused_in_words(other, tensorflow):
    message = "gradient_accumulation and parallel_parts need Keras's TensorFlow backend; set them to 1"
    assert list(other["refusals"]) == [message, message]
    assert list(tensorflow["refusals"]) == ["", ""]


def test_the_core_does_not_load_tensorflow(other):
    assert not other["tensorflow is loaded"]
