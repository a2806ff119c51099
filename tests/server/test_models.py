"""What is served: found by its path, chosen by its languages, and taken up whatever lies beside it."""

import asyncio
import gc
import json
import shutil
import threading
import weakref
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import pytest
import tensorflow as tf
from prometheus_client.parser import text_string_to_metric_families

from tests.bounded import SECONDS, begun, eventually
from tests.server.running import client_of, save_echo, serving_here, until
from tf_transformer.decoding import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.files.model_formats import OPTIONS_FILE
from tf_transformer.server import lifecycle
from tf_transformer.server import models as served
from tf_transformer.server.app import create_app
from tf_transformer.server.batching import BatchLimits
from tf_transformer.server.libretranslate import _model_for
from tf_transformer.server.models import Models, Source, find_source
from tf_transformer.server.requests import Refusal
from tf_transformer.server.running import listen
from tf_transformer.server.settings import Settings
from tf_transformer.server.versions import (
    DEFAULT_SIGNATURES,
    SavedModelVersion,
    Version,
    _translate_signature,
)
from tf_transformer.translation.signature_options import OPTION_TYPES
from tf_transformer.translation.texts import Translation


@pytest.mark.parametrize(("path", "number"), [("..", None), ("../3", 3), (".", 3), ("../../demo", None)])
def test_the_name_is_that_of_the_folder(path, number, tmp_path, monkeypatch):
    version = tmp_path / "demo" / "3"
    version.mkdir(parents=True)
    (version / "saved_model.pb").touch()
    monkeypatch.chdir(version)
    source = find_source(Path(path))
    assert (source.name, source.number) == ("demo", number)
    assert [folder.resolve() for folder in source.versions().values()] == [version.resolve()]


def test_a_version_that_cannot_be_looked_into_hides_no_other(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").touch()
    (tmp_path / "2").symlink_to("a" * 300)  # the system refuses to look: its name is too long
    with pytest.raises(OSError):
        (tmp_path / "2" / "saved_model.pb").is_file()
    assert Source("demo", tmp_path).versions() == {1: tmp_path / "1"}


@pytest.mark.parametrize("host", ["a..b", "a" * 70])
def test_a_host_that_cannot_be_one(host):
    with pytest.raises(UserError, match="can't listen on"):
        listen(host, 0)


def test_another_programs_translate_can_be_called(tmp_path):
    """It takes and gives something else than ours, so it does not translate."""
    module = tf.Module()
    module.upper = tf.function(
        lambda x: {"y": tf.strings.upper(x)}, [tf.TensorSpec([None], tf.string, name="x")], autograph=False
    )
    tf.saved_model.save(module, str(tmp_path / "1"), {"translate": module.upper})
    model = Models([Source("other", tmp_path)])["other"]
    model.load_newest()
    assert not model.version.translates
    assert asyncio.run(model.call(model.version, "translate", x=["a dog"]))["y"].tolist() == [b"A DOG"]
    model.batcher.stop()


def save_alternatives(folder):
    """A SavedModel that gives each text as often as it is asked for, and takes options as an export of ours does."""

    def translate(text):
        score = tf.zeros_like(text, tf.float32)
        return {"translation": text, "score": score, "truncated": score > 0.0}

    def with_options(text, **options):
        output = translate(tf.repeat(text[:, None], options["num_hypotheses"], axis=1))
        return {**output, "truncated": tf.reduce_any(output["truncated"], axis=1)}

    texts = {name: tf.TensorSpec([None], tf.string, name) for name in ("text", "prefix")}
    options = {name: tf.TensorSpec([], dtype, name) for name, dtype in OPTION_TYPES.items()}
    module = tf.Module()
    module.translate = tf.function(translate, [texts["text"]], autograph=False)
    module.translate_with_options = tf.function(with_options, autograph=False)
    signatures = {
        "translate": module.translate,
        "translate_with_options": module.translate_with_options.get_concrete_function(**texts, **options),
    }
    tf.saved_model.save(module, str(folder), signatures)
    (folder / "assets.extra").mkdir()
    (folder / "assets.extra" / OPTIONS_FILE).write_text(json.dumps(asdict(DecodingOptions())))


def test_alternatives_when_the_folder_is_gone(tmp_path):
    save_alternatives(tmp_path / "1")
    version = SavedModelVersion(tmp_path / "1")
    version.warm_up()
    shutil.rmtree(tmp_path / "1")
    (found,) = version.translate([b"A man."], {"num_hypotheses": 2})
    assert len(found.others) == 1


def test_a_model_that_vanished_since_the_command_looked_is_not_ready(tmp_path):
    model = Models([Source("demo", tmp_path / "demo")])["demo"]
    with pytest.raises(UserError, match="demo: the model's versions are gone; export it again"):
        model.load_newest()
    model.batcher.stop()


def put(version):
    """What looks like a SavedModel."""
    version.with_suffix(".new").mkdir()
    (version.with_suffix(".new") / "saved_model.pb").touch()
    version.with_suffix(".new").rename(version)


class Odd(Version):
    """Version 2 fails when it is asked for the first time."""

    translates = True

    def translate(self, texts, options):
        if self.folder.name == "2":
            raise RuntimeError("out of order")
        return [Translation(self.folder.name, 0.0, False) for _ in texts]


def test_after_a_version_that_fails_a_later_one_is_taken_up(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(served, "load_version", Odd)
    monkeypatch.setattr(lifecycle, "WATCH_SECONDS", 0.01)

    put(tmp_path / "1")
    model = (models := Models([Source("odd", tmp_path)]))["odd"]
    with (
        serving_here(create_app(models, Settings())) as (_, port),
        client_of(f"http://127.0.0.1:{port}") as client,
    ):
        until(f"http://127.0.0.1:{port}/health/ready", 200)
        put(tmp_path / "2")
        eventually(lambda: "can't be served (out of order); keeping version 1" in caplog.text)
        assert model.number == 1
        put(tmp_path / "3")
        eventually(lambda: model.number == 3)
        answer = client.post("/translate", json={"q": "a", "source": "und", "target": "und"})
        assert answer.json() == {"translatedText": "3"}


class Held(Version):
    """Says its number; version 1 says it once it is let go."""

    translates, languages = True, ("en", "de")
    signatures = MappingProxyType(dict.fromkeys(DEFAULT_SIGNATURES, _translate_signature()))
    go, began = threading.Event(), threading.Semaphore(0)

    def translate(self, texts, options):
        if self.folder.name == "1" and b"a" in texts:  # and not when it is warmed up
            self.began.release()
            assert self.go.wait(SECONDS)
        return [Translation(self.folder.name, 0.0, False) for _ in texts]


def test_requests_that_wait_are_answered_by_the_version_that_they_came_for(tmp_path, monkeypatch):
    """Also those behind others, which no thread had begun when a newer version was loaded. Then the old one goes."""
    monkeypatch.setattr(served, "load_version", Held)
    monkeypatch.setattr(lifecycle, "WATCH_SECONDS", 0.01)
    put(tmp_path / "1")
    model = (models := Models([Source("held", tmp_path)], BatchLimits(items=1)))["held"]
    with (
        serving_here(create_app(models, Settings())) as (_, port),
        client_of(url := f"http://127.0.0.1:{port}") as client,
    ):
        until(f"{url}/health/ready", 200)
        old = weakref.ref(model.version)
        asked = {
            "/v1/models/held/versions/1:predict": {"instances": ["a"]},
            "/translate": {"q": "a", "source": "en", "target": "de"},
            "/page/translate": {"model": "held", "text": "a"},
        }
        first = [begun(lambda: client.post("/translate", json=asked["/translate"])) for _ in range(2)]
        assert all(Held.began.acquire(timeout=SECONDS) for _ in first)  # both threads are at work
        waiting = {path: begun(lambda path=path: client.post(path, json=asked[path])) for path in asked}
        eventually(lambda: len(model.batcher) == 3)
        put(tmp_path / "2")
        eventually(lambda: model.number == 2)
        Held.go.set()
        found = {path: answer.result(SECONDS).json() for path, answer in waiting.items()}
        assert found["/v1/models/held/versions/1:predict"]["predictions"][0]["translation"] == "1"
        assert found["/translate"] == {"translatedText": "1"}
        assert (found["/page/translate"]["parts"][1]["text"], found["/page/translate"]["version"]) == ("1", 1)
        late = client.post("/page/translate", json=asked["/page/translate"]).json()
        assert (late["parts"][1]["text"], late["version"]) == ("2", 2)
        eventually(lambda: old() is None and not model._replaced)


def test_a_version_that_a_failed_request_holds_goes_too(tmp_path, monkeypatch):
    """An error holds the frames that it came through, and these the error: a ring, which only a collection finds."""
    monkeypatch.setattr(served, "load_version", Held)
    put(tmp_path / "1")
    model = Models([Source("held", tmp_path)], seconds=0.01)["held"]
    model.load_newest()
    ring = [model.version]
    ring.append(ring)
    old = weakref.ref(model.version)
    gc.disable()  # which may collect at any time
    try:
        put(tmp_path / "2")
        model.load_newest()
        del ring
        assert old() is not None
        eventually(lambda: model.free_replaced() or old() is None)
    finally:
        gc.enable()


class Speaking(Version):
    translates = True
    languages = None

    def __init__(self, *languages):
        self.languages = languages

    def translate(self, texts, options):
        return [Translation("ü" * len(texts), 0.0, False) for _ in texts]


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (("en", "pt"), "pt"),
        (("en", "pt-BR"), "br"),
        (("en", "pt_br"), "br"),
        (("en-GB", "pt-BR"), "br"),
        (("en", "pt-PT"), "pt"),
        (("auto", "pt-BR"), "br"),
        (("auto", "pt"), None),  # from English or German
        (("de-AT", "pt"), "from German"),
    ],
)
def test_the_model_for_exactly_these_languages_goes_first(asked, name):
    pairs = {"br": ("en", "pt-BR"), "pt": ("en", "pt"), "from German": ("de", "pt")}
    models = Models([Source(each, None, 1) for each in pairs])
    for each, languages in pairs.items():
        models[each].version = Speaking(*languages)
        models[each].batcher.stop()
    if name is None:
        with pytest.raises(Refusal, match="does not detect languages"):
            _model_for(models, *asked)
    else:
        assert _model_for(models, *asked)[0].name == name


@pytest.mark.parametrize("text", ["ä€😀", "ä€😀".encode()])
def test_characters_are_counted_and_not_bytes(text):
    models = Models([Source("demo", None, 1)])
    models["demo"].version = Speaking("und", "und")
    asyncio.run(models["demo"].translate(models["demo"].version, [text]))
    models["demo"].batcher.stop()
    families = text_string_to_metric_families(models.metrics.text()[0].decode())
    counted = {sample.name: sample.value for family in families for sample in family.samples}
    assert counted["tf_transformer_source_characters_total"] == 3
    assert counted["tf_transformer_translation_characters_total"] == 1


def test_the_echo_of_the_other_tests_translates(tmp_path):
    assert SavedModelVersion(save_echo(tmp_path / "1", "one")).translates
