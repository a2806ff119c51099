"""Real server processes, servers in the tests' own process, and small SavedModels for them."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import uvicorn

from tests.bounded import begun, eventually, started, within
from tests.cli.command import COMMAND
from tf_transformer.server.protocol import Protocol


class Running(NamedTuple):
    """A server that is ready, or is starting."""

    process: subprocess.Popen
    url: str
    log: Path

    def end(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Sends a signal; gives the exit status and the seconds that it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(60), time.monotonic() - began


@contextmanager
def serving(folder: Path, *arguments, ready: bool = True, **environment: str) -> Iterator[Running]:
    """Starts `tf-transformer serve` on a free port; `folder` is for its log. Ends it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / f"server-{port}.log"
    command = [sys.executable, str(COMMAND), "serve", *map(str, arguments), "--port", str(port)]
    with (
        log.open("w") as stderr,
        started(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, env={**os.environ, **environment}
        ) as process,
    ):
        running = Running(process, f"http://127.0.0.1:{port}", log)
        if ready:
            line = within(process.stdout.readline)
            assert line.endswith(f" at {running.url}\n"), (line, log.read_text())
        yield running


@contextmanager
def serving_here(app) -> Iterator[tuple[uvicorn.Server, int]]:
    """Serves an application in a thread of this process; gives the server and its port."""
    server = uvicorn.Server(uvicorn.Config(app, http=Protocol, log_config=None, timeout_graceful_shutdown=5))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        ended = begun(lambda: asyncio.run(server.serve([bound])))
        eventually(lambda: server.started, 60)
        try:
            yield server, bound.getsockname()[1]
        finally:
            server.should_exit = True
            ended.result(60)


def save_echo(folder: Path, word: str) -> Path:
    """A SavedModel whose translation of a text is the word and the text.

    A text such as "wait /tmp/go" is answered once there is such a file.
    """
    import tensorflow as tf

    def translate(text: tf.Tensor) -> dict[str, tf.Tensor]:
        files = tf.strings.regex_replace(
            tf.boolean_mask(text, tf.strings.regex_full_match(text, "wait .*")), "wait ", ""
        )

        def missing(turn: tf.Tensor) -> tf.Tensor:
            nothing = tf.strings.substr(tf.strings.as_string(turn), 0, 0)  # so that no optimiser looks only once
            return tf.size(tf.io.matching_files(tf.strings.join([files, nothing]))) < tf.size(files)

        done = tf.while_loop(missing, lambda turn: turn + 1, [0])[0]
        with tf.control_dependencies([done]):
            score = tf.cast(tf.strings.length(text), tf.float32)
        return {"translation": tf.strings.join([word, " ", text]), "score": score, "truncated": score > 500.0}

    module = tf.Module()
    module.translate = tf.function(translate, [tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    partial = folder.with_name(f".{folder.name}")
    tf.saved_model.save(module, str(partial), {"serving_default": module.translate, "translate": module.translate})
    partial.rename(folder)
    return folder


def until(url: str, status: int, seconds: float = 60) -> httpx.Response:
    """Asks until the status comes, also where nobody listens yet."""
    end = time.monotonic() + seconds
    while True:
        try:
            if (response := httpx.get(url)).status_code == status:
                return response
        except httpx.TransportError:
            pass
        assert time.monotonic() < end, f"{url} did not answer with {status}"
        time.sleep(0.02)
