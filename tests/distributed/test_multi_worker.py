"""Several workers take the same steps as one process with the whole batch."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.distributed import worker
from tests.distributed.workers import workers
from tf_transformer import UserError, experiment, make_strategy
from tf_transformer.distributed.launcher import worker_configs
from tf_transformer.distributed.multi_worker import (
    MultiWorkerStrategy,
    reduced_axis,
    telling_lost_workers,
    worker_share,
)
from tf_transformer.experiment import runner


def run(folder, number, cases):
    """What each of so many workers found."""
    files = [folder / f"{index}.npz" for index in range(number)]
    with workers([[sys.executable, "-m", "tests.distributed.worker", file, *cases] for file in files]) as started:
        ended = [each.ends() for each in started]
    assert [status for status, _ in ended] == [0] * number, "\n".join(told for _, told in ended)
    found = []
    for file in files:
        with np.load(file) as arrays:
            found.append({name: array if array.ndim else array.item() for name, array in arrays.items()})
    return found


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return run(tmp_path_factory.mktemp("two"), 2, ["sgd"])


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    return run(tmp_path_factory.mktemp("four"), 4, ["sgd", "adam", "parts"])


@pytest.fixture(scope="module")
def alone():
    """The same training in this process, on one device."""
    return dict(worker.outcome(make_strategy("single"), ["sgd"]))


@pytest.fixture(scope="module")
def adam_alone():
    return dict(worker.outcome(make_strategy("single"), ["adam"]))


def part(found, prefix):
    chosen = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    assert chosen
    return chosen


def assert_near(one, other, atol):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=0, atol=atol, err_msg=name)


def check_against_one_process(found, alone, case):
    for each in found:
        if case == "sgd":
            assert_near(part(each, "sgd/weights/"), part(alone, "sgd/weights/"), atol=1e-5)
        else:  # not each weight: the gradient of the keys' biases is 0 but for rounding, which this epsilon blows up
            assert_near(part(each, "adam/logits/"), part(alone, "adam/logits/"), atol=1e-4)
        figures = part(each, f"{case}/figures/")
        assert {"loss", "perplexity", "accuracy", "tokens", "val_loss", "val_perplexity"} <= figures.keys()
        assert figures == pytest.approx(part(alone, f"{case}/figures/"), rel=1e-4)


def check_alike(found):
    """To the bit: early stopping, and which checkpoint is best, must come out alike for all."""
    for each in found[1:]:
        for name in (name for name in found[0] if "/weights/" in name or "/figures/" in name):
            np.testing.assert_array_equal(each[name], found[0][name], err_msg=name)


def test_two_workers_train_as_one_process(two, alone):
    """On batches whose rows are of very unequal length, so that one worker has far fewer tokens than the other."""
    check_against_one_process(two, alone, "sgd")
    check_alike(two)


def test_the_chief_alone_heeds_sigterm(two):
    """By which a scheduler ends all of them: the others have to be there until the chief has saved the state."""
    assert [each["heeds SIGTERM"] for each in two] == [True, False]


@pytest.mark.slow
def test_four_workers_train_as_one_process(four, alone, adam_alone):
    check_against_one_process(four, alone, "sgd")
    check_against_one_process(four, adam_alone, "adam")
    check_alike(four)
    assert "worker 3 (127.0.0.1:" in four[1]["disagreement"]


@pytest.mark.parametrize(
    ("case", "least"), [("sgd", 0.1), pytest.param("adam", 1e-3, marks=pytest.mark.slow)], ids=["sgd", "adam"]
)
def test_the_trainings_that_are_compared_go_somewhere(case, least, request):
    found = request.getfixturevalue("alone" if case == "sgd" else "adam_alone")
    keras.utils.set_random_seed(1)
    untrained = worker.transformer().get_weights()
    pairs = zip(part(found, f"{case}/weights/").values(), untrained, strict=True)
    assert max(np.abs(one - other).max() for one, other in pairs) > least


@pytest.mark.slow
def test_four_workers_that_work_in_parts_train_as_one_process(four, alone):
    for each in four:
        assert_near(part(each, "parts/weights/"), part(alone, "sgd/weights/"), atol=1e-5)
        assert part(each, "parts/figures/") == pytest.approx(part(alone, "sgd/figures/"), rel=1e-4)


def test_workers_that_differ_are_told_so_all_of_them(two):
    for each in two:
        assert "worker 1 (127.0.0.1:" in each["disagreement"]
        assert "and worker 0 (127.0.0.1:" in each["disagreement"]
        assert "differ in their vocabulary" in each["disagreement"]


def test_a_mistake_that_the_chief_finds_is_one_for_all(two):
    """A worker that took the chief for lost would end with the status of what is to be tried again."""
    chief, other = (each["chief's mistake"] for each in two)
    assert chief == "a mistake"
    assert other.startswith("worker 0 (127.0.0.1:") and ") has found a mistake; read its output" in other


def test_operations_take_one_thread_unless_tensorflow_is_at_work(two):
    """Which parts side by side need: said before each worker's strategy was made, and once more behind its training."""
    expected = {"set at first": True, "set later": False, "of an operation": 1, "operations at once": 3}
    assert [part(each, "threads/") for each in two] == [expected] * 2


@pytest.mark.thorough
def test_keras_needs_the_mend(tmp_path):
    """Where this fails, Keras has mended it: drop that part of `MultiWorkerStrategy.reduce`, or all of it."""
    found, _ = run(tmp_path, 2, ["mend"])
    for fault in "batch", "figures":
        assert found[f"mended but for {fault}"] != "works"
    assert found["mended but for none"] == "works"


def test_another_keras_is_refused(monkeypatch):
    monkeypatch.setattr(keras, "__version__", "3.16.0")
    with pytest.raises(UserError, match=r"needs Keras 3\.15\.x.*this is 3\.16\.0: run pip install") as error:
        MultiWorkerStrategy(None)
    assert "\n" not in str(error.value)


# -- what needs no other process ----


def test_without_other_workers_the_batches_stay_as_they_are():
    batches = worker.batches(0, 2)
    assert worker_share(batches, make_strategy("single")) is batches


def test_the_chief_opens_the_pairs_first(tmp_path, monkeypatch):
    """A dataset would be downloaded once for each worker."""
    from tests.experiment.small_recipe import recipe

    class ByTheChief(Exception):
        pass

    def chief_first(strategy, function):
        raise ByTheChief

    monkeypatch.setattr(runner, "chief_first", chief_first)
    monkeypatch.setattr(runner, "open_source", None)
    with pytest.raises(ByTheChief):
        experiment.train(recipe(), tmp_path / "run")


def test_each_of_a_worker_s_devices_may_have_a_figure_of_its_own():
    """Which Keras asks to reduce over the axis of a batch, though it has none."""
    strategy = make_strategy("mirrored")
    scalar, batch = (strategy.run(lambda shape=shape: tf.ones(shape)) for shape in ([], [3]))
    assert len(strategy.experimental_local_results(scalar)) == 2
    assert (reduced_axis(strategy, scalar, 0), reduced_axis(strategy, batch, 0)) == (None, 0)
    assert float(strategy.reduce("MEAN", scalar, axis=reduced_axis(strategy, scalar, 0))) == 1.0


def test_a_process_in_which_tensorflow_works_already_is_told(monkeypatch):
    """And a strategy of one device, where there are others, is refused."""
    monkeypatch.setenv("TF_CONFIG", worker_configs(2)[0])
    with pytest.raises(UserError, match="distribution is single, but TF_CONFIG names several workers"):
        make_strategy("single")
    from tf_transformer.distributed import multi_worker

    monkeypatch.setattr(multi_worker, "wait_for_workers", lambda cluster: None)
    tf.constant(1) + 1
    with pytest.raises(UserError, match="TensorFlow has already started in this process"):
        make_strategy("mirrored")


def test_other_errors_of_tensorflow_stay_what_they_are(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", worker_configs(2)[0])
    with pytest.raises(tf.errors.InvalidArgumentError), telling_lost_workers():
        raise tf.errors.InvalidArgumentError(None, None, "shapes differ")
    monkeypatch.delenv("TF_CONFIG")
    with pytest.raises(tf.errors.UnavailableError), telling_lost_workers():
        raise tf.errors.UnavailableError(None, None, "of something else")


def test_several_updates_an_execution_are_refused_on_several_devices(tmp_path):
    from tests.experiment.small_recipe import recipe

    with pytest.raises(UserError, match=r"steps_per_execution is 2; on several devices \(here 2\) it must be 1"):
        experiment.train(recipe(steps_per_execution=2), tmp_path / "run")
    assert not (tmp_path / "run").exists()
