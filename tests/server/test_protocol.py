"""A client that does not read its answer, which is larger than the system's buffers."""

import socket
import threading
import time
from contextlib import ExitStack

import pytest

from tests.bounded import SECONDS, eventually
from tests.server.running import serving_here
from tf_transformer.server import protocol

ANSWER = b"a" * 2**25


@pytest.fixture
def ask(monkeypatch):
    """Asks a server that gives a reader so many seconds; gives the server's connections and the client's."""
    with ExitStack() as stack:

        def asking(seconds):
            asked = threading.Event()

            async def large(scope, receive, send):
                assert scope["type"] == "http"  # it has nothing to do at the start
                asked.set()
                length = b"%d" % len(ANSWER)
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
                await send({"type": "http.response.body", "body": ANSWER})

            monkeypatch.setattr(protocol, "READER_SECONDS", seconds)
            server, port = stack.enter_context(serving_here(large))
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=SECONDS))
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert asked.wait(SECONDS)
            return server.server_state.connections, client

        yield asking


def test_who_does_not_read_is_let_go(ask):
    began = time.monotonic()
    connections, _ = ask(seconds=1.0)
    eventually(lambda: not connections)
    assert time.monotonic() - began > 1.0


def test_who_reads_after_a_while_gets_all(ask):
    _, client = ask(seconds=SECONDS)
    time.sleep(0.3)
    answer = b"".join(iter(lambda: client.recv(2**20), b""))
    assert answer.endswith(b"\r\n\r\n" + ANSWER)


def test_who_reads_all_the_time_may_take_longer(ask):
    """Twice as long in all as a client may read nothing."""
    _, client = ask(seconds=0.5)
    answer, end = b"", time.monotonic() + 1.0
    while time.monotonic() < end:
        answer += client.recv(2**16)
        time.sleep(0.01)
    answer += b"".join(iter(lambda: client.recv(2**20), b""))
    assert answer.endswith(b"\r\n\r\n" + ANSWER)
