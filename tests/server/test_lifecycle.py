"""Start, a new version, SIGTERM: real servers, with SavedModels that answer with their version's word."""

import asyncio
import errno
import http.client
import json
import os
import shutil
import signal
import threading
import time
from contextlib import ExitStack

import pytest

from tests.bounded import SECONDS, begun, eventually, within
from tests.server.running import client_of, save_echo, serving, serving_here, until
from tf_transformer.errors import UserError
from tf_transformer.server import lifecycle
from tf_transformer.server.app import create_app
from tf_transformer.server.models import Models, find_sources
from tf_transformer.server.running import listen, run
from tf_transformer.server.settings import Settings


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Two SavedModels, whose words are `one` and `two`."""
    folder = tmp_path_factory.mktemp("versions")
    return [save_echo(folder / word, word) for word in ("one", "two")]


def predict(client, *texts):
    return client.post("/v1/models/echo:predict", json={"instances": texts or ["a"]})


def version_of(client):
    return client.get("/v1/models/echo").json()["model_version_status"][0]["version"]


def put(source, folder, name):
    shutil.copytree(source, folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


def hold(version):
    """Makes the version's loading wait, at its model card, until somebody opens the pipe that is returned."""
    (version / "assets.extra").mkdir()
    os.mkfifo(version / "assets.extra" / "model_card.md")
    return version / "assets.extra" / "model_card.md"


SLOW = {
    "/v1/models/echo:predict": ({"instances": ["a"]}, {"predictions": [{"translation": "one a"}]}),
    "/translate": ({"q": "a", "source": "und", "target": "und"}, {"translatedText": "one a"}),
    "/page/translate": (
        {"model": "echo", "text": "a"},
        {"parts": ["", {"source": "a", "text": "one a", "behind": ""}, ""]},
    ),
}


def holds(answer, expected):
    """Whether an answer has what is expected, and perhaps more."""
    if isinstance(expected, dict):
        return all(holds(answer[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(answer) == len(expected) and all(map(holds, answer, expected))
    return answer == expected


def begin(url, path, opened):
    """Sends the headers and half of the body; gives the connection and the rest."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=SECONDS)
    opened.callback(connection.close)
    body = json.dumps(SLOW[path][0]).encode()
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body[: len(body) // 2])
    return connection, body[len(body) // 2 :]


def end(connection, rest):
    connection.send(rest)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_starting_then_ready_then_draining(versions, tmp_path):
    """What was accepted is answered while it drains, even if its body is still to come; what comes later is refused."""
    put(versions[0], tmp_path / "echo", "1")
    held, go = hold(tmp_path / "echo" / "1"), tmp_path / "go"
    with (
        serving(tmp_path, tmp_path / "echo", ready=False) as running,
        client_of(running.url) as client,
        ExitStack() as opened,
    ):
        assert until(f"{running.url}/health/ready", 503).text == "starting\n"
        assert running.log.read_text().startswith("loading and warming up echo, ")
        assert client.get("/health/live").status_code == 200
        refused = predict(client)
        assert refused.status_code == 503
        assert refused.json() == {"error": "the server is starting"}
        assert int(refused.headers["Retry-After"]) > 0
        for path in ("/languages", "/frontend/settings", "/page/models"):  # clients may ask for them only once
            assert client.get(path).status_code == 503
        within(lambda: held.write_text(""))
        until(f"{running.url}/health/ready", 200)
        assert within(running.process.stdout.readline) == f"serving echo at {running.url}\n"

        def under_way(number):
            return f"requests_under_way {number + 1}.0" in client.get("/metrics").text  # its own is one more

        answer = begun(lambda: predict(client, f"wait {go}"))
        eventually(lambda: 'batch_items_count{model="echo"} 1.0' in client.get("/metrics").text)
        assert under_way(1)
        begun_before = {path: begin(running.url, path, opened) for path in SLOW}
        eventually(lambda: under_way(1 + len(SLOW)))
        running.process.send_signal(signal.SIGTERM)
        eventually(lambda: client.get("/health/ready").text == "draining\n")
        assert client.get("/health/ready").status_code == 503
        late = predict(client)
        assert (late.status_code, late.json()) == (503, {"error": "the server is draining"})
        later = begin(running.url, "/translate", opened)
        eventually(lambda: under_way(1 + len(SLOW) + 1))
        assert end(*later) == (503, {"error": "the server is draining"})
        go.touch()
        assert answer.result(SECONDS).json()["predictions"][0]["translation"] == f"one wait {go}"
        assert running.process.poll() is None
        for path, connection in begun_before.items():
            status, found = end(*connection)
            assert status == 200 and holds(found, SLOW[path][1]), found
        assert running.process.wait(SECONDS) == 0
        assert "Traceback" not in running.log.read_text()


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_while_a_model_is_loaded_it_ends_all_the_same(versions, tmp_path, number, expected):
    """Which waits for ever."""
    put(versions[0], tmp_path / "echo", "1")
    hold(tmp_path / "echo" / "1")
    with serving(tmp_path, tmp_path / "echo", ready=False) as running:
        until(f"{running.url}/health/ready", 503)
        assert running.end(number) == expected
        assert len(running.log.read_text().splitlines()) == 1  # that it loads


def test_a_new_version_is_taken_up_under_load_without_losing_a_request(versions, tmp_path, monkeypatch, caplog):
    """In a server of this process, which looks for versions more often."""
    monkeypatch.setattr(lifecycle, "WATCH_SECONDS", 0.05)
    folder = tmp_path / "echo"
    put(versions[0], folder, "1")
    stop, answers = threading.Event(), [[] for _ in range(8)]

    def ask(url, answers):
        with client_of(url) as client:
            last = False
            while not last:
                last = stop.is_set()  # then once more, since what is under way may have begun before
                answer = predict(client, "a", "b")
                answers.append((answer.status_code, answer.json()))
                time.sleep(0.02)  # else most of the time of the test is theirs

    def said(answers):
        return [{row["translation"] for row in answer["predictions"]} for _, answer in answers]

    def all_say(word):
        eventually(lambda: all({f"{word} a", f"{word} b"} in said(own) for own in answers))

    with (
        serving_here(create_app(Models(find_sources([folder])), Settings())) as (_, port),
        client_of(url := f"http://127.0.0.1:{port}") as client,
    ):
        until(f"{url}/health/ready", 200)
        asking = [begun(lambda own=own: ask(url, own)) for own in answers]
        all_say("one")
        put(versions[1], folder, "2")
        eventually(lambda: version_of(client) == "2")
        all_say("two")
        damaged = tmp_path / "damaged"
        damaged.mkdir()
        (damaged / "saved_model.pb").write_bytes(b"damaged")
        damaged.rename(folder / "3")
        eventually(lambda: "version 3: " in caplog.text)
        assert version_of(client) == "2"
        assert predict(client).json()["predictions"][0]["translation"] == "two a"
        shutil.rmtree(folder / "3")
        (folder / "2").rename(tmp_path / "elsewhere")  # back to the one before
        eventually(lambda: version_of(client) == "1")
        stop.set()
        for each in asking:
            each.result(SECONDS)
        metrics = client.get("/metrics").text
    assert 'model_loads_total{model="echo",result="failed"} 1.0' in metrics
    assert 'model_loads_total{model="echo",result="loaded"} 3.0' in metrics
    for own in answers:
        assert {status for status, _ in own} == {200}
        words = said(own)
        assert all(
            each in ({"one a", "one b"}, {"two a", "two b"}, {"one a", "two b"}, {"two a", "one b"}) for each in words
        )
        assert words[0] == words[-1] == {"one a", "one b"}


def damage(version):
    (version / "variables" / "variables.index").write_bytes(b"damaged")


def test_a_model_that_cannot_be_loaded_ends_the_server(versions, tmp_path):
    """And leaves no thread that would keep the process from ending."""
    put(versions[0], tmp_path / "echo", "1")
    damage(tmp_path / "echo" / "1")
    before = set(threading.enumerate())
    models, bound = Models(find_sources([tmp_path / "echo"])), listen("127.0.0.1", 0)
    with pytest.raises(UserError, match="the SavedModel can't be loaded"):
        within(lambda: run(models, Settings(), bound, ready=lambda: None))
    assert all(thread.daemon for thread in set(threading.enumerate()) - before)


def test_whatever_fails_before_a_model_is_loaded_ends_the_server(tmp_path, monkeypatch):
    """Here the system has no more threads, so that the loading has not begun, which would tell the model's faults."""
    (tmp_path / "echo" / "1").mkdir(parents=True)
    (tmp_path / "echo" / "1" / "saved_model.pb").touch()
    models, bound = Models(find_sources([tmp_path / "echo"])), listen("127.0.0.1", 0)

    def start(thread):
        if thread.name == "load":
            raise RuntimeError("can't start new thread")
        original(thread)

    original = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(UserError, match=r"^model echo: can't be loaded \(can't start new thread\)$"):
        within(lambda: run(models, Settings(), bound, ready=lambda: None))


class Versions:
    """A model whose highest version is 2; the first look at them fails, since there is no memory for a thread."""

    def __init__(self):
        self.name, self.number, self.source, self.looks = "echo", None, self, 0

    def versions(self):
        self.looks += 1
        if self.looks == 1:
            raise RuntimeError("can't start new thread")
        return {1: None, 2: None}

    def free_replaced(self):
        pass

    def load_newest(self):
        self.number = 1 if self.number is None else 2


def test_new_versions_are_taken_up_after_whatever_failed(monkeypatch, caplog):
    """The reader of the line that it is ready has ended, and a look for new versions failed."""
    monkeypatch.setattr(lifecycle, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(lifecycle, "RETRY_SECONDS", 0.01)
    model = Versions()

    def ready():
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    async def watched():
        watching = lifecycle.Lifecycle({"echo": model})
        watching.start(ready, failed=lambda: None)
        while model.number != 2 and not watching._task.done():
            await asyncio.sleep(0.01)
        await watching.drain(0)

    within(lambda: asyncio.run(watched()))
    assert model.number == 2
    assert "can't print that the server is ready: Broken pipe" in caplog.text
    assert "RuntimeError: can't start new thread" in caplog.text


@pytest.mark.thorough
def test_a_model_that_cannot_be_loaded_is_status_2(versions, tmp_path):
    put(versions[0], tmp_path / "echo", "1")
    damage(tmp_path / "echo" / "1")
    with serving(tmp_path, tmp_path / "echo", ready=False) as running:
        assert running.process.wait(SECONDS) == 2
        _, line = running.log.read_text().splitlines()  # that it loads, and why it can't
        assert line.startswith("tf-transformer: ")
        assert "the SavedModel can't be loaded" in line


@pytest.mark.thorough
def test_a_key_and_texts_in_the_log(versions, tmp_path):
    """And Ctrl-C at its end is status 130."""
    put(versions[0], tmp_path / "echo", "1")
    arguments = tmp_path / "echo", "--log-texts"
    with (
        serving(tmp_path, *arguments, TF_TRANSFORMER_API_KEY="swordfish") as running,
        client_of(running.url) as client,
    ):
        body = {"instances": ["secret words"]}
        asked = {"q": "a", "source": "und", "target": "und"}

        def statuses(**given):
            asking = {"/v1/models/echo:predict": body, "/translate": asked}
            return tuple(client.post(path, json=each, **given).status_code for path, each in asking.items())

        assert statuses() == (401, 401)
        assert statuses(headers={"Authorization": "Bearer sword"}) == (403, 403)
        assert statuses(headers={"Authorization": "Bearer swordfish"}) == (200, 200)
        assert client.post("/translate", json={**asked, "api_key": "shark"}).status_code == 403
        answer = client.post("/translate", json={**asked, "api_key": "swordfish"})
        assert answer.json() == {"translatedText": "one a"}
        assert client.get("/frontend/settings").json()["keyRequired"] is True
        for path in ("health/live", "health/ready", "metrics", "languages", "docs", "openapi.json"):
            assert client.get(f"/{path}").status_code == 200
        assert running.end(signal.SIGINT) == 130
        log = running.log.read_text()
        assert "Traceback" not in log
        assert "secret words" in log
        assert "one secret words" in log
        assert "swordfish" not in log
