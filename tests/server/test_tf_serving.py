"""TensorFlow Serving's REST interface: the same answers as the stand-in that follows that server's rules."""

import base64
import http.client
import json
import subprocess
import sys
import time
from types import MappingProxyType

import httpx
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

from serving import client as serving_client
from tests.bounded import SECONDS, begun
from tests.export.model_server import Model, serve
from tests.export.test_serving import INPUTS, SERVING, SOURCES, TARGETS, inputs_of
from tests.server.running import client_of, serving_here, until
from tf_transformer.server import models as served
from tf_transformer.server import predict_json
from tf_transformer.server.app import create_app
from tf_transformer.server.models import Models, Source
from tf_transformer.server.requests import Refusal
from tf_transformer.server.settings import Settings
from tf_transformer.server.versions import Version
from tf_transformer.translation.signature_options import OPTION_TYPES


@pytest.fixture(scope="module")
def other(tiny_saved_model, tiny_loaded):
    """The stand-in, in this process, with the same model."""
    with serve(Model(tiny_saved_model, "tiny", tiny_loaded)) as running:
        yield running


def both(server, other, body, path="/v1/models/tiny:predict") -> tuple[httpx.Response, httpx.Response]:
    ports = int(server.url.rpartition(":")[2]), other.rest_port
    return tuple(httpx.post(f"http://127.0.0.1:{port}{path}", content=body, timeout=SECONDS) for port in ports)


def same(got, expected) -> None:
    """Numbers nearly, all else exactly, in nested lists and objects."""
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for key in expected:
            same(got[key], expected[key])
    elif isinstance(expected, list):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
    else:
        assert got == (pytest.approx(expected, rel=1e-4, abs=1e-4) if isinstance(expected, float) else expected)


@pytest.mark.thorough
def test_every_signature_in_column_form(server, other):
    names = set(other.model.signatures) - {"warm_up"}
    assert len(names) > 6
    for name in names:
        body = serving_client.rest_body(name, inputs_of(other.model, name))
        ours, theirs = both(server, other, body)
        assert ours.status_code == theirs.status_code == 200, ours.text
        same(ours.json(), theirs.json())


@pytest.mark.parametrize(
    "asked",
    [
        {"instances": SOURCES},
        {"instances": [{"text": text} for text in SOURCES]},
        {"instances": [{"b64": base64.b64encode(b"A man \xff").decode()}, "", "\x00"]},
        {"signature_name": "score", "instances": [{"source": SOURCES[0], "target": TARGETS[0]}]},
        {"signature_name": "translate_nbest", "instances": [SOURCES[0]]},
        {"signature_name": "detokenize", "instances": [[5, 6], [7, 8]]},
        {"inputs": SOURCES},
        {"signature_name": "translate", "inputs": {"text": []}},
    ],
)
def test_both_forms(server, other, asked):
    ours, theirs = both(server, other, json.dumps(asked).encode())
    assert ours.status_code == theirs.status_code == 200, ours.text
    same(ours.json(), theirs.json())


WRONG = [
    {},
    {"instances": []},
    {"instances": ["a"], "inputs": ["a"]},
    {"instances": [5]},
    {"signature_name": "nonsense", "instances": ["a"]},
    {"signature_name": "score", "inputs": {"source": ["a"]}},
    {"signature_name": "detokenize", "inputs": [["a"]]},
    {"signature_name": "detokenize", "inputs": [[True]]},
    {"inputs": {"text": "a"}},
]


@pytest.mark.parametrize("asked", WRONG)
def test_what_it_refuses_we_refuse(server, other, asked):
    ours, theirs = both(server, other, json.dumps(asked).encode())
    assert theirs.status_code == ours.status_code == 400
    assert set(ours.json()) == {"error"}


def nested(value, depth):
    return nested([value], depth - 1) if depth else value


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"signature_name": "detokenize", "inputs": [[5, 6], [7]]}, "differs in size"),
        ({"signature_name": "detokenize", "inputs": [[10**6]]}, "Invalid id: 1000000"),
        ({"signature_name": "detokenize", "inputs": [[10**30]]}, "too large for int32"),
        ({"instances": [{"b64": "?"}]}, "base64"),
        ({"instances": ["\ud800"]}, "surrogate"),
        ({"instances": [[[["a"]]]]}, "shape"),
        ({"instances": ["a"] * 257}, "257 texts"),
        ({"instances": [{"text": "a"}, {"txt": "a"}]}, "same inputs"),
        ({"inputs": {"text": ["a"], "more": 1}}, "Unknown input: more"),
        ({"inputs": {"text": ["a"], "\ud800": 1}}, "Unknown input: ?"),
        ({"signature_name": "\ud800", "instances": ["a"]}, 'name: "?" not found'),
        ({"signature_name": ["translate"], "instances": ["a"]}, "not found in signature def"),
        ({"inputs": nested("a", 70)}, "has 70 dimensions"),
        ({"inputs": nested("a", 900)}, "has 900 dimensions"),
    ],
)
def test_further_refusals(client, asked, told):
    answer = client.post("/v1/models/tiny:predict", content=json.dumps(asked))
    assert answer.status_code == 400
    assert told in answer.json()["error"]


def signature_of(dtype):
    info = TensorInfo(name="x", dtype=dtype.as_datatype_enum)
    info.tensor_shape.dim.add(size=-1)
    return SignatureDef(inputs={"x": info})


@pytest.mark.parametrize(
    ("dtype", "values"), [(tf.uint8, [0, 255]), (tf.uint64, [2**64 - 1]), (tf.int8, [-128]), (tf.float16, [0.5, 2])]
)
def test_numbers_of_other_programs_models(dtype, values):
    _, arrays = predict_json.inputs_of({"inputs": values}, signature_of(dtype))
    assert arrays["x"].dtype == dtype.as_numpy_dtype
    assert arrays["x"].tolist() == values


@pytest.mark.parametrize(
    ("dtype", "value", "told"),
    [(tf.uint8, 256, "too large for uint8"), (tf.complex64, 1, "can't be given"), (tf.bfloat16, 1.0, "can't be given")],
)
def test_numbers_that_an_input_does_not_take(dtype, value, told):
    with pytest.raises(Refusal, match=told):
        predict_json.inputs_of({"inputs": [value]}, signature_of(dtype))


class Numbers(Version):
    """A version whose one signature gives very many numbers."""

    translates = False
    signatures = MappingProxyType({"numbers": signature_of(tf.float32)})
    numbers = np.random.default_rng(1).normal(size=(3, 50_001)).astype(np.float32)

    def translate(self, texts, options):
        raise NotImplementedError

    def call(self, signature, inputs):
        return {"x": self.numbers}


def test_a_large_answer_holds_no_other_request_up(tmp_path, monkeypatch):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").touch()
    monkeypatch.setattr(served, "load_version", Numbers)
    with (
        serving_here(create_app(Models([Source("odd", tmp_path)]), Settings())) as (_, port),
        client_of(url := f"http://127.0.0.1:{port}") as client,
        client_of(url) as other,
    ):
        until(f"{url}/health/ready", 200)
        asked, began, waits = {"signature_name": "numbers", "inputs": {"x": [1]}}, time.perf_counter(), []
        answer = begun(lambda: client.post("/v1/models/odd:predict", json=asked))
        while not answer.done():
            asking = time.perf_counter()
            other.get("/health/live")
            waits.append(time.perf_counter() - asking)
        assert max(waits) < (time.perf_counter() - began) / 2
        expected = [[float(str(number)) for number in row] for row in Numbers.numbers]
        assert answer.result(SECONDS).json() == {"outputs": expected}


def with_options(**changes):
    inputs = {name: INPUTS[name] for name in ("prefix", *OPTION_TYPES)}
    return {"text": ["A man."], **inputs, "prefix": [""], **changes}


def test_a_call_that_would_take_all_memory_is_refused(client):
    def called(signature, inputs):
        return client.post("/v1/models/tiny:predict", json={"signature_name": signature, "inputs": inputs})

    def refused(**changes):
        return called("translate_with_options", with_options(**changes))

    def next_tokens(count):
        return called("next_tokens", {"text": ["A man."], "prefix_ids": [[]], "count": count})

    assert refused().status_code == next_tokens(16).status_code == 200
    for name in ("beam_size", "num_hypotheses", "count"):
        answer = next_tokens(10**9) if name == "count" else refused(**{name: 10**9})
        assert (answer.status_code, answer.json()["error"]) == (400, f"{name} is 1000000000; it must be at most 16")
    many = refused(text=["A man. " * 50] * 100, prefix=[""] * 100)
    assert many.status_code == 413
    assert "2,048 are allowed in a call" in many.json()["error"]
    ids = called("next_tokens", {"text": ["a"] * 100, "prefix_ids": [[5] * 30] * 100, "count": 1})
    message = "prefix_ids has 3,000 tokens with its padding; at most 2,048 are allowed in a call"
    assert (ids.status_code, ids.json()) == (413, {"error": message})
    assert called("detokenize", [[5] * 30] * 100).status_code == 413
    assert "beam_size must be >= 1" in refused(beam_size=0).json()["error"]


def test_a_models_status(client, other):
    expected = httpx.get(f"http://127.0.0.1:{other.rest_port}/v1/models/tiny", timeout=SECONDS).json()
    assert client.get("/v1/models/tiny").json() == expected
    assert client.get("/v1/models/tiny/versions/1").json() == expected
    for path in ("/v1/models/none", "/v1/models/tiny/versions/7"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/models/none:predict", "Servable not found for request: Latest(none)"),
        ("/v1/models/tiny/versions/7:predict", "Servable not found for request: Specific(tiny, 7)"),
    ],
)
def test_a_model_that_is_not_there(client, path, told):
    answer = client.post(path, json={"instances": ["a"]})
    assert (answer.status_code, answer.json()) == (404, {"error": told})


def test_one_version_can_be_asked_for(client):
    answer = client.post("/v1/models/tiny/versions/1:predict", json={"instances": SOURCES[:1]})
    assert answer.json()["predictions"][0]["translation"] == TARGETS[0]


def test_metadata_is_the_saved_models(client, other):
    from google.protobuf.json_format import ParseDict
    from tensorflow_serving.apis.get_model_metadata_pb2 import SignatureDefMap

    answer = client.get("/v1/models/tiny/metadata").json()
    assert answer["model_spec"] == {"name": "tiny", "signature_name": "", "version": "1"}
    told = ParseDict(answer["metadata"]["signature_def"], SignatureDefMap()).signature_def
    assert dict(told) == {name: each for name, each in other.model.signatures.items() if name != "warm_up"}


def test_to_warm_up_is_not_for_clients(client):
    asked = {"signature_name": "warm_up", "inputs": {"rows": [10**9], "lengths": [10**9]}}
    answer = client.post("/v1/models/tiny:predict", json=asked)
    assert answer.status_code == 400
    assert "not found" in answer.json()["error"]


def test_the_client_for_tensorflow_serving_needs_no_change(server):
    port = server.url.rpartition(":")[2]
    command = [sys.executable, "client.py", "--model", "tiny", "--port", port, *SOURCES, "house " * 100]
    process = subprocess.run(command, cwd=SERVING, capture_output=True, text=True, timeout=SECONDS)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[:-1] == TARGETS
    assert "client.py: text 4 is too long for the model and was cut" in process.stderr


def test_names_are_taken_from_the_path_as_they_are(server):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=SECONDS)
    connection.request("GET", "/v1/models/..%2f..%2fetc")
    assert connection.getresponse().status == 404
    connection.close()
