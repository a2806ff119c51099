"""Start, a new version, SIGTERM: real processes, with SavedModels that answer with their version's word."""

import os
import shutil
import signal
import threading
import time

import httpx
import pytest

from tests.bounded import begun, eventually, within
from tests.server.running import save_echo, serving, until


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Two SavedModels, whose words are `one` and `two`."""
    folder = tmp_path_factory.mktemp("versions")
    return [save_echo(folder / word, word) for word in ("one", "two")]


def predict(url, text="a", **client):
    return httpx.post(f"{url}/v1/models/echo:predict", json={"instances": [text]}, timeout=60, **client)


def version_of(url):
    return httpx.get(f"{url}/v1/models/echo").json()["model_version_status"][0]["version"]


def put(source, folder, name):
    shutil.copytree(source, folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


def hold(version):
    """Makes the version's loading wait, at its model card, until somebody opens the pipe that is returned."""
    (version / "assets.extra").mkdir()
    os.mkfifo(version / "assets.extra" / "model_card.md")
    return version / "assets.extra" / "model_card.md"


def test_starting_then_ready_then_draining(versions, tmp_path):
    put(versions[0], tmp_path / "echo", "1")
    held, go = hold(tmp_path / "echo" / "1"), tmp_path / "go"
    with serving(tmp_path, tmp_path / "echo", "--deadline", 120, ready=False) as running:
        assert until(f"{running.url}/health/ready", 503).text == "starting\n"
        assert httpx.get(f"{running.url}/health/live", timeout=60).status_code == 200
        refused = predict(running.url)
        assert refused.status_code == 503
        assert refused.json() == {"error": "the server is starting"}
        assert int(refused.headers["Retry-After"]) > 0
        within(lambda: held.write_text(""))
        until(f"{running.url}/health/ready", 200)
        assert within(running.process.stdout.readline) == f"serving echo at {running.url}\n"

        answer = begun(lambda: predict(running.url, f"wait {go}"))
        with httpx.Client(base_url=running.url, timeout=60) as client:  # a connection from before the signal
            eventually(lambda: "requests_under_way 2.0" in client.get("/metrics").text)  # its own is the other one
            running.process.send_signal(signal.SIGTERM)
            eventually(lambda: client.get("/health/ready").text == "draining\n")
            assert client.get("/health/ready").status_code == 503
            late = client.post("/v1/models/echo:predict", json={"instances": ["a"]})
            assert (late.status_code, late.json()) == (503, {"error": "the server is draining"})
        go.touch()
        assert answer.result(60).json()["predictions"][0]["translation"] == f"one wait {go}"
        assert running.process.wait(60) == 0
        assert "Traceback" not in running.log.read_text()


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_while_a_model_is_loaded_it_ends_all_the_same(versions, tmp_path, number, expected):
    put(versions[0], tmp_path / "echo", "1")
    hold(tmp_path / "echo" / "1")
    with serving(tmp_path, tmp_path / "echo", ready=False) as running:
        until(f"{running.url}/health/ready", 503)
        status, seconds = running.end(number)
        assert (status, seconds < 15) == (expected, True)
        assert running.log.read_text() == ""


def test_a_new_version_is_taken_up_under_load_without_losing_a_request(versions, tmp_path):
    folder = tmp_path / "echo"
    put(versions[0], folder, "1")
    stop, answers, lock = threading.Event(), [], threading.Lock()

    def ask(url):
        with httpx.Client(timeout=60) as client:
            while not stop.is_set():
                answer = client.post(f"{url}/v1/models/echo:predict", json={"instances": ["a", "b"]})
                with lock:
                    answers.append((answer.status_code, answer.json()))

    with serving(tmp_path, folder) as running:
        threads = [threading.Thread(target=ask, args=[running.url], daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        put(versions[1], folder, "2")
        eventually(lambda: version_of(running.url) == "2")
        (folder / "3").mkdir()
        (folder / "3" / "saved_model.pb").write_bytes(b"damaged")  # or half copied
        eventually(lambda: "version 3: " in running.log.read_text())
        assert version_of(running.url) == "2"
        assert predict(running.url).json()["predictions"][0]["translation"] == "two a"
        shutil.rmtree(folder / "3")
        (folder / "2").rename(tmp_path / "elsewhere")  # back to the one before
        eventually(lambda: version_of(running.url) == "1")
        time.sleep(0.2)
        stop.set()
        for thread in threads:
            thread.join(60)
        metrics = httpx.get(f"{running.url}/metrics").text
        assert running.end() == (0, pytest.approx(2, abs=2))
    assert 'model_loads_total{model="echo",result="failed"} 1.0' in metrics
    assert 'model_loads_total{model="echo",result="loaded"} 3.0' in metrics
    assert {status for status, _ in answers} == {200}
    words = [{row["translation"] for row in answer["predictions"]} for _, answer in answers]
    assert all(
        said in ({"one a", "one b"}, {"two a", "two b"}, {"one a", "two b"}, {"two a", "one b"}) for said in words
    )
    assert words[0] == words[-1] == {"one a", "one b"}
    assert {"two a", "two b"} in words


def test_ctrl_c_is_status_130_and_a_model_that_cannot_be_loaded_status_2(versions, tmp_path):
    put(versions[0], tmp_path / "echo", "1")
    with serving(tmp_path, tmp_path / "echo") as running:
        status, seconds = running.end(signal.SIGINT)
        assert (status, seconds < 10) == (130, True)
        assert "Traceback" not in running.log.read_text()
    variables = tmp_path / "echo" / "1" / "variables" / "variables.index"
    variables.write_bytes(b"damaged")
    with serving(tmp_path, tmp_path / "echo", ready=False) as running:
        assert running.process.wait(60) == 2
        (line,) = running.log.read_text().splitlines()
        assert line.startswith("tf-transformer: ")
        assert "the SavedModel can't be loaded" in line


def test_a_key_and_texts_in_the_log(versions, tmp_path):
    put(versions[0], tmp_path / "echo", "1")
    arguments = tmp_path / "echo", "--log-texts"
    with serving(tmp_path, *arguments, TF_TRANSFORMER_API_KEY="swordfish") as running:
        body = {"instances": ["secret words"]}
        url = f"{running.url}/v1/models/echo:predict"
        asked = {"q": "a", "source": "und", "target": "und"}
        translate = f"{running.url}/translate"

        def statuses(**given):
            return httpx.post(url, json=body, **given).status_code, httpx.post(
                translate, json=asked, **given
            ).status_code

        assert statuses() == (401, 401)
        assert statuses(headers={"Authorization": "Bearer sword"}) == (403, 403)
        assert statuses(headers={"Authorization": "Bearer swordfish"}) == (200, 200)
        assert httpx.post(translate, json={**asked, "api_key": "shark"}).status_code == 403
        assert httpx.post(translate, json={**asked, "api_key": "swordfish"}).json() == {"translatedText": "one a"}
        assert httpx.get(f"{running.url}/frontend/settings").json()["keyRequired"] is True
        for path in ("health/live", "health/ready", "metrics", "languages", "docs", "openapi.json"):
            assert httpx.get(f"{running.url}/{path}").status_code == 200
        assert running.end()[0] == 0
        log = running.log.read_text()
        assert "secret words" in log
        assert "one secret words" in log
        assert "swordfish" not in log
