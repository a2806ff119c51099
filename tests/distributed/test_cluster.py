"""What `TF_CONFIG` may say, and how a worker waits for the others."""

import json
import socket
import threading
import time

import pytest

from tests.bounded import SECONDS, begun, eventually
from tf_transformer.distributed.cluster import Cluster, is_chief, read_cluster, wait_for_workers
from tf_transformer.distributed.launcher import worker_configs
from tf_transformer.errors import UserError, WorkerLost


@pytest.fixture
def told(monkeypatch):
    """What is read from a `TF_CONFIG`, given as what JSON is made of or as text."""

    def read(config):
        monkeypatch.setenv("TF_CONFIG", config if isinstance(config, str) else json.dumps(config))
        return read_cluster()

    return read


def config(jobs, kind="worker", index=0):
    return {"cluster": jobs, "task": {"type": kind, "index": index}}


def test_workers_are_numbered_as_they_come(told):
    cluster = told(config({"worker": ["a:1", "b:2", "c:3"]}, index=2))
    assert cluster == Cluster(("worker 0", "worker 1", "worker 2"), ("a:1", "b:2", "c:3"), 2)
    assert cluster.name(1) == "worker 1 (b:2)"
    assert not is_chief()
    told(config({"worker": ["a:1", "b:2"]}))
    assert is_chief()


def test_a_chief_comes_first(told):
    jobs = {"worker": ["a:1", "b:2"], "chief": ["c:3"]}
    expected = ("chief 0", "worker 0", "worker 1"), ("c:3", "a:1", "b:2")
    assert told(config(jobs, "chief")) == Cluster(*expected, 0)
    assert told(config(jobs, index=0)) == Cluster(*expected, 1)
    assert not is_chief()


@pytest.mark.parametrize("alone", ["", "{}", '{"cluster": {}}', config({"worker": ["a:1"]})])
def test_without_others_there_is_no_cluster(told, alone):
    assert told(alone) is None
    assert is_chief()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("worker 0", "TF_CONFIG is worker 0; it must be like {"),
        ("[1]", r"TF_CONFIG is \[1\]; it must be like {"),
        (config({"worker": 3}), "it must be like {"),
        (config({"worker": ["a:1", "b:2"]}, index="first"), "it must be like {"),
        (config({"worker": ["a:1", "b:2"]}, index=2), "this is worker 2; its cluster has worker 0, worker 1"),
        (config({"worker": ["a:1", "b:2"]}, "chief"), "this is chief 0; its cluster has worker 0, worker 1"),
        (config({"worker": ["a:1", "b:2"], "ps": ["c:3"]}), "names the job ps; only chief and worker are allowed"),
        (config({"worker": ["a:1", "b:2"]}, "evaluator"), "names the job evaluator"),
        (config({"worker": ["a:1"], "chief": ["b:2", "c:3"]}), "several chiefs"),
        (config({"worker": ["a", "b:2"]}), "the address a; it must be HOST:PORT"),
        (config({"worker": ["a:1", "b:70000"]}), "the address b:70000; it must be HOST:PORT"),
        (config({"worker": ["a:1", "a:1"]}), "the address a:1 twice"),
    ],
)
def test_mistakes_are_told_in_one_line(told, wrong, message):
    with pytest.raises(UserError, match=message) as error:
        told(wrong)
    assert "\n" not in str(error.value)


def addresses(number):
    return tuple(json.loads(worker_configs(number)[0])["cluster"]["worker"])


def test_all_wait_for_the_last(told):
    names = addresses(3)
    arrived, all_there = [], threading.Event()

    def come(index):
        wait_for_workers(Cluster(("worker 0", "worker 1", "worker 2"), names, index), seconds=SECONDS)
        arrived.append(index)
        # As TensorFlow's own server does now, so that those who still wait find it.
        with socket.create_server(("127.0.0.1", int(names[index].rpartition(":")[2]))):
            assert all_there.wait(SECONDS)

    early = [begun(lambda index=index: come(index)) for index in (0, 1)]
    time.sleep(1)
    assert arrived == [] and not any(each.done() for each in early)
    late = begun(lambda: come(2))
    eventually(lambda: sorted(arrived) == [0, 1, 2])
    all_there.set()
    for each in (*early, late):
        each.result(SECONDS)


def test_those_who_do_not_come_are_named():
    names = addresses(3)
    cluster = Cluster(("worker 0", "worker 1", "worker 2"), names, 0)
    host, port = names[1].split(":")
    with (
        socket.create_server((host, int(port))),
        pytest.raises(WorkerLost, match=rf"no answer from worker 2 \({names[2]}\) within 0\.5 s; start") as error,
    ):
        wait_for_workers(cluster, seconds=0.5)
    assert "worker 1" not in str(error.value)


def test_a_port_that_is_taken_is_told():
    names = addresses(2)
    host, port = names[0].split(":")
    with socket.create_server((host, int(port))), pytest.raises(UserError, match="own port can't be opened: .*in use"):
        wait_for_workers(Cluster(("worker 0", "worker 1"), names, 0), seconds=1)
