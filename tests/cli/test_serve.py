"""What a person can do wrong with `serve`; what it does is tested in tests/server/."""

import socket
import sys
from contextlib import nullcontext

import pytest

from tests.cli.command import assert_mistake

MISTAKES = {
    "no such model": (["{}/none"], ["{}/none: no such folder"]),
    "a folder without a model": (["{}"], ["{}: neither a SavedModel"]),
    "a run": (["{}/run"], ["{}/run: a run, not an export", "tf-transformer export"]),
    "two with one name": (["{}/versions", "{}/versions/3"], ["two models are named versions", "symbolic link"]),
    "an address of another machine": (
        ["{}/versions", "--host", "192.0.2.1"],
        ["can't listen on 192.0.2.1 port 8501", "--host or --port"],
    ),
    "no address": (["{}/versions", "--host", "no such host"], ["can't listen on no such host"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake, command, mistakes):
    words, told = MISTAKES[mistake]
    outcome = command("serve", *(word.format(mistakes) for word in words))
    assert outcome.out == b""
    assert_mistake(outcome, *(text.format(mistakes) for text in told))


def test_a_port_in_use_is_one_line(command, mistakes):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        outcome = command("serve", mistakes / "versions", "--port", port)
    assert_mistake(outcome, f"can't listen on 127.0.0.1 port {port}: Address already in use")


@pytest.mark.parametrize("key", ["schlüssel", "sword\udcfc", "sword\tfish", "swordfish ", " swordfish", " "], ids=ascii)
def test_a_key_that_no_header_brings_is_refused(key, command, tmp_path):
    """Before anything is looked for: there is no model."""
    outcome = command("serve", tmp_path, "--api-key", key)
    assert_mistake(outcome, "API key", "must consist of printable ASCII characters", "choose another")
    assert key.strip() not in outcome.err or not key.strip()


@pytest.mark.parametrize("arguments", [["--api-key", ""], []], ids=["argument", "variable"])
def test_an_empty_key_is_no_open_server(arguments, command, tmp_path, monkeypatch):
    """As of a shell's variable that is not set."""
    if not arguments:
        monkeypatch.setenv("TF_TRANSFORMER_API_KEY", "")
    assert_mistake(command("serve", tmp_path, *arguments), "API key", "is empty", "leave it out")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "prometheus_client", "babel"])
def test_without_the_extra_it_says_what_to_install(missing, command, mistakes, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    assert_mistake(command("serve", mistakes / "versions"), missing, "pip install 'tf_transformer[serve]'")


def test_the_options_arrive(command, mistakes, monkeypatch):
    """What is served, and with which limits; what the limits do is tested in tests/server/test_settings.py."""
    from tf_transformer.commands import serve
    from tf_transformer.server import running

    served = []
    monkeypatch.setattr(running, "run", lambda models, settings, *others: served.append((models, settings)))
    monkeypatch.setattr(serve, "keep_what_xla_compiles", lambda: None)
    monkeypatch.setattr(serve, "quiet_tensorflow", lambda **_: nullcontext())
    words = "--port 0 --deadline 7 --queue 11 --batch-tokens 13 --max-body 17 --max-texts 19 --max-characters 23"
    command("serve", mistakes / "versions", *words.split(), "--api-key", "swordfish", "--log-texts")
    ((models, settings),) = served
    model = models["versions"]
    assert (model.seconds, settings.drain_seconds) == (7, 7)
    assert (model.batcher.limits.queue, model.batcher.limits.tokens) == (11, 13)
    assert (settings.max_body, settings.max_texts, settings.max_characters) == (17, 19, 23)
    assert (settings.api_key, settings.log_texts) == ("swordfish", True)
    model.batcher.stop()
