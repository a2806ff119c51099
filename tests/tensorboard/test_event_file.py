"""Event files: one for several callbacks, and what is cut off when a training goes on."""

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import TENSORS, EventAccumulator

from tf_transformer.tensorboard.event_file import EventFile, forget_after


def write(folder, steps):
    file = EventFile(folder)
    for step in steps:
        with file.writing(step):
            tf.summary.scalar("quality/loss", step)
            tf.summary.text("translations", "x" * 10 * step)
    return next(folder.iterdir())


def read(folder):
    """The steps that TensorBoard shows."""
    events = EventAccumulator(str(folder), size_guidance={TENSORS: 0}).Reload()
    return [event.step for event in events.Tensors("quality/loss")]


def test_a_file_is_made_when_the_first_writes_and_shared(tmp_path):
    file = EventFile(tmp_path / "train")
    assert not file.folder.exists()
    for step in (1, 2):
        with file.writing(step):
            tf.summary.scalar("quality/loss", 0.5)
        assert read(file.folder) == list(range(1, step + 1))  # it lies there at once
    assert len(list(file.folder.iterdir())) == 1


@pytest.mark.parametrize(("step", "kept"), [(0, []), (4, [4]), (5, [4]), (8, [4, 8]), (99, [4, 8, 12])])
def test_what_came_after_a_step_is_cut_off(tmp_path, step, kept):
    path = write(tmp_path / "train", [4, 8, 12])
    path.rename(path.with_name("events.out.tfevents.1.earlier"))  # files are read in the order of their seconds
    forget_after(tmp_path, step)
    write(tmp_path / "train", [99])
    assert read(tmp_path / "train") == [*kept, 99]


def test_a_file_that_was_being_written_is_cut_off_too(tmp_path):
    path = write(tmp_path, [4, 8, 12])
    whole = path.read_bytes()
    for lost in (1, 20, 40):
        path.write_bytes(whole[:-lost])
        forget_after(tmp_path, 4)
        assert read(tmp_path) == [4]


def test_nothing_is_touched_where_nothing_came_after(tmp_path):
    path = write(tmp_path, [4, 8])
    path.write_bytes(path.read_bytes()[:-1])  # half-written, but not of a later step
    before = path.read_bytes()
    forget_after(tmp_path, 8)
    assert path.read_bytes() == before
    forget_after(tmp_path / "none", 8)
