"""A disk that fills up while a training saves: it stops in one line, and goes on once there is room."""

import subprocess

import pytest

from tests.bounded import eventually
from tests.cli.command import contents
from tests.experiment.small_recipe import on
from tests.experiment.test_averaging import checkpoint
from tests.tiny_run import PAIRS
from tf_transformer import experiment
from tf_transformer.errors import UserError
from tf_transformer.experiment import fitting
from tf_transformer.experiment.averaging import average_checkpoints
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.training import EpochEnds


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own, without room for much; skips the test where none can be mounted."""
    folder = tmp_path / "small disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=50m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs a disk to fill, and this user may mount none")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(file):
    """Writes until the disk is full."""
    with open(file, "wb", buffering=0) as open_file, pytest.raises(OSError):
        while True:
            open_file.write(bytes(2**16))


@pytest.mark.thorough
def test_where_an_average_finds_no_room_nothing_is_lost(small_disk):
    run = RunDirectory.create(small_disk / "run")
    for step in (10, 20):
        checkpoint(run, step)
    average_checkpoints(run, last=2)
    fill(small_disk / "filler")
    before = contents(run.path)
    with pytest.raises(
        UserError, match=r"average.keras: the average can't be written: No space left on device; "
    ) as error:
        average_checkpoints(run, last=2)
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="scores.json: the scores can't be written: No space left on device; "):
        run.write_scores({"signature": "x" * 2**17})
    assert contents(run.path) == before


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("seconds", "fails"), [pytest.param(0, "the state", marks=pytest.mark.slow), (60, "")])
def test_a_full_disk_stops_the_training_which_goes_on_with_more_room(small_disk, tmp_path, monkeypatch, seconds, fails):
    """It fills up in the fourth step, after which a state is saved, or after two more a validation is made."""
    filler = small_disk / "filler"

    class FillDisk(EpochEnds):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if int(self.model.optimizer.iterations) == 4:
                eventually(saved.exists)  # it is written beside the training
                fill(filler)

    loaded = on(tmp_path, PAIRS, 64, steps=9, validate_every=3, save_every_seconds=seconds)
    run = RunDirectory(small_disk / "run")
    saved = run.training_state / "step-00000003"
    with (
        monkeypatch.context() as patch,
        pytest.raises(UserError, match=fails + r".*[Nn]o space left on device") as error,
    ):
        patch.setattr(fitting, "EpochEnds", FillDisk)
        experiment.train(loaded, run.path)
    message = str(error.value)
    assert "\n" not in message and "the same command resumes from" in message
    assert not [path for path in run.path.rglob("*") if "partial" in path.name]
    assert max(path.name for path in run.training_state.iterdir()) == saved.name

    if seconds == 0:
        filler.unlink()
        experiment.train(loaded, run.path)
        assert run.scores.is_file() and not run.is_unfinished()
