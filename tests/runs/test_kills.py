"""Twenty kills of one training at random times, five at least while a state is written; and one that is corrupted."""

import json
import random
import shutil
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.runs import test_going_on
from tests.runs.test_going_on import assert_same, half_written, newest, train_all, training, wait_for
from tf_transformer.runs.directory import RunDirectory

pytestmark = pytest.mark.slow

folder = test_going_on.folder  # the fixture

STEPS = {"training__steps": 600, "training__validate_every": 40, "training__early_stopping": 40}
KILLS = 20
IN_WRITING = 8  # tried, since some may come just too late


@pytest.fixture(scope="module")
def undisturbed(folder):
    run = RunDirectory(folder / "undisturbed")
    train_all(folder, run, training__save_every_seconds=60, **STEPS)
    return run


@pytest.fixture(scope="module")
def killed(folder):
    """A run that was killed so often, with what is told of each kill; its last part has not been trained yet."""
    run = RunDirectory(folder / "killed often")
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    told = []
    for number in range(KILLS):
        began, reached, left = time.monotonic(), newest(run), half_written(run)
        with training(folder, run, **STEPS) as process:
            if number < IN_WRITING:
                after = reached + draw.randrange(1, 8)
                # What an earlier kill left half written is gone by the time that a newer state lies there.
                wait_for(process, lambda after=after: newest(run) >= after and half_written(run))
            else:
                # From its start, when nothing is loaded, to some seconds of training; steps are left for other kills.
                at, share = began + draw.uniform(0, 25), STEPS["training__steps"] * (number + 1) // (KILLS + 1)
                wait_for(process, lambda at=at, share=share: time.monotonic() >= at or newest(run) >= share)
        told.append(
            {
                "seed": seed,
                "kill": number + 1,
                "seconds": round(time.monotonic() - began, 3),
                "from_step": reached,
                "to_step": newest(run),
                "in_writing": bool(half_written(run) - left),
            }
        )
        print(json.dumps(told[-1]), flush=True)
    return run, told


def test_killed_twenty_times_it_ends_as_if_nothing_had_been(folder, undisturbed, killed, tmp_path):
    run, told = killed
    assert sum(kill["in_writing"] for kill in told) >= 5, told
    assert newest(run) < STEPS["training__steps"]
    corrupted = RunDirectory(tmp_path / "corrupted")
    shutil.copytree(run.path, corrupted.path)
    train_all(folder, run, **STEPS)
    assert_same(run, undisturbed)

    # One bit of one weight, in a state whose checksums are right.
    state = sorted(corrupted.training_state.glob("step-*"))[-1]
    change_a_weight(state)
    assert "damaged" not in train_all(folder, corrupted, **STEPS)
    with pytest.raises(AssertionError):
        assert_same(corrupted, undisturbed)


def change_a_weight(state) -> None:
    """Writes a state again, with the last bit of one value changed."""
    prefix = str(state / "variables")
    reader = tf.train.load_checkpoint(prefix)
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    first = next(name for name in sorted(values) if name.startswith("variables/0/"))
    values[first].flat[0] = np.nextafter(values[first].flat[0], np.float32(np.inf))
    names = list(values)
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=[values[n] for n in names]
    )
