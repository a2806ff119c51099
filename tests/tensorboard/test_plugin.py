"""The server's side of the tab: its index, its routes, bad requests and damaged files."""

import os
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.plugins import base_plugin
from werkzeug.test import Client

from tests.tensorboard.conftest import LAYERS, RUN, STEPS, TAGS, get, plugin_of, start_of_record, weights_of
from tf_transformer.tensorboard import attention_summary
from tf_transformer.tensorboard.events import Index
from tf_transformer.tensorboard.plugin import AttentionPlugin

ONE = {"cross": np.ones((1, 1, 1, 1))}


def write(folder, name="a", step=0, attention=ONE, **options):
    with tf.summary.create_file_writer(str(folder)).as_default(step=step):
        assert attention_summary(name, ["x"], ["y"], attention, **options)


def test_runs_tags_and_steps(plugin):
    listing = get(plugin, "/runs").json
    assert listing["runs"][RUN] == {tag: list(STEPS) for tag in TAGS}
    assert listing["runs"]["long"] == {"a long one": [0]}
    assert listing["runs"]["damaged"] == {"first": [0]}
    ((file, what),) = listing["damaged"].items()
    assert file.startswith("damaged/events.out.tfevents") and "what comes before is shown" in what


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("tag", TAGS)
def test_headers_and_weights_are_those_in_the_file(plugin, log_dir, tag, step):
    source, target, expected = weights_of(log_dir, tag, step)
    where = {"run": RUN, "tag": tag, "step": step}
    header = get(plugin, "/header", **where).json
    assert (header["source"], header["target"]) == (source, target)
    for kind, layers in expected.items():
        for layer in range(LAYERS):
            answer = get(plugin, "/layer", **where, kind=kind, layer=layer)
            assert answer.mimetype == "application/octet-stream"
            np.testing.assert_array_equal(np.frombuffer(answer.data, "<f2").reshape(layers[layer].shape), layers[layer])


@pytest.mark.parametrize(
    ("path", "change", "status", "message"),
    [
        ("/header", {"run": "none"}, 404, "there is no run 'none'"),
        ("/header", {"run": "../toy/attention"}, 404, "there is no run '../toy/attention'"),
        ("/header", {"run": "/etc"}, 404, "there is no run '/etc'"),
        ("/header", {"tag": "<b>"}, 404, "there is no tag '<b>'"),
        ("/header", {"step": "7"}, 404, "there is no step 7"),
        ("/header", {"step": "-6"}, 400, "step is '-6'; give a whole number"),
        ("/header", {"step": "6.0"}, 400, "step is '6.0'; give a whole number"),
        ("/header", {"step": "9" * 30}, 400, "give a whole number"),
        ("/header", {"step": "²"}, 400, "give a whole number"),
        ("/header", {"run": None}, 400, "run is missing"),
        ("/header", {"tag": None}, 400, "tag is missing"),
        ("/header", {"step": None}, 400, "step is missing"),
        ("/layer", {"kind": None}, 400, "kind is missing"),
        ("/layer", {"kind": "all"}, 400, "kind is 'all'; give encoder, decoder, cross"),
        ("/layer", {"layer": None}, 400, "layer is missing"),
        ("/layer", {"layer": "x"}, 400, "layer is 'x'; give a whole number"),
        ("/layer", {"layer": str(LAYERS)}, 404, f"there is no layer {LAYERS}"),
    ],
)
def test_bad_requests_are_told_what_is_wrong(plugin, path, change, status, message):
    query = {"run": RUN, "tag": TAGS[0], "step": str(STEPS[0]), "kind": "cross", "layer": "0", **change}
    get(plugin, "/runs")
    answer = get(plugin, path, **{name: value for name, value in query.items() if value is not None})
    assert answer.status_code == status
    assert message in answer.json["error"]


def test_nothing_but_get_is_answered(plugin):
    assert Client(plugin.get_plugin_apps()["/runs"]).post("/").status_code == 405


def test_the_tab_shows_as_soon_as_there_is_data(tmp_path):
    plugin = plugin_of(tmp_path)
    assert not plugin.is_active()
    with tf.summary.create_file_writer(str(tmp_path / "loss")).as_default(step=0):
        tf.summary.scalar("loss", 1.0)
        tf.summary.text("a", "b")
    assert not plugin.is_active()
    write(tmp_path / "run")
    assert plugin.is_active()
    assert plugin_of(tmp_path).is_active()
    assert get(plugin, "/runs").json == {"runs": {"run": {"a": [0]}}, "damaged": {}}


def test_several_folders_by_name_are_refused_in_words():
    plugin = AttentionPlugin(base_plugin.TBContext(logdir=""))
    assert not plugin.is_active()
    answer = get(plugin, "/runs")
    assert answer.status_code == 400 and "--logdir DIR" in answer.json["error"]


def test_the_index_follows_what_is_written_and_what_is_removed(tmp_path):
    index = Index(tmp_path)
    write(tmp_path, "a", 1)
    index.refresh()
    assert {tag: list(steps) for tag, steps in index.places["."].items()} == {"a": [1]}
    writer = tf.summary.create_file_writer(str(tmp_path / "b"))
    for step in range(3):  # one file that grows
        with writer.as_default(step=step):
            attention_summary("b", ["x"], ["y"], ONE)
        writer.flush()
        index.refresh()
        assert list(index.places["b"]["b"]) == list(range(step + 1))
    shutil.rmtree(tmp_path / "b")
    with pytest.raises(OSError):
        index.header("b", "b", 0)
    index.refresh()
    assert list(index.places) == ["."]


@pytest.mark.parametrize("cut", [1, 4, 15, 40])
def test_an_event_that_is_still_being_written_is_waited_for(tmp_path, cut):
    write(tmp_path / "whole")
    (whole,) = (tmp_path / "whole").iterdir()
    content = whole.read_bytes()
    (tmp_path / "run").mkdir()
    file = tmp_path / "run" / whole.name
    file.write_bytes(content[:-cut])
    index = Index(tmp_path / "run")
    index.refresh()
    assert (index.places, index.damaged) == ({}, {})
    file.write_bytes(content)
    index.refresh()
    assert list(index.places["."]["a"]) == [0]


def test_runs_behind_links_and_below_the_home_folder_are_found(tmp_path, monkeypatch):
    write(tmp_path / "real" / "run")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "linked").symlink_to(tmp_path / "real" / "run")
    (tmp_path / "logs" / "circle").symlink_to(tmp_path / "logs")
    monkeypatch.setenv("HOME", str(tmp_path))
    for log_dir in (tmp_path / "logs", "~/logs"):
        assert Index(log_dir).refresh() == {"linked": {"a": [0]}}
    assert Index("~no-such-user/logs").refresh() == {}


def test_other_runs_can_be_looked_at_while_all_is_read_again(tmp_path):
    for run in "ab":
        for step in range(30):
            write(tmp_path / run, step=step)
    index = Index(tmp_path)
    index.refresh()
    shutil.rmtree(tmp_path / "b")
    again = threading.Thread(target=index.refresh)
    again.start()
    while again.is_alive():
        index.header("a", "a", 29)
    assert list(index.refresh()) == ["a"]


def test_a_file_that_could_not_be_read_is_tried_again(tmp_path, monkeypatch):
    write(tmp_path)
    index = Index(tmp_path)
    with monkeypatch.context() as broken:

        def refuse(*_):
            raise PermissionError

        broken.setattr("builtins.open", refuse)
        assert index.refresh() == {}
    assert index.damaged == {}
    assert index.refresh() == {".": {"a": [0]}}


def test_only_what_is_new_is_read(tmp_path, monkeypatch):
    """The server answers from an index: an event is read when it is found, and when it is looked at."""
    from tf_transformer.tensorboard import events

    read = []
    attention = events._attention
    monkeypatch.setattr(events, "_attention", lambda event: read.append(len(event)) or attention(event))
    write(tmp_path, "a")
    index = Index(tmp_path)
    index.refresh()
    first = len(read)
    assert first
    index.refresh()
    assert len(read) == first
    index.layer(".", "a", 0, "cross", 0)
    assert len(read) == first + 1


def test_a_file_that_is_no_event_file_costs_only_itself(tmp_path):
    write(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "events.out.tfevents.1.x").write_bytes(b"not a record at all, but long enough")
    listing = get(plugin_of(tmp_path), "/runs").json
    assert list(listing["runs"]) == ["good"]
    assert "damaged at byte 0" in listing["damaged"]["bad/events.out.tfevents.1.x"]


def test_a_record_damaged_since_it_was_found_is_told(tmp_path):
    write(tmp_path)
    plugin = plugin_of(tmp_path)
    get(plugin, "/runs")
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"\xff" * file.stat().st_size)
    answer = get(plugin, "/header", run=".", tag="a", step=0)
    assert answer.status_code == 410 and "damaged" in answer.json["error"]


def test_folders_whose_names_are_not_utf8_stay_apart(tmp_path):
    write(tmp_path / "good")
    for name in (b"Gr\xf6\xdfe", b"Gr\xfc\xdfe"):  # in Latin-1
        write(tmp_path / "new")
        os.rename(tmp_path / "new", os.path.join(os.fsencode(tmp_path), name))
    os.mkdir(os.path.join(os.fsencode(tmp_path), b"\xe4"))
    with open(os.path.join(os.fsencode(tmp_path), b"\xe4", b"tfevents\xe4"), "wb") as file:
        file.write(bytes(100))
    plugin = plugin_of(tmp_path)
    listing = get(plugin, "/runs").json
    assert list(listing["runs"]) == [r"Gr\xf6\xdfe", r"Gr\xfc\xdfe", "good"]
    assert list(listing["damaged"]) == [r"\xe4/tfevents\xe4"]
    assert get(plugin, "/header", run=r"Gr\xf6\xdfe", tag="a", step=0).json["source"] == ["x"]


@pytest.mark.parametrize("good", [0, 1, 2])
def test_a_damaged_file_that_is_whole_again_or_gone_is_no_longer_named(tmp_path, good):
    folder = tmp_path / "run"
    with tf.summary.create_file_writer(str(folder)).as_default(step=0):
        for name in "ab":
            assert attention_summary(name, ["x"], ["y"], ONE)
    (file,) = folder.iterdir()
    content = file.read_bytes()
    start = start_of_record(content, good)
    plugin = plugin_of(tmp_path)

    def listed(data):
        file.write_bytes(data)
        listing = get(plugin, "/runs").json
        return list(listing["runs"].get("run", {})), list(listing["damaged"].values())

    damaged = [f"damaged at byte {start:,}; what comes before is shown"]
    before = ["a"][: max(0, good - 1)]  # the first record is the file's version
    for size in (start + 100, len(content)):  # a copy under way, and one with its full length from the beginning
        assert listed(content[:start].ljust(size, b"\0")) == (before, damaged)
    assert listed(content) == (["a", "b"], [])
    file.write_bytes(bytes(100))  # written again, and removed
    assert list(get(plugin, "/runs").json["damaged"]) == [f"run/{file.name}"]
    shutil.rmtree(folder)
    assert get(plugin, "/runs").json == {"runs": {}, "damaged": {}}


def test_a_link_beside_a_run_leaves_the_run_its_own_name(tmp_path):
    write(tmp_path / "run5")
    (tmp_path / "latest").symlink_to("run5")
    assert list(Index(tmp_path).refresh()) == ["latest", "run5"]


def test_links_to_and_fro_do_not_multiply_the_runs(tmp_path):
    """Of the thousands of names with two links or more only those are shown whose run has no other."""
    logs, data = tmp_path / "logs", tmp_path / "data"
    runs = [f"run{number}" for number in range(8)]
    for run in runs:
        write(logs / run)
        for other in runs:
            (logs / run / f"to_{other}").symlink_to(logs / other)
    data.mkdir()
    write(tmp_path / "far")
    (data / "linked").symlink_to(tmp_path / "far")
    (logs / "data").symlink_to(data)
    one_link = {f"{run}/to_{other}" for run in runs for other in runs if other != run}
    assert set(Index(logs).refresh()) == {*runs, *one_link, "data/linked"}
