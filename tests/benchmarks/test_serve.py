"""The benchmarks of the server: what they tell is what happened, and the server stands some seconds of them."""

import json
import shutil
import subprocess
import sys
import threading
import time
import unicodedata
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.bounded import SECONDS
from tests.tiny_run import write_pairs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAIR = {"source": "en", "target": "de"}


@pytest.fixture
def modules(monkeypatch):
    """The benchmarks' modules, importable as they are for the scripts."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(BENCHMARKS)
    import hostile
    import serve
    import serve_endurance

    # Pauses that leave a server time for others, which the stub does not need.
    clock = SimpleNamespace(
        monotonic=time.monotonic,
        perf_counter=time.perf_counter,
        sleep=lambda seconds: time.sleep(min(seconds, 0.01)),
    )
    monkeypatch.setattr(serve_endurance, "time", clock)
    yield SimpleNamespace(hostile=hostile, serve=serve, endurance=serve_endurance)
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def run_script(name: str, model: Path, folder: Path, *options) -> str:
    source, _ = write_pairs(folder)
    command = [sys.executable, BENCHMARKS / name, model, "--source", source, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("wrk"), reason="needs wrk")
def test_some_seconds_of_load(tiny_saved_model, tmp_path):
    output = tmp_path / "figures.json"
    options = ["--clients", 1, 64, "--seconds", 2, "--rounds", 1, "--output", output]
    shown = run_script("serve.py", tiny_saved_model, tmp_path, *options)
    figures = json.loads(output.read_text())
    assert [(load["server"], load["clients"]) for load in figures["loads"]] == [
        (server, clients) for server in ("tf-transformer serve", "plain server") for clients in (1, 64)
    ]
    for load in figures["loads"]:
        assert load["lost"] == 0 and load["requests"] > 5
        assert 0 < load["p50"][0] <= load["p99"][0]
        assert f"| {load['server']} | {load['clients']} |" in shown
    assert figures["library"]["rates"][0] > 1 and "of the library's rate" in shown


@pytest.mark.slow
def test_some_seconds_of_endurance(tiny_saved_model, tmp_path):
    shown = run_script("serve_endurance.py", tiny_saved_model, tmp_path, "--seconds", 30, "--odd", 600)
    figures = json.loads(shown)  # faults would stand behind
    assert figures["faults"] == figures["exit_status"] == 0
    assert min(figures[f"{kind} requests"] for kind in ("good", "odd", "health")) > 10
    assert len([name for name in figures if name.startswith("hostile: ")]) > 20


# -- the load script itself ----


def test_rounds_are_added_and_shown(modules):
    load = modules.serve.Load("tf-transformer serve", 64)
    for requests, wrong in ((100, 0), (300, 1), (200, 2)):
        load.add(
            {"requests": requests, "seconds": 10.0, "p50_ms": 5.0, "p99_ms": requests, "wrong": wrong, "errors": 1}
        )
    assert (load.rates, load.requests, load.lost) == ([10.0, 29.9, 19.8], 600, 6)
    assert modules.serve.table([load]).splitlines()[-1] == (
        "| tf-transformer serve | 64 | 19.8 (10.0–29.9) | 5.0 | 200.0 | 600 | 6 |"
    )


def test_comparison_is_with_the_library_and_the_other_servers(modules):
    serve = modules.serve
    loads = [
        serve.Load(serve.OURS, 1, [9.0], [30.0], [40.0]),
        serve.Load(serve.OURS, 64, [90.0], [700.0], [900.0]),
        serve.Load(serve.PLAIN, 64, [30.0], [2000.0], [3000.0]),
        serve.Load(serve.LIBRETRANSLATE, 64, [60.0], [1000.0], [1500.0]),
    ]
    told = serve.compared(loads, serve.Library([100.0, 120.0, 80.0], [20.0]))
    assert "64 clients: 0.90 of the library's rate (goal: 0.8)." in told
    assert "One client: p50 1.50 times the library's call (goal: 1.5)." in told
    assert "64 clients: 3.00 times the rate of the plain server." in told
    assert "64 clients: 1.50 times the rate of LibreTranslate." in told


# -- what is sent ----


def test_odd_texts_are_of_every_kind_and_the_same_each_time(modules):
    texts = modules.hostile.odd_texts(10_000)
    assert texts == modules.hostile.odd_texts(10_000) and len(texts) == 10_000
    characters = set("".join(texts))
    assert {ord(character) >> 16 for character in characters} == set(range(17))
    kinds = {unicodedata.category(character) for character in characters}
    assert {"Cc", "Cf", "Co", "Cn", "Mn", "So", "Lo", "Zs", "Zl"} <= kinds and "Cs" not in kinds
    assert "R" in map(unicodedata.bidirectional, characters) and "AL" in map(unicodedata.bidirectional, characters)
    assert max(map(len, texts)) > 1_000 and "" in texts
    "".join(texts).encode()


SERIAL = 150  # more requests than are asked one after the other, before everything at once


class Stub(BaseHTTPRequestHandler):
    """A server that answers in capitals, and does one thing wrong."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wrong = ""
    answered = 0

    def do_GET(self):
        status = 503 if Stub.wrong == "health" and Stub.answered > 50 else 200
        self.answer(status, [{"code": "en", "targets": ["de"]}] if self.path == "/languages" else {})

    def do_POST(self):
        q = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["q"]
        Stub.answered += 1
        many = isinstance(q, list)
        translated = [text.upper() for text in q] if many else q.upper()
        if Stub.wrong == "answers" and Stub.answered > SERIAL and not many:
            translated += "!"
        if Stub.wrong == "lists" and many and Stub.answered > SERIAL:
            translated = translated[1:]
        self.answer(500 if Stub.wrong == "status" and Stub.answered > SERIAL else 200, {"translatedText": translated})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture
def stub():
    Stub.wrong, Stub.answered = "", 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def endure(modules, stub, enough, hostile=(), grown=1.0):
    """As much as is enough; of the hostile acts only those given."""
    memory = iter(range(1_000_000))
    served = SimpleNamespace(
        address=stub, is_alive=True, resident_memory=lambda: 2**30 * (grown if next(memory) > 20 else 1.0)
    )
    endurance = modules.endurance.Endurance(served, ["A man.", "A dog."], odd=100, seconds=1)
    endurance.hostile = [*hostile, modules.hostile.Hostile("nothing", lambda address: (None, 0.0), {None}, slow=True)]
    endurance.hostile += [modules.hostile.Hostile("nothing", lambda address: (None, 0.0), {None})]
    last = time.monotonic() + SECONDS
    endurance._going_on = lambda: time.monotonic() < last and not (endurance.memory and enough(endurance))
    figures = endurance.run()
    return figures, endurance.faults


def has_told(*words):
    return lambda endurance: any(all(word in fault for word in words) for fault in endurance.faults)


def test_a_server_without_faults_has_none(modules, stub):
    counted = [f"{kind} requests" for kind in ("good", "odd", "health")]
    figures, faults = endure(modules, stub, lambda endurance: all(endurance.counts[name] > 1 for name in counted))
    assert not faults and figures["faults"] == 0
    assert all(figures[name] > 1 for name in counted)
    assert figures["memory_growth_percent"] == 0


@pytest.mark.parametrize(("wrong", "told"), [("answers", "good: "), ("status", "odd: "), ("lists", "odd: ")])
def test_wrong_answers_are_told(modules, stub, wrong, told):
    Stub.wrong = wrong
    _, faults = endure(modules, stub, has_told(told))
    assert any(fault.startswith(told) for fault in faults)


def test_a_server_that_is_not_ready_is_told(modules, stub):
    Stub.wrong = "health"
    _, faults = endure(modules, stub, has_told("/health/"))
    assert any("/health/" in fault and "503" in fault for fault in faults)


def test_memory_that_grows_is_told(modules, stub, monkeypatch):
    monkeypatch.setattr(modules.endurance, "FULL_RUN", 1)
    figures, faults = endure(modules, stub, lambda endurance: len(endurance.memory) >= 60, grown=1.05)
    assert figures["memory_growth_percent"] == pytest.approx(5)
    assert any("memory has grown" in fault for fault in faults)


def test_hostile_requests_that_are_answered_wrongly_are_told(modules, stub):
    hostile = modules.hostile
    acts = [act for act in hostile.hostile_acts(PAIR) if act.name in ("another path", "gone at once")]
    assert len(acts) == 2
    figures, faults = endure(
        modules, stub, lambda endurance: endurance.faults and endurance.counts["hostile: gone at once: closed"], acts
    )
    assert figures["hostile: gone at once: closed"] > 0
    assert faults and all(fault.startswith("hostile: another path: 200") for fault in faults)
