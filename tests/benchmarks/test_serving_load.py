"""One loaded SavedModel under load: no error, answers as serial ones, memory flat; and that the script would tell."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.tiny_run import write_pairs

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serving_load.py"


def put_under_load(model: Path, folder: Path, minutes: float, warm_up: float, requests: int) -> dict:
    """The script's figures, from a process of its own."""
    source, _ = write_pairs(folder)
    options = {"--source": source, "--minutes": minutes, "--warm-up": warm_up, "--requests": requests}
    words = [str(word) for option in options.items() for word in option]
    process = subprocess.run(
        [sys.executable, SCRIPT, str(model), *words], capture_output=True, text=True, timeout=60 * minutes + 600
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return json.loads(process.stdout)


def assert_no_harm(figures: dict, growth: float) -> None:
    assert figures["errors"] == figures["wrong_answers"] == 0
    assert figures["threads"] == 8 and figures["requests"] > 50
    assert 0 < figures["p50_ms"] <= figures["p95_ms"] <= figures["p99_ms"]
    assert figures["memory_growth_percent"] < growth


@pytest.mark.slow
def test_some_seconds_of_load(tiny_saved_model, tmp_path):
    # The first seconds' buffers weigh more than in ten minutes.
    assert_no_harm(put_under_load(tiny_saved_model, tmp_path, minutes=0.1, warm_up=0.1, requests=40), growth=5)


@pytest.mark.slow
def test_ten_minutes_of_load(tiny_saved_model, tmp_path):
    assert_no_harm(put_under_load(tiny_saved_model, tmp_path, minutes=10, warm_up=1, requests=200), growth=1)


# -- the script itself ----


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import serving_load

    yield serving_load
    sys.modules.pop("serving_load")


def test_requests_are_mixed_and_the_same_each_time(script):
    requests = script.make_requests(["A man.", "A dog."], 200)
    assert requests == script.make_requests(["A man.", "A dog."], 200)
    assert {len(request) for request in requests} == {1, 2, 8}
    texts = {text for request in requests for text in request}
    assert set(script.BAD) < texts and b"A man." in texts
    assert len(texts) > len(script.BAD) + 10  # sentences and several joined


def test_growth_is_between_the_first_and_the_last_fifth(script):
    assert script.growth([100] * 10) == 0
    assert script.growth([100, 100, 150, 150, 150, 150, 150, 150, 110, 110]) == pytest.approx(10)
    assert script.growth([100, 300, 100, 100, 100]) == 0


REQUESTS = [[b"a"], [b"b", b"c"], [b""]]


def answer(texts):
    return [(text, float(len(text)), False) for text in texts]


@pytest.fixture
def load(script, monkeypatch):
    """Puts something under load, by a clock on which an answer takes a hundredth of a second and nothing else does."""

    def put_under_load(answer, **options):
        answers = []

        def counted(texts):
            answers.append(texts)
            return answer(texts)

        clock = SimpleNamespace(perf_counter=lambda: len(answers) / 100, sleep=lambda seconds: time.sleep(0.001))
        monkeypatch.setattr(script, "time", clock)
        return script.put_under_load(counted, REQUESTS, seconds=1, **options)

    return put_under_load


def test_what_is_right_is_counted(load):
    found = load(answer, threads=4, warm_up=0.05)
    assert not found.errors and not found.wrong
    figures = found.figures()
    assert figures["requests"] == len(found.latencies) > 0
    assert figures["memory_mib"][0] > 1 and figures["errors"] == 0


@pytest.mark.parametrize(
    "change", [lambda row: (b"x", *row[1:]), lambda row: (row[0], row[1] + 1, False), lambda row: (*row[:2], True)]
)
def test_answers_that_differ_from_serial_ones_are_told(load, change):
    serial = threading.current_thread()

    def muddled(texts):
        rows = answer(texts)
        return rows if threading.current_thread() is serial else [change(row) for row in rows]

    found = load(muddled, threads=2, warm_up=0)
    assert len(found.wrong) == len(found.latencies) > 0


def test_errors_are_told_and_do_not_end_it(load):
    serial = threading.current_thread()

    def failing(texts):
        if threading.current_thread() is not serial and texts == [b"a"]:
            raise RuntimeError("out of order")
        return answer(texts)

    found = load(failing, threads=2, warm_up=0)
    assert found.latencies and set(found.errors) == {"RuntimeError: out of order"}
    assert not found.wrong
