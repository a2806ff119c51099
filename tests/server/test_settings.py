"""Limits, in this process: a stand-in for a model answers, and waits where it is told to."""

import json
import logging
import re
import socket
import threading
import time
from contextlib import ExitStack, suppress

import httpx
import numpy as np
import pytest

from tests.bounded import SECONDS, begun, eventually
from tests.server.running import answer_of, client_of, serving_here, until
from tf_transformer.decoding import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.server import models as served
from tf_transformer.server import protocol, running
from tf_transformer.server.app import create_app
from tf_transformer.server.batching import BatchLimits
from tf_transformer.server.models import Models, Source
from tf_transformer.server.settings import Settings
from tf_transformer.server.versions import Version
from tf_transformer.translation.texts import Translation

ASKED = {"source": "und", "target": "und"}


class Echo(Version):
    """Says what it is told; a text "wait" is answered once `go` is set. `began` counts those.

    A text "fault" is one of the model, and a text "refused" one of who asks.
    """

    translates = True

    def __init__(self, folder):
        super().__init__(folder)
        self.go, self.began, self.batches = threading.Event(), threading.Semaphore(0), []

    @property
    def options(self):
        return DecodingOptions()

    def translate(self, texts, options):
        self.batches.append(len(texts))
        if b"wait" in texts:
            self.began.release()
            assert self.go.wait(SECONDS)
        if b"fault" in texts:
            raise RuntimeError
        if b"refused" in texts:
            raise UserError("refused")
        return [Translation(text.decode(), 0.0, False) for text in texts]


@pytest.fixture
def asking(monkeypatch, tmp_path):
    """Makes a client of a server with limits."""
    monkeypatch.setattr(served, "load_version", Echo)
    monkeypatch.setattr(Echo, "warm_up", lambda self, threads: 0.0)
    with ExitStack() as stack:

        def made(settings=None, limits=None, seconds=2 * SECONDS) -> tuple[httpx.Client, Echo]:
            models = Models([Source("echo", tmp_path, 1)], limits or BatchLimits(), seconds)
            _, port = stack.enter_context(serving_here(create_app(models, settings or Settings())))
            url = f"http://127.0.0.1:{port}"
            until(f"{url}/health/ready", 200)
            echo = models["echo"].version
            stack.callback(echo.go.set)
            return stack.enter_context(client_of(url)), echo

        yield made


def translate(client, q):
    return client.post("/translate", json={**ASKED, "q": q})


def test_an_answer_that_takes_too_long_is_503(asking):
    client, _ = asking(seconds=0.3)
    for path, body in (
        ("/translate", {**ASKED, "q": "wait"}),
        ("/page/translate", {"model": "echo", "text": "wait"}),
    ):
        answer = client.post(path, json=body)
        assert (answer.status_code, answer.json()) == (503, {"error": "the translation took too long"})
        assert int(answer.headers["Retry-After"]) >= 1


def test_the_limits_are_those_of_the_settings(asking):
    client, _ = asking(Settings(max_body=200, max_texts=2, max_characters=5))
    for q, status in (("12345", 200), ("123456", 400), (["1", "2"], 200), (["1", "2", "3"], 400), ("1" * 200, 413)):
        assert translate(client, q).status_code == status, q


def test_whatever_makes_a_model_work_wants_the_key(asking):
    client, _ = asking(Settings(api_key="swordfish"))
    routes = create_app(Models([]), Settings()).routes
    posted = [route for route in routes if "POST" in (getattr(route, "methods", None) or ())]
    paths = [route.path_format.format(name="echo", version=1) for route in posted]
    assert {"/translate", "/detect", "/page/translate", "/v1/models/echo:predict"} < set(paths)
    keys = {}, {"Authorization": "Bearer shark"}, {"Authorization": "Bearer swordfish"}
    statuses = {
        path: [client.post(path, json={"model": "echo"}, headers=key).status_code for key in keys] for path in paths
    }
    assert statuses == dict.fromkeys(paths, [401, 403, 400])  # with the key, what the request lacks is told


def test_connections_beyond_the_limit_are_503(monkeypatch):
    servers = []

    class Server(running._Server):
        def __init__(self, *given):
            super().__init__(*given)
            servers.append(self)

    monkeypatch.setattr(running, "_Server", Server)
    monkeypatch.setattr(running, "CONNECTIONS", 2)
    monkeypatch.setattr(protocol, "HEADER_SECONDS", SECONDS)  # who says nothing stays
    bound = running.listen("127.0.0.1", 0)
    ended = begun(lambda: running.run(Models([]), Settings(), bound, ready=lambda: None))
    eventually(lambda: servers and servers[0].started)

    def opened():
        return socket.create_connection(bound.getsockname(), timeout=SECONDS)

    def answer_on(connection):
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return answer_of(connection)

    with opened() as first, opened() as second:
        with opened() as third:
            assert answer_on(third).startswith(b"HTTP/1.1 503 ")
        eventually(lambda: len(servers[0].server_state.connections) == 2)
        assert answer_on(first).startswith(b"HTTP/1.1 200 ")
        assert answer_on(second).startswith(b"HTTP/1.1 200 ")
    servers[0].should_exit = True
    ended.result(SECONDS)


def keep_busy(client, echo):
    """Has both threads wait, each with a request of its own; gives these."""
    waiting = []
    for _ in range(2):  # one after the other, since two that come together would share a batch and leave a thread free
        waiting.append(begun(lambda: translate(client, "wait")))
        assert echo.began.acquire(timeout=SECONDS)
    return waiting


def wait_for_metric(client, line):
    eventually(lambda: line in client.get("/metrics").text)


def test_the_queue_and_the_batches_are_those_of_the_limits(asking):
    client, echo = asking(limits=BatchLimits(tokens=6, queue=3))
    waiting = keep_busy(client, echo)
    assert translate(client, list("1234")).status_code == 413
    several = begun(lambda: translate(client, list("123")))  # of a token each
    wait_for_metric(client, 'queue_items{model="echo"} 3.0')
    refused = translate(client, "4")
    assert refused.status_code == 429 and int(refused.headers["Retry-After"]) >= 1
    echo.go.set()
    assert several.result(SECONDS).json() == {"translatedText": ["1", "2", "3"]}
    assert {future.result(SECONDS).status_code for future in waiting} == {200}
    assert sorted(echo.batches) == [1, 1, 3]
    echo.batches.clear()
    assert translate(client, ["1" * 11, "2" * 11, "3" * 11]).status_code == 200  # of three tokens each
    assert max(echo.batches) <= 2


def test_what_is_left_of_a_refused_request_is_dropped(asking):
    """Each sentence with a prefix is a call of its own, of which some were in the queue before it was full."""
    client, echo = asking(limits=BatchLimits(queue=3))
    waiting = keep_busy(client, echo)
    prefixes = {str(number): "E" for number in range(5)}
    asked = {"model": "echo", "text": "A.\n" * 5, "prefixes": prefixes}
    assert client.post("/page/translate", json=asked).status_code == 429
    several = begun(lambda: translate(client, list("123")))
    wait_for_metric(client, 'queue_items{model="echo"} 3.0')
    echo.go.set()
    assert several.result(SECONDS).json() == {"translatedText": ["1", "2", "3"]}
    assert {future.result(SECONDS).status_code for future in waiting} == {200}
    assert sorted(echo.batches) == [1, 1, 3]


def test_a_client_that_goes_is_dropped(asking):
    """What it asked is taken out of the queue, and never translated."""
    client, echo = asking()
    waiting = keep_busy(client, echo)
    body = json.dumps({**ASKED, "q": list("abc")}).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=SECONDS) as connection:
        connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        wait_for_metric(client, 'queue_items{model="echo"} 3.0')
    wait_for_metric(client, 'requests_total{path="/translate",status="499"} 1.0')
    echo.go.set()
    assert {future.result(SECONDS).status_code for future in waiting} == {200}
    assert translate(client, "d").json() == {"translatedText": "d"}
    assert echo.batches == [1, 1, 1]


def test_slow_senders_are_let_go_and_block_nobody(asking, monkeypatch):
    """Who sends nothing, a part of a header, or a part of a body: all at once, since each takes its second."""
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 1.0)
    client, _ = asking(Settings(body_seconds=1.0))
    header = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    address = client.base_url.host, client.base_url.port
    began = time.monotonic()
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(address, timeout=SECONDS)) for _ in range(3)]
        nothing, half, body = connections
        half.sendall(header[:30])
        body.sendall(header + b'{"q":')
        for _ in range(5):
            assert translate(client, "a").json() == {"translatedText": "a"}
            time.sleep(0.1)
            with suppress(OSError):  # where this took so long that it was let go
                half.sendall(b"a")
                body.sendall(b" ")
        assert b"408" in answer_of(body).splitlines()[0]
        assert answer_of(half) == answer_of(nothing) == b""
    assert time.monotonic() - began >= 1


def test_metrics_count_the_faults_of_the_model_alone_and_the_seconds_of_all(asking):
    client, _ = asking()
    assert [translate(client, q).status_code for q in ("a", "fault", "refused")] == [200, 500, 400]
    wait_for_metric(client, 'request_seconds_count{path="/translate"} 3.0')
    metrics = client.get("/metrics").text
    assert 'batch_failures_total{model="echo"} 1.0' in metrics
    assert 'batch_seconds_count{model="echo"} 3.0' in metrics


def test_the_log_tells_how_many_texts_and_characters_but_not_of_looks_at_the_server(asking, caplog):
    caplog.set_level(logging.INFO, "tf_transformer.server")
    client, _ = asking()
    for path in ("/health/live", "/health/ready", "/metrics"):
        assert client.get(path).status_code == 200
    assert translate(client, ["abc", "defg"]).status_code == 200
    wait_for_metric(client, 'requests_total{path="/translate",status="200"} 1.0')
    (line,) = [message for message in caplog.messages if message.startswith(("GET ", "POST "))]
    assert re.fullmatch(r"POST /translate 200 [0-9.]+ ms, model echo, 2 texts, 7 characters", line)


def test_a_long_text_of_the_page_is_split_elsewhere(asking, monkeypatch):
    from tf_transformer.server import page

    threads = []
    split = page.split_text

    def splitting(*given):
        threads.append(threading.current_thread())
        return split(*given)

    monkeypatch.setattr(page, "split_text", splitting)
    client, _ = asking()
    for text in ("A text.", "A text. " * 1_000):
        assert client.post("/page/translate", json={"model": "echo", "text": text}).status_code == 200
    assert threads[0] is not threads[1]


def test_the_page_s_parts_leave_language_tags_out(asking):
    client, echo = asking()
    text = " >>deu<<  A man. A dog."
    for tags, sentences in (
        ([">>deu<<"], [("A man.", ">>deu<< A man."), ("A dog.", ">>deu<< A dog.")]),
        ([], [(">>deu<<  A man.", ">>deu<<  A man."), ("A dog.", "A dog.")]),
    ):
        echo.facts = {"tokenizer": {"language_tags": tags}}
        answer = client.post("/page/translate", json={"model": "echo", "text": text}).json()
        parts, tagged = answer["parts"], len(">>deu<<  ") if tags else 0
        assert [(part["source"], part["read"]) for part in parts[1::2]] == sentences
        assert (parts[::2], answer["tagged"]) == ([" ", " ", ""], tagged)
        assert [part["text"] for part in parts[1::2]] == [read for _, read in sentences]  # by what only copies


def test_where_tokens_stand_is_found_elsewhere(asking, monkeypatch):
    """Which may take a second, for which other requests must not wait."""
    from tf_transformer.server import page

    threads = []

    async def seen(*_):
        threads.append(threading.current_thread())
        tokens, ids = np.array([["▁a".encode()]]), np.array([[5]])
        return {"source_tokens": tokens, "target_tokens": tokens, "target_ids": ids, "alignment": ids}

    def spans(*given):
        threads.append(threading.current_thread())
        return token_spans(*given)

    token_spans = page.token_spans
    monkeypatch.setattr(page, "_attention", seen)
    monkeypatch.setattr(page, "token_spans", spans)
    client, _ = asking()
    answer = client.post("/page/sentence", json={"model": "echo", "source": "a", "target": "a"})
    assert answer.json()["source"] == {"tokens": ["▁a"], "spans": [[0, 1]]}
    assert len(threads) == 3 and threads[0] not in threads[1:]


@pytest.mark.parametrize("version", ["2", "x", "1" * 4_301])  # Python makes no number of the last
def test_a_version_that_is_not_there_is_404(asking, version):
    client, _ = asking()
    assert client.get("/v1/models/echo/versions/001").status_code == 200
    for answer in (
        client.get(f"/v1/models/echo/versions/{version}"),
        client.get(f"/v1/models/echo/versions/{version}/metadata"),
        client.post(f"/v1/models/echo/versions/{version}:predict", json={"instances": ["a"]}),
    ):
        assert answer.status_code == 404
