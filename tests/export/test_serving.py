"""The warm-up file, the client, the batching parameters and the compose file, as TensorFlow Serving wants them."""

import base64
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import yaml
from google.protobuf import descriptor_pb2, message_factory, text_format, wrappers_pb2
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from serving import client
from tests.bounded import SECONDS
from tests.export.model_server import Model, serve
from tests.tiny_run import PAIRS
from tf_transformer.errors import UserError
from tf_transformer.export.warmup import WARMUP_FILE, warmup_requests, write_warmup

SERVING = Path(__file__).parents[2] / "serving"
SOURCES, TARGETS = map(list, zip(*PAIRS[:3], strict=True))

# For any input that a signature may have. A list has a batch axis of 3; anything else is a scalar.
INPUTS = {
    "text": [SOURCES[0], "", "Ein Hündchen \U0001f415"],
    "source": SOURCES,
    "target": TARGETS,
    "prefix": [TARGETS[0].split()[0], "", ""],
    "prefix_ids": [[5, 6], [0, 0], [8, 0]],
    "count": 2,
    "ids": [[5, 6, 7], [8, 9, 2], [10, 2, 0]],
    "beam_size": 3,
    "num_hypotheses": 2,
    "alpha": 0.5,
    "min_length": 1,
    "max_length": 0,
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 1,
    "replace_unknown": False,
    "protect": False,
    "no_repeat_ngram_size": 2,
}


@pytest.fixture(scope="module")
def server(tiny_saved_model, tiny_loaded):
    with serve(Model(tiny_saved_model, "demo", tiny_loaded)) as running:
        yield running


class Forms(tf.Module):
    """Signatures in every form that an export of ours may have; each says what it was given."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def translate(self, text):
        length = tf.strings.length(text)
        return {"translation": text, "score": tf.cast(length, tf.float32) / 3, "truncated": length > 10}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def translate_nbest(self, text):
        output = self.translate(text)
        pairs = {key: tf.stack([output[key], output[key]], axis=1) for key in ("translation", "score")}
        return {**pairs, "truncated": output["truncated"]}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="text"),
            tf.TensorSpec([], tf.int32, name="beam_size"),
            tf.TensorSpec([], tf.float32, name="alpha"),
            tf.TensorSpec([], tf.bool, name="replace_unknown"),
        ],
        autograph=False,
    )
    def translate_with_options(self, text, beam_size, alpha, replace_unknown):
        score = alpha * tf.cast(beam_size, tf.float32) + tf.cast(replace_unknown, tf.float32)
        return {"translation": text, "score": tf.fill([tf.size(text)], score)}

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name=name) for name in ("source", "target")], autograph=False
    )
    def score(self, source, target):
        return {"score": tf.cast(tf.strings.length(source) - tf.strings.length(target), tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="ids")], autograph=False)
    def detokenize(self, ids):
        return {"text": tf.strings.reduce_join(tf.strings.as_string(ids), axis=1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def encode(self, text):
        return {"base64": tf.io.encode_base64(text, pad=True)}

    def save(self, folder: Path) -> Path:
        names = ["translate", "translate_nbest", "translate_with_options", "score", "detokenize", "encode"]
        signatures = {name: getattr(self, name) for name in names}
        tf.saved_model.save(self, str(folder), {"serving_default": self.translate, **signatures})
        return folder


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    path = Forms().save(tmp_path_factory.mktemp("forms"))
    with serve(Model(path, "forms")) as running:
        yield running, path


def inputs_of(model: Model, signature: str) -> dict:
    return {name: INPUTS[name] for name in model.signatures[signature].inputs}


def same(got: dict, expected: dict) -> None:
    """`got` in lists, `expected` in arrays."""
    assert got.keys() == expected.keys()
    for key, array in expected.items():
        if array.dtype == object:
            assert np.array(got[key], object).tolist() == np.vectorize(bytes.decode, otypes=[object])(array).tolist()
        else:
            np.testing.assert_allclose(got[key], array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("which", [pytest.param("export", marks=pytest.mark.thorough), "forms"])
def test_each_signature_answers_over_grpc_and_rest_as_it_does_itself(which, server, forms):
    running = server if which == "export" else forms[0]
    model = running.model
    for name, signature in model.signatures.items():
        inputs = inputs_of(model, name)
        types = {key: tf.as_dtype(info.dtype) for key, info in signature.inputs.items()}
        expected = model.run(name, {key: tf.constant(value, types[key]) for key, value in inputs.items()})

        request = client.grpc_request(model.name, name, inputs)
        assert {key: tensor.dtype for key, tensor in request.inputs.items()} == types
        for key, tensor in request.inputs.items():
            shape = tf.TensorShape(signature.inputs[key].tensor_shape)
            assert shape.is_compatible_with(tf.TensorShape(tensor.tensor_shape))
        same(client.predict_grpc(model.name, name, inputs, "127.0.0.1", running.grpc_port), expected)

        outputs = client.predict_rest(model.name, name, inputs, "127.0.0.1", running.rest_port)
        same(outputs if len(expected) > 1 else dict.fromkeys(expected, outputs), expected)


def test_forms_have_what_they_are_for(forms):
    """Or else the test above would compare less than it says."""
    shapes = {
        (info.dtype, len(info.tensor_shape.dim))
        for signature in forms[0].model.signatures.values()
        for info in signature.inputs.values()
    }
    assert {(tf.string, 1), (tf.int32, 0), (tf.float32, 0), (tf.bool, 0), (tf.int32, 2)} <= shapes


@pytest.mark.parametrize("text", ["a\udcff\udc80b", "\x00", '"\\', "\u2028 \U0001f415", ""])
def test_any_bytes_reach_the_server(text, forms):
    expected = text.encode(errors="surrogateescape")  # as Python reads a command line
    running = forms[0]
    over_grpc = client.predict_grpc("forms", "encode", {"text": [text]}, "127.0.0.1", running.grpc_port)
    over_rest = client.predict_rest("forms", "encode", {"text": [text]}, "127.0.0.1", running.rest_port)
    assert base64.urlsafe_b64decode(over_grpc["base64"][0]) == expected
    assert base64.urlsafe_b64decode(over_rest[0]) == expected


def run_client(*arguments: str, port: int) -> subprocess.CompletedProcess:
    command = [sys.executable, "client.py", "--port", str(port), *arguments]
    return subprocess.run(command, cwd=SERVING, capture_output=True, text=True, timeout=SECONDS)


def run_client_here(monkeypatch, capsys, *arguments: str, port: int) -> subprocess.CompletedProcess:
    """The same in this process, which has imported what gRPC takes seconds for."""
    monkeypatch.setattr(sys, "argv", ["client.py", "--port", str(port), *arguments])
    code = 0
    try:
        client.main()
    except SystemExit as ended:
        code = ended.code
    written = capsys.readouterr()
    # As Python ends a process.
    told, status = (f"{code}\n", 1) if isinstance(code, str) else ("", code or 0)
    return subprocess.CompletedProcess(sys.argv, status, written.out, written.err + told)


@pytest.mark.parametrize(
    ("transport", "here"),
    [("rest", False), ("grpc", True), pytest.param("grpc", False, marks=pytest.mark.thorough)],
    ids=["rest", "grpc", "grpc in a process of its own"],
)
def test_client_translates(transport, here, server, monkeypatch, capsys):
    flags, port = (["--grpc"], server.grpc_port) if transport == "grpc" else ([], server.rest_port)
    run = partial(run_client_here, monkeypatch, capsys) if here else run_client
    process = run(*flags, *SOURCES, "house " * 100, port=port)
    assert process.returncode == 0, process.stderr
    *translations, _ = process.stdout.splitlines()
    assert translations == TARGETS
    assert "client.py: text 4 is too long for the model and was cut" in process.stderr
    assert "text 3" not in process.stderr


def test_client_prints_the_nbest_with_their_scores(forms):
    flags = ["--model", "forms", "--signature", "translate_nbest"]
    process = run_client(*flags, "eins", "zwei!", port=forms[0].rest_port)
    assert process.stdout.splitlines() == ["1.3333\teins"] * 2 + ["1.6667\tzwei!"] * 2, process.stderr


@pytest.mark.parametrize(
    ("transport", "arguments", "message"),
    [
        ("rest", ["--model", "none", "Hi"], r"404 Not Found: .*Servable not found for request: Latest\(none\)"),
        ("grpc", ["--model", "none", "Hi"], r"NOT_FOUND: Servable not found for request: Latest\(none\)"),
        ("nobody", ["Hi"], r"Connection refused"),
        ("nobody", ["--grpc", "Hi"], r"UNAVAILABLE: .*Connection refused"),
        ("grpc port for rest", ["Hi"], r"is this its REST port\?"),
    ],
)
def test_client_says_in_one_line_what_is_wrong(transport, arguments, message, server, monkeypatch, capsys):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and not listening
        ports = {"rest": server.rest_port, "nobody": unused.getsockname()[1]}
        flags = ["--grpc"] if transport == "grpc" else []
        run = partial(run_client_here, monkeypatch, capsys) if "--grpc" in [*flags, *arguments] else run_client
        process = run(*flags, *arguments, port=ports.get(transport, server.grpc_port))
    assert process.returncode == 1
    assert process.stdout == ""
    (line,) = [line for line in process.stderr.splitlines() if line.startswith("client.py: ")]
    assert re.search(message, line)
    assert "Traceback" not in process.stderr


def test_a_signature_that_is_not_there_is_named(server):
    for predict, port in ((client.predict_rest, server.rest_port), (client.predict_grpc, server.grpc_port)):
        with pytest.raises(client.ServingError, match='Serving signature key .*"nonsense.*" not found'):
            predict("demo", "nonsense", {"text": ["Hi"]}, "127.0.0.1", port)


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_readmes_commands(server):
    """With this server's ports; they print what the page says they do, this model's translations apart."""
    page = (SERVING / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^(?:curl|python serving/client\.py) .*$", page, re.M)
    assert len(commands) >= 4
    for command in commands:
        if "translate_nbest" in command and "translate_nbest" not in server.model.signatures:
            continue
        words = shlex.split(command, comments=True)
        words = [word.replace(":8501", f":{server.rest_port}") for word in words]
        if words[0] == "python":
            port = server.grpc_port if "--grpc" in words else server.rest_port
            words = [sys.executable, *words[1:], "--port", str(port)]
        process = subprocess.run(words, cwd=SERVING.parent, capture_output=True, text=True, timeout=SECONDS)
        assert process.returncode == 0, (command, process.stderr)
        assert process.stdout.strip()
        assert "error" not in process.stdout.replace("error_", "")


def warmup_of(folder: Path) -> list[PredictRequest]:
    """What TensorFlow Serving reads from a SavedModel's warm-up file."""
    records = tf.data.TFRecordDataset(str(folder / "assets.extra" / "tf_serving_warmup_requests"))
    logs = [PredictionLog.FromString(record) for record in records.as_numpy_iterator()]
    assert {log.WhichOneof("log_type") for log in logs} <= {"predict_log"}
    return [log.predict_log.request for log in logs]


def test_an_export_can_warm_itself_up(server, tiny_saved_model):
    requests = warmup_of(tiny_saved_model)
    most = batching_parameters().max_batch_size.value
    assert 0 < len(requests) <= 1000
    sizes = {}
    for request in requests:
        server.model.inputs_of(request)  # raises where the server would refuse it
        if request.model_spec.signature_name == "translate":  # each other one takes a second to begin
            server.model.predict(request)
        for tensor in request.inputs.values():
            (size,) = (dim.size for dim in tensor.tensor_shape.dim)
            assert size <= most
            sizes.setdefault(request.model_spec.signature_name, set()).add(size)
    assert {"serving_default", "translate"} <= set(sizes)
    assert all(1 in found and len(found) > 1 for found in sizes.values())


def test_warm_up_leaves_out_what_a_batching_server_could_not_run(forms):
    running, path = forms
    requests = warmup_requests(path, ["kurz", "ein langer Satz"])
    assert write_warmup(path, requests) == path / WARMUP_FILE
    assert warmup_of(path) == requests
    assert [(r.model_spec.signature_name, sorted(r.inputs)) for r in requests[::2]] == [
        ("encode", ["text"]),
        ("score", ["source", "target"]),
        ("serving_default", ["text"]),
        ("translate", ["text"]),
        ("translate_nbest", ["text"]),
    ]
    for alone, together in zip(requests[::2], requests[1::2], strict=True):
        assert all(list(tensor.string_val) == [b"kurz"] for tensor in alone.inputs.values())
        assert all(list(tensor.string_val) == [b"kurz", b"ein langer Satz"] for tensor in together.inputs.values())
        running.model.predict(alone), running.model.predict(together)


def test_too_many_warm_up_requests(tmp_path):
    write_warmup(tmp_path, [PredictRequest()] * 1000)
    assert len(warmup_of(tmp_path)) == 1000
    with pytest.raises(UserError, match="^1001 warm-up requests: TensorFlow Serving takes at most 1000"):
        write_warmup(tmp_path, [PredictRequest()] * 1001)


def batching_parameters():
    """`batching.config` as TensorFlow Serving parses it.

    tensorflow-serving-api leaves this message out; its fields are those of `BatchingParameters` in tensorflow/serving,
    tensorflow_serving/servables/tensorflow/session_bundle_config.proto.
    """
    wrapped = {"Int64Value": {"max_batch_size": 1, "batch_timeout_micros": 2, "max_enqueued_batches": 3}}
    wrapped["Int64Value"]["num_batch_threads"] = 4
    wrapped["StringValue"] = {"thread_pool_name": 5}
    field = descriptor_pb2.FieldDescriptorProto
    message = descriptor_pb2.DescriptorProto(name="BatchingParameters")
    for kind, names in wrapped.items():
        for name, number in names.items():
            message.field.add(
                name=name, number=number, label=1, type=field.TYPE_MESSAGE, type_name=f".google.protobuf.{kind}"
            )
    message.field.add(name="allowed_batch_sizes", number=6, label=3, type=field.TYPE_INT64)
    message.field.add(name="pad_variable_length_inputs", number=7, label=1, type=field.TYPE_BOOL)
    wrappers = descriptor_pb2.FileDescriptorProto()
    wrappers_pb2.DESCRIPTOR.CopyToProto(wrappers)
    file = descriptor_pb2.FileDescriptorProto(
        name="batching.proto",
        package="tensorflow.serving",
        syntax="proto3",
        dependency=[wrappers.name],
        message_type=[message],
    )
    classes = message_factory.GetMessages([wrappers, file])
    text = (SERVING / "batching.config").read_text(encoding="utf-8")
    return text_format.Parse(text, classes["tensorflow.serving.BatchingParameters"]())


def test_batching_parameters():
    parameters = batching_parameters()
    assert parameters.max_batch_size.value >= 2
    assert 0 < parameters.batch_timeout_micros.value < 50_000
    assert parameters.num_batch_threads.value >= 1
    assert parameters.max_enqueued_batches.value >= 1
    assert not parameters.pad_variable_length_inputs  # detokenize would read the padding as words
    assert not parameters.allowed_batch_sizes


@pytest.fixture(scope="module")
def service():
    (service,) = yaml.safe_load((SERVING / "compose.yaml").read_text(encoding="utf-8"))["services"].values()
    return service


def test_compose_file(service):
    image, tag = service["image"].split(":")
    assert image == "tensorflow/serving"
    server, ours = (tuple(map(int, version.split(".")[:2])) for version in (tag, tf.__version__))
    assert (2, 20) <= server <= ours  # the newest image is a version behind
    assert sorted(service["ports"]) == ["127.0.0.1:8500:8500", "127.0.0.1:8501:8501"]
    mounts = dict(volume.removesuffix(":ro").split(":") for volume in service["volumes"])
    assert all(volume.endswith(":ro") for volume in service["volumes"])
    assert all((SERVING / source).exists() for source in mounts)
    assert (SERVING / "../savedmodels").samefile(SERVING / next(k for k, v in mounts.items() if v == "/models"))
    flags = dict(flag.removeprefix("--").partition("=")[::2] for flag in service["command"])
    assert set(flags) == {"tensorflow_intra_op_parallelism", "enable_batching", "batching_parameters_file"}
    assert mounts["./batching.config"] == flags["batching_parameters_file"]
    assert service["environment"] == {"MODEL_NAME": "${MODEL_NAME:-demo}", "TF_ENABLE_ONEDNN_OPTS": 0}


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(("model", "healthy"), [("demo", True), ("other", False)])
def test_health_check(model, healthy, service, server):
    kind, *command = service["healthcheck"]["test"]
    assert kind == "CMD"
    command = [word.replace("$$", "$").replace("8501", str(server.rest_port)) for word in command]
    process = subprocess.run(command, env={**os.environ, "MODEL_NAME": model}, timeout=SECONDS)
    assert (process.returncode == 0) == healthy
