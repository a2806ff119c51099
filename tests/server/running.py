"""Real server processes, servers in the tests' own process, and small SavedModels for them."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import uvicorn

from tests.bounded import SECONDS, begun, eventually, free_port, started, within
from tests.cli.command import COMMAND
from tf_transformer.server.protocol import Protocol


class Running(NamedTuple):
    """A server that is ready, or is starting."""

    process: subprocess.Popen
    url: str
    log: Path

    def end(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal; gives the exit status."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


def client_of(url: str) -> httpx.Client:
    """A client that takes its time, but no connection that was idle and that the server is about to close."""
    return httpx.Client(base_url=url, timeout=SECONDS, limits=httpx.Limits(keepalive_expiry=1.0))


@contextmanager
def serving(
    folder: Path, *arguments, ready: bool = True, program: Sequence = (COMMAND,), **environment: str
) -> Iterator[Running]:
    """Starts `tf-transformer serve` on a port of its own; `folder` is for its log. Ends it at the end.

    The deadline is longer than any test waits: neither an answer nor the end may need it.
    """
    with ExitStack() as stack:
        port = stack.enter_context(free_port())
        log = folder / f"server-{port}.log"
        command = [sys.executable, *map(str, program), "serve", *map(str, arguments), "--port", str(port)]
        command += ["--deadline", str(2 * SECONDS)]
        stderr, own = stack.enter_context(log.open("w")), {**os.environ, **environment}
        process = stack.enter_context(started(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=own))
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
        eventually(lambda: server.started)
        try:
            yield server, bound.getsockname()[1]
        finally:
            server.should_exit = True
            ended.result(SECONDS)


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


def answer_of(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def until(url: str, status: int) -> httpx.Response:
    """Asks until the status comes, also where nobody listens yet."""
    answer = None
    # One client, since to make one takes memory; each request has a connection of its own.
    with httpx.Client(timeout=SECONDS, limits=httpx.Limits(max_keepalive_connections=0)) as client:

        def has_come() -> bool:
            nonlocal answer
            try:
                answer = client.get(url)
            except httpx.TransportError:
                return False
            return answer.status_code == status

        eventually(has_come)
    return answer
