"""What the server tells of itself, and requests that mean no good."""

import asyncio
import json
import random
import re
import socket
import threading
import time
from contextlib import closing

import httpx
import jsonschema
import pytest
from openapi_spec_validator import validate
from prometheus_client.parser import text_string_to_metric_families

from tests.bounded import SECONDS, begun, eventually
from tests.server.running import answer_of, client_of
from tests.tiny_run import PAIRS
from tf_transformer.server.app import RequestMiddleware
from tf_transformer.server.lifecycle import Lifecycle
from tf_transformer.server.models import Models
from tf_transformer.server.settings import Settings

SOURCES, TARGETS = map(list, zip(*PAIRS, strict=True))
ASKED = {"q": SOURCES[0], "source": "en", "target": "de"}


def connect(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=SECONDS)


def fine(client) -> bool:
    return client.post("/translate", json=ASKED).json() == {"translatedText": TARGETS[0]}


def test_an_answer_is_sent_at_once(client):
    """Not after the 40 milliseconds that TCP holds the second of two small packets back for, each time."""

    def seconds() -> float:
        began = time.perf_counter()
        client.get("/languages")
        return time.perf_counter() - began

    for _ in range(15):  # of a young connection it holds none back
        seconds()
    eventually(lambda: seconds() < 0.03)


def test_metrics_count_and_tell_no_text(client):
    before = samples(client)
    client.post("/translate", json={**ASKED, "q": SOURCES[:3]})
    client.post("/translate", json={})
    after = samples(client)

    def more(name, **labels):
        key = name, tuple(sorted(labels.items()))
        return after[key] - before.get(key, 0)

    assert more("tf_transformer_requests_total", path="/translate", status="200") == 1
    assert more("tf_transformer_requests_total", path="/translate", status="400") == 1
    assert more("tf_transformer_queue_seconds_count", model="tiny") == 3
    assert more("tf_transformer_batch_items_sum", model="tiny") == 3
    assert more("tf_transformer_source_characters_total", model="tiny") == sum(map(len, SOURCES[:3]))
    tokens = sum(len(text.encode()) // 4 + 1 for text in SOURCES[:3])
    assert more("tf_transformer_source_tokens_estimate_total", model="tiny") == tokens
    assert more("tf_transformer_translation_characters_total", model="tiny") == sum(map(len, TARGETS[:3]))
    assert after["tf_transformer_model_version", (("model", "tiny"),)] == 1
    assert after["tf_transformer_queue_items", (("model", "tiny"),)] == 0
    assert after["tf_transformer_requests_under_way", ()] == 1  # this one
    text = client.get("/metrics").text
    assert "127.0.0.1" not in text
    assert not any(word in text for word in SOURCES + TARGETS)


def samples(client) -> dict:
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_the_log_tells_no_text(client, server):
    assert fine(client)
    eventually(lambda: "POST /translate 200" in server.log.read_text())  # written behind the answer
    log = server.log.read_text()
    assert not any(text in log for text in SOURCES + TARGETS)
    assert "127.0.0.1" not in log


def test_openapi_is_valid_and_complete(client):
    specification = client.get("/openapi.json").json()
    validate(specification)
    for path, methods in specification["paths"].items():
        for method in methods:
            asked = {"model": "tiny"} if method == "post" else None
            answer = client.request(method, path.replace("{name}", "tiny"), json=asked)
            assert answer.status_code in (200, 400), (method, path)
    for path in ("/translate", "/v1/models/{name}:predict", "/page/search"):
        operation = specification["paths"][path]["post"]
        example = operation["requestBody"]["content"]["application/json"]["example"]
        if "model" in example:
            example["model"] = "tiny"
        answer = client.post(path.replace("{name}", "tiny"), json=example)
        assert answer.status_code == 200
        told = operation["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), told)


def test_docs_need_no_other_host(client, server):
    page = client.get("/docs").text
    assert "POST /translate" in page
    assert f"curl {server.url}/translate" in page
    linked = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert linked
    for path in linked:
        assert client.get(path).status_code == 200
    assert "<script" not in page
    assert "style=" not in page


@pytest.mark.parametrize("path", ["/docs", "/languages", "/nothing", "/health/live"])
def test_security_headers(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"3", b"\xff\xfe", b'{"q": "\xff"}', b"[" * 100_000, b'{"q":' * 50_000, b"NaN", b'{"q": 1e999}'],
)
@pytest.mark.parametrize("path", ["/translate", "/v1/models/tiny:predict", "/detect"])
def test_broken_json(client, path, body):
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/translate", {**ASKED, "source": "x" * 100_000}),
        ("/translate", {**ASKED, "target": "\ud800" * 100_000}),
        ("/v1/models/tiny:predict", {"instances": [SOURCES[0]], "signature_name": "x" * 100_000}),
    ],
)
def test_an_error_repeats_the_beginning_of_what_is_long(client, path, asked):
    answer = client.post(path, content=json.dumps(asked), headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500
    error = answer.json()["error"]
    assert 500 < len(error) < 1100 and error.endswith(" ...")


def test_a_body_that_is_too_large(client):
    for path in ("/translate", "/v1/models/tiny:predict"):
        answer = client.post(path, content=b"a" * 10_000_000, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        assert "2,097,152 bytes" in answer.json()["error"]
    chunks = (b"a" * 100_000 for _ in range(50))  # its length is not told beforehand
    assert client.post("/translate", content=chunks).status_code == 413
    assert fine(client)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 50_000 + b"\r\n",
    ],
)
def test_what_is_not_http_is_400_or_closed(client, server, sent):
    with closing(connect(server)) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # it was closed while we sent
            pass
        answer = answer_of(connection)
    assert answer == b"" or re.match(rb"HTTP/1.1 (400|404|431|408)", answer)
    assert fine(client)


def test_another_version_of_http_is_505(client, server):
    with closing(connect(server)) as connection:
        connection.sendall(b"GET / HTTP/9.9\r\nHost: a\r\nConnection: close\r\n\r\n")
        answer = answer_of(connection)
    assert answer.startswith(b"HTTP/1.1 505 ") and b"speaks HTTP/1.1" in answer
    assert fine(client)


def test_odd_strings_get_the_answer_that_they_get_alone(client):
    chance = random.Random(5)
    ranges = [
        (0, 0x20),
        (0x20, 0x7F),
        (0x300, 0x36F),
        (0x600, 0x6FF),
        (0x2000, 0x206F),
        (0x4E00, 0x9FFF),
        (0x1F300, 0x1F9FF),
    ]

    def odd() -> str:
        return "".join(chr(chance.randint(*chance.choice(ranges))) for _ in range(chance.randint(0, 12)))

    texts = [odd() for _ in range(60)] + SOURCES
    alone = [client.post("/translate", json={**ASKED, "q": [text]}).json()["translatedText"][0] for text in texts]
    assert alone[60:] == TARGETS
    together: dict[int, str] = {}

    def ask(part):
        with client_of(str(client.base_url)) as own:
            for i in part:
                together[i] = own.post("/translate", json={**ASKED, "q": [texts[i]]}).json()["translatedText"][0]

    asking = [begun(lambda n=n: ask(range(n, len(texts), 6))) for n in range(6)]
    for each in asking:
        each.result(SECONDS)
    assert [together[i] for i in range(len(texts))] == alone
    assert client.post("/translate", json={**ASKED, "q": texts}).json()["translatedText"] == alone


def test_a_full_queue_is_429_and_soon_over(client, server):
    body = {**ASKED, "q": [" ".join(SOURCES * 2)] * 20}  # 960 sentences, of 1,024 that may wait
    refused = threading.Event()

    def ask():
        """Again and again, until one of those who ask at the same time has been refused."""
        answers = []
        with client_of(server.url) as own:
            while not (answers and refused.is_set()):
                answers.append(own.post("/translate", json=body))
                if answers[-1].status_code == 429:
                    refused.set()
        return answers

    asking = [begun(ask) for _ in range(4)]
    answers = [answer for each in asking for answer in each.result(SECONDS)]
    assert {answer.status_code for answer in answers} == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["Retry-After"]) >= 1
        else:
            assert answer.json()["translatedText"] == [" ".join(TARGETS * 2)] * 20
    too_many = client.post("/translate", json={**ASKED, "q": [" ".join(SOURCES * 2)] * 22})
    assert too_many.status_code == 413
    assert fine(client)


def test_others_are_answered_while_large_texts_are_split(server):
    """Two million characters that might be tags, of which none is."""
    asked = {**ASKED, "q": ["<" * 19_000] * 100, "format": "html"}

    def others_are_answered(large, other) -> bool:
        """Whether nobody waited for half of the time; somebody may, where the machine does much else."""
        began = time.perf_counter()
        answer, slowest = begun(lambda: large.post("/translate", json=asked)), 0.0
        while not answer.done():
            called = time.perf_counter()
            assert other.get("/health/live").status_code == 200
            slowest = max(slowest, time.perf_counter() - called)
        assert answer.result().json() == {"translatedText": ["&lt;" * 19_000] * 100}
        return slowest < (time.perf_counter() - began) / 2

    with client_of(server.url) as large, client_of(server.url) as other:
        eventually(lambda: others_are_answered(large, other))


def test_a_path_makes_no_line_of_the_log(caplog):
    """Whoever asks, which needs no key, could write lines there."""

    async def broken(scope, receive, send):
        raise ValueError

    app = RequestMiddleware(broken, Lifecycle(Models([])), Settings())

    async def asked() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as client:
            return (await client.get("/a%0aINFO forged" + "b" * 1_000)).status_code

    assert asyncio.run(asked()) == 500
    (line,) = (record.getMessage() for record in caplog.records if record.levelname == "ERROR")
    assert line.startswith(r"ValueError in '/a\nINFO forgedb") and len(line.splitlines()[0]) < 250


@pytest.mark.parametrize("asked", [{"q": ["<b>a</b>" * 2_400] * 100, "format": "html"}, {"q": ["a\n" * 9_900] * 60}])
def test_more_sentences_than_may_wait_are_refused(client, asked):
    answer = client.post("/translate", json={**ASKED, **asked})
    assert (answer.status_code, answer.json()) == (
        413,
        {"error": "the request has more sentences than the queue can hold; split it"},
    )
    assert fine(client)
