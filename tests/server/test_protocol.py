"""A client that does not read its answer, which is larger than the system's buffers."""

import asyncio
import socket
import time

import pytest
import uvicorn

from tests.bounded import begun, eventually
from tf_transformer.server import protocol

ANSWER = b"a" * 2**25


async def large(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": ANSWER})


@pytest.fixture
def server(monkeypatch):
    """An application that answers with a lot, in a thread of this process."""
    monkeypatch.setattr(protocol, "READER_SECONDS", 1.0)
    running = uvicorn.Server(uvicorn.Config(large, http=protocol.Protocol, lifespan="off", log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        ended = begun(lambda: asyncio.run(running.serve([bound])))
        eventually(lambda: running.started, 60)
        running.address = bound.getsockname()
        yield running
        running.should_exit = True
        ended.result(60)


@pytest.fixture
def connection(server):
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        yield connection


def test_who_does_not_read_is_let_go(server, connection):
    began = time.monotonic()
    eventually(lambda: server.server_state.connections, 60)
    eventually(lambda: not server.server_state.connections, 60)
    assert time.monotonic() - began > 0.9


def test_who_reads_gets_all(server, connection):
    time.sleep(0.3)
    answer = b"".join(iter(lambda: connection.recv(2**20), b""))
    assert answer.endswith(b"\r\n\r\n" + ANSWER) or answer.count(b"a") >= len(ANSWER)
