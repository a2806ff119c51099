"""Stands in for TensorFlow Serving, which can't be had here: its two interfaces on loopback, over a loaded SavedModel.

The rules are those of tensorflow/serving: servables/tensorflow/predict_util.cc (what a request must have) and
util/json_tensor.cc (how JSON becomes tensors, and back).
"""

import base64
import json
import re
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  its ops
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse
from tensorflow_serving.apis.prediction_service_pb2_grpc import (
    PredictionServiceServicer,
    add_PredictionServiceServicer_to_server,
)


class Refusal(Exception):
    """What a request is refused with: gRPC's status, HTTP's status and the message."""

    def __init__(self, message: str, code=grpc.StatusCode.INVALID_ARGUMENT, http: int = 400) -> None:
        super().__init__(message)
        self.code, self.http = code, http


class Model:
    """A SavedModel that answers `PredictRequest`s.

    `signatures` are its SignatureDefs by name; `loaded` is what TensorFlow loads of it, where that is done already.
    """

    def __init__(self, path: Path, name: str, loaded=None) -> None:
        self.name = name
        self._loaded = loaded or tf.saved_model.load(str(path))
        definitions = SavedModel.FromString((path / "saved_model.pb").read_bytes()).meta_graphs[0].signature_def
        self.signatures = {key: value for key, value in definitions.items() if key in self._loaded.signatures}

    def signature(self, name: str):
        """The SignatureDef of that name."""
        name = name or "serving_default"
        if name not in self.signatures:
            raise Refusal(f'Serving signature key "{name}" not found.', grpc.StatusCode.FAILED_PRECONDITION)
        return self.signatures[name]

    def check_name(self, name: str) -> None:
        if name != self.name:
            raise Refusal(f"Servable not found for request: Latest({name})", grpc.StatusCode.NOT_FOUND, 404)

    def run(self, signature: str, inputs: dict[str, tf.Tensor]) -> dict[str, np.ndarray]:
        """Runs the signature itself."""
        return {key: value.numpy() for key, value in self._loaded.signatures[signature](**inputs).items()}

    def inputs_of(self, request: PredictRequest) -> dict[str, tf.Tensor]:
        """Names, types and shapes have to be the signature's: nothing is converted."""
        wanted = self.signature(request.model_spec.signature_name).inputs
        if set(request.inputs) != set(wanted):
            raise Refusal(f"input size does not match signature: {sorted(request.inputs)}, {sorted(wanted)}")
        inputs = {}
        for key, proto in request.inputs.items():
            inputs[key] = tf.constant(tf.make_ndarray(proto), tf.as_dtype(proto.dtype))
            if proto.dtype != wanted[key].dtype:
                raise Refusal(f"{key}: {inputs[key].dtype.name}, expected {tf.as_dtype(wanted[key].dtype).name}")
            if not tf.TensorShape(wanted[key].tensor_shape).is_compatible_with(inputs[key].shape):
                raise Refusal(f"{key}: {inputs[key].shape}, expected {tf.TensorShape(wanted[key].tensor_shape)}")
        return inputs

    def predict(self, request: PredictRequest) -> PredictResponse:
        inputs = self.inputs_of(request)
        response = PredictResponse(model_spec=request.model_spec)
        for key, value in self.run(request.model_spec.signature_name or "serving_default", inputs).items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
        return response

    def predict_json(self, body: bytes) -> bytes:
        """JSON becomes a `PredictRequest` by the signature's types, and the response JSON again."""
        question = json.loads(body)
        request = PredictRequest()
        request.model_spec.signature_name = question.get("signature_name", "")
        wanted = self.signature(request.model_spec.signature_name).inputs
        rows = "instances" in question
        if rows == ("inputs" in question):
            raise Refusal("expecting one of 'inputs' or 'instances'")
        if rows and not question["instances"]:
            raise Refusal("No values in 'instances' array")
        columns = _columns(question["instances"], wanted) if rows else question["inputs"]
        if not isinstance(columns, dict) or "b64" in columns:
            columns = dict.fromkeys(wanted, columns)
        for key, info in wanted.items():
            if key not in columns:
                raise Refusal(f"Missing named input: {key} in 'inputs' object.")
            dtype = tf.as_dtype(info.dtype)
            request.inputs[key].CopyFrom(tf.make_tensor_proto(_from_json(columns[key], dtype), dtype))
        response = self.predict(request)
        outputs = {key: _to_json(tf.make_ndarray(value).tolist()) for key, value in response.outputs.items()}
        if rows:
            answers = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
            return json.dumps({"predictions": [_unnamed(answer) for answer in answers]}, ensure_ascii=False).encode()
        return json.dumps({"outputs": _unnamed(outputs)}, ensure_ascii=False).encode()


def _columns(instances: list, wanted) -> dict[str, list]:
    """Row form becomes column form."""
    if not isinstance(instances[0], dict) or "b64" in instances[0]:
        return dict.fromkeys(wanted, instances)
    return {key: [instance[key] for instance in instances] for key in wanted}


def _unnamed(outputs: dict):
    """A signature's only output has no name in JSON."""
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def _from_json(value, dtype: tf.DType):
    if isinstance(value, list):
        return [_from_json(item, dtype) for item in value]
    if dtype == tf.string and isinstance(value, dict):
        return base64.b64decode(value["b64"], validate=True)
    kinds = {tf.string: str, tf.int32: int, tf.float32: (int, float), tf.bool: bool}
    if not isinstance(value, kinds[dtype]) or (isinstance(value, bool) and dtype != tf.bool):
        raise Refusal(f"JSON Value: {value!r} is not of expected type: {dtype.name}")
    return value.encode() if dtype == tf.string else value


def _to_json(value):
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


class Server(NamedTuple):
    """A running server's model and ports."""

    model: Model
    grpc_port: int
    rest_port: int


@contextmanager
def serve(model: Model) -> Iterator[Server]:
    """Serves `model` until the context ends."""

    class Grpc(PredictionServiceServicer):
        def Predict(self, request, context):
            try:
                model.check_name(request.model_spec.name)
                return model.predict(request)
            except Refusal as refusal:
                context.abort(refusal.code, str(refusal))

    class Rest(BaseHTTPRequestHandler):
        def do_GET(self):
            state = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
            status = json.dumps({"model_version_status": [state]}, indent=1).encode()
            self.answer(r"/v1/models/(\w+)", lambda: status)

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(r"/v1/models/(\w+):predict", lambda: model.predict_json(body))

        def answer(self, pattern, content):
            try:
                model.check_name(re.fullmatch(pattern, self.path)[1])
                code, body = 200, content()
            except Refusal as refusal:
                code, body = refusal.http, json.dumps({"error": str(refusal)}, indent=4).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    grpc_server = grpc.server(futures.ThreadPoolExecutor(2))
    add_PredictionServiceServicer_to_server(Grpc(), grpc_server)
    grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
    grpc_server.start()
    rest_server = ThreadingHTTPServer(("127.0.0.1", 0), Rest)
    threading.Thread(target=rest_server.serve_forever, daemon=True).start()
    try:
        yield Server(model, grpc_port, rest_server.server_port)
    finally:
        rest_server.shutdown()
        rest_server.server_close()
        grpc_server.stop(None)
