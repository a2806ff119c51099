"""Runs several commands in one process, which loads TensorFlow but once; tells how each ended, as JSON.

The program's arguments are a file that lists the commands' words, and the file to write.
"""

import contextlib
import io
import json
import sys
import traceback
import warnings
from pathlib import Path

from tf_transformer.terminal.process import quiet_tensorflow, some_home, speak_utf8


def run(words: list[str]) -> dict:
    from tf_transformer import cli

    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    sys.argv = ["tf-transformer", *words]
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as ended:
            status = ended.code or 0
        except BaseException:
            status = 1
            traceback.print_exc()
        out.flush()
    return {"status": status, "out": out.buffer.getvalue().decode("utf-8"), "err": err.getvalue()}


def run_without_tracing(words: list[str]) -> dict:
    from tests.eager import eagerly  # loads TensorFlow

    # What is exported has to be traced.
    with contextlib.nullcontext() if words[0] == "export" else eagerly():
        return run(words)


if __name__ == "__main__":
    speak_utf8()
    with some_home():
        # With threads as commands that translate want them, which can't say so once TensorFlow has begun to work.
        with quiet_tensorflow(streams=True):
            import tensorflow as tf

        # As in the tests' own processes: these graphs are soon run.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        # What TensorFlow says wherever tests/eager.py has a dataset mapped.
        warnings.filterwarnings("ignore", "Even though the `tf.config.experimental_run_functions_eagerly`")
        commands = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        outcomes = Path(sys.argv[2])
        outcomes.write_text(json.dumps([run_without_tracing(words) for words in commands]), encoding="utf-8")
