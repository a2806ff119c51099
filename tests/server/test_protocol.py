"""A client that does not read its answer, which is larger than the system's buffers."""

import socket
import time

import pytest

from tests.bounded import eventually
from tests.server.running import serving_here
from tf_transformer.server import protocol

ANSWER = b"a" * 2**25


async def large(scope, receive, send):
    assert scope["type"] == "http"  # it has nothing to do at the start
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(ANSWER))]})
    await send({"type": "http.response.body", "body": ANSWER})


@pytest.fixture
def server(monkeypatch):
    """The server, and a connection that has asked it."""
    monkeypatch.setattr(protocol, "READER_SECONDS", 1.0)
    with serving_here(large) as (server, port), socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        yield server, connection


def test_who_does_not_read_is_let_go(server):
    connections, began = server[0].server_state.connections, time.monotonic()
    eventually(lambda: connections, 60)
    eventually(lambda: not connections, 60)
    assert time.monotonic() - began > 0.9


def test_who_reads_after_a_while_gets_all(server):
    time.sleep(0.3)
    answer = b"".join(iter(lambda: server[1].recv(2**20), b""))
    assert answer.endswith(b"\r\n\r\n" + ANSWER)
