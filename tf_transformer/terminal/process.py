"""The process of a command: its encoding, its home, and how TensorFlow starts in it."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from glob import glob

from tf_transformer.cores import bound_cores, cores

# What tells of the machine's processors and NVIDIA GPUs, and the names of the lines there that tell their kinds: of
# processors of x86, of Arm's, and of GPUs.
_MACHINE = ("/proc/cpuinfo", "/proc/driver/nvidia/gpus/*/information")
_KINDS = ("model name", "flags", "CPU part", "Features", "Model")


def speak_utf8() -> None:
    """Restarts the command in Python's UTF-8 mode if the locale has another encoding.

    TensorFlow takes file names to be UTF-8. Python must do the same, or the two write to different files.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


@contextmanager
def some_home() -> Iterator[None]:
    """Sets a temporary home directory if the user has none; if it can't be written to, one for libraries alone.

    Keras, TensorFlow and Matplotlib store settings there. Without a home they use a folder that all users of the
    machine share, or create one named ~ in the working directory. A home that can only be read stays what ~ means:
    the user's texts, models and datasets may be there.
    """
    home = os.path.expanduser("~")
    if os.path.isabs(home) and os.access(home, os.W_OK | os.X_OK):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tf-transformer-") as folder:
        if os.path.isabs(home) and os.path.isdir(home):
            os.environ.setdefault("KERAS_HOME", folder)
            os.environ.setdefault("MPLCONFIGDIR", folder)
        else:
            os.environ["HOME"] = folder
        yield


def keep_what_xla_compiles() -> None:
    """Makes XLA keep compiled programs in the user's cache. To be called before TensorFlow starts.

    Each kind of machine has a folder of its own there: the programs are native code, and neither their names nor
    TensorFlow tell for what processor. A home may be shared by machines of several kinds.
    """
    caches = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        cache = os.path.join(caches, "tf_transformer", "xla", _machine())
        os.makedirs(cache, exist_ok=True)
        # A program that XLA can't store counts as one that it can't compile.
        with tempfile.TemporaryFile(dir=cache) as tried:
            tried.write(bytes(2**20))
    except (OSError, ImportError):  # works without a cache, only slower
        return
    # TensorFlow parts the flags at blanks, and reads quotes and backslashes as a shell does.
    quoted = cache.replace("\\", "\\\\").replace('"', '\\"')
    os.environ.setdefault("TF_XLA_FLAGS", f'--tf_xla_persistent_cache_directory="{quoted}"')


def _machine() -> str:
    """Names what a compiled program depends on: TensorFlow's version, the processor and the GPUs."""
    from importlib.metadata import version  # which takes a while, and most commands compile nothing

    told = {version("tensorflow"), os.uname().machine}
    for path in (path for pattern in _MACHINE for path in glob(pattern)):
        with open(path, encoding="utf-8", errors="replace") as lines:
            told |= {line for line in lines if line.partition(":")[0].strip() in _KINDS}
    return hashlib.sha256("\n".join(sorted(told)).encode()).hexdigest()[:16]


@contextmanager
def quiet_tensorflow(streams: bool = False, session: bool = False) -> Iterator[None]:
    """Hides TensorFlow's start-up notices while it is loaded; errors are still raised as exceptions.

    Keras then uses TensorFlow and float32, whatever the user has configured for other programs.

    With `streams`, TensorFlow works on several batches at once, each in one thread: the operations of a decoding step
    are too small to be split over threads, and oneDNN makes them slower (figures: benchmarks/README.md).

    Without, an operation has as many threads as there are cores, a container's quota counted.

    With `session`, TensorFlow's library is loaded without TensorFlow for Python; see `tf_transformer.session`.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if streams:
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    elif cores() < bound_cores():  # TensorFlow knows nothing of quotas
        os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(cores()))
    with _silent_standard_error():
        if session:
            from tf_transformer.session.c_api import library

            with ThreadPoolExecutor(1) as thread:
                loading = thread.submit(library)  # while the block imports what it needs
                yield
                loading.result()
            return
        import keras

        keras.config.set_floatx("float32")
        yield
        import tensorflow as tf

        if streams:
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(cores())
        # The first device look-up prints notices of its own.
        tf.config.list_physical_devices()
        tf.get_logger().setLevel("ERROR")


@contextmanager
def _silent_standard_error() -> Iterator[None]:
    sys.stderr.flush()
    saved = os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    os.close(silence)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
