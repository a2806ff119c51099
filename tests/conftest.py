"""What every test may use."""

import ctypes
import gc
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from tests.cli.command import Outcome
from tests.tiny_run import tiny_export, tiny_run
from tf_transformer import cli
from tf_transformer.runs.directory import RunDirectory

pytest_plugins = ["tests.browser"]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read when TensorFlow is imported

# The same examples each time, however long one takes; `--hypothesis-profile random` draws others.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.register_profile("random", deadline=None)
hypothesis.settings.load_profile("fixed")

# Tracing makes objects by the million, most of which stay: looking for garbage among them took a tenth of the time.
gc.set_threshold(100_000, 20, 20)

# Of glibc; others have no such function.
malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


# Files and folders, in this order. They take minutes, most of which their processes do: begun last, they would leave
# the other core idle. Browsers and servers need much memory, of which later the tests' own processes have taken theirs.
FIRST = (
    "server",
    "tensorboard/test_browser.py",
    "distributed/test_launcher.py",
    "tensorboard/test_first_look.py",
    "export/test_saved_model.py",
    "distributed/test_multi_worker.py",
)
TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items) -> None:
    """Begins with the files that take most; `--no-loadscope-reorder` keeps that order."""

    def place(item) -> int:
        name = item.path.relative_to(TESTS).as_posix()
        return next((number for number, first in enumerate(FIRST) if name.startswith(first)), len(FIRST))

    items.sort(key=place)


class ByFile(LoadFileScheduling):
    """Gives a process whole files, as `--dist loadfile` does; and tests/server/ whole, whose files share a server."""

    def _split_scope(self, nodeid: str) -> str:
        folder = f"{TESTS.name}/server/"
        return folder if nodeid.startswith(folder) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config, log) -> ByFile:
    return ByFile(config, log)


def pytest_collection_finish(session) -> None:
    """Splits the CPU in two, so that `distribution: mirrored`, the default, has two devices in every test.

    Threads are as the commands that translate have them, which say so in the process of the tests as well. Graphs are
    run as they were traced: making them faster takes longer than the tests run them. Processes that the tests start do
    it, and so do tests that ask for the fixture `optimised`.

    This can only be said before TensorFlow does its first work: no test module may make a tensor when it is imported.
    Test modules that need TensorFlow have imported it by now; the others stay fast.
    """
    gc.freeze()  # what is loaded by now stays: collections need not look at it
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        from tf_transformer.cores import cores

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(cores())
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def pytest_runtest_logfinish() -> None:
    """Frees what the tests so far have left, once it is a quarter of a GiB: to look for it takes a second.

    Not done in a fixture: while one ends, pytest still holds what the test was given.
    """
    global resident
    if sys.platform == "linux":
        if _resident_bytes() > resident + 2**28:
            _free_graphs()
            resident = _resident_bytes()
        resident = min(resident, _resident_bytes())


resident = 2**30  # bytes, after it was last looked for; TensorFlow alone takes most of a GiB


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _free_graphs() -> None:
    """Frees graphs, which are rings of objects, and what TensorFlow keeps of their operations.

    What was freed is given back to the system, which glibc does not do by itself where something lies above it.
    """
    if "keras" in sys.modules:
        sys.modules["keras"].backend.clear_session(free_memory=False)  # true collects too, and is the default
    gc.collect()
    if malloc_trim:
        malloc_trim(0)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the checkout; skips the test where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the real corpora in ../shared/data, which are not here")
    return SHARED_DATA


@pytest.fixture(scope="module")
def optimised() -> Iterator[None]:
    """Graphs are made faster before they run, as for users."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


@pytest.fixture(scope="module")
def eager() -> Iterator[None]:
    """Nothing is traced: a few steps take less time than to trace one."""
    from tests.eager import eagerly

    with eagerly():
        yield


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """CTranslate2 has one thread where nobody says how many, as for samples.

    Those that wait for each other take the time of tests that run beside these.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="session")
def tiny_run_directory(tmp_path_factory) -> RunDirectory:
    """A run that knows `tests.tiny_run.PAIRS` by heart. Nothing may be changed in it."""
    return tiny_run(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def tiny_saved_model(tmp_path_factory) -> Path:
    """Its SavedModel."""
    return tiny_export(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def tiny_loaded(tiny_saved_model):
    """What TensorFlow for Python loads of it, which takes seconds."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its ops are in the graph

    return tf.saved_model.load(str(tiny_saved_model))


@pytest.fixture
def command(monkeypatch, capsysbinary):
    """Runs the command in this process."""
    # It sets this for its own process; undone here, so that processes of later tests start as any does.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")

    def run_it(*arguments, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["tf-transformer", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsysbinary.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err.decode("utf-8"))

    return run_it
