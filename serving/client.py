"""Asks TensorFlow Serving for translations: over REST with the standard library, over gRPC with tensorflow-serving-api.

python serving/client.py "A man rides a bike."
python serving/client.py --grpc --signature translate_nbest "A man rides a bike." "Two dogs run."
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

TIMEOUT = 60  # seconds


class ServingError(Exception):
    """The server can't be reached, or refuses: one line that says why."""


def rest_body(signature: str, inputs: dict[str, Any]) -> bytes:
    """The JSON of a request in column form, in which every input is named and has its own shape."""
    inputs = {name: _to_json(value) for name, value in inputs.items()}
    return json.dumps({"signature_name": signature, "inputs": inputs}).encode()


def _to_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:  # bytes of the command line that are no UTF-8
            return {"b64": base64.b64encode(value.encode(errors="surrogateescape")).decode()}
    return value


def parse_rest(body: bytes) -> Any:
    """The outputs by name; where a signature has only one, that one without its name."""
    return json.loads(body)["outputs"]


def predict_rest(model: str, signature: str, inputs: dict[str, Any], host: str, port: int) -> Any:
    """Sends a request over REST.

    Args:
        model: its name on the server.
        signature: one of the SavedModel's.
        inputs: by name: a number, a string, or lists of these.
        host: name or address of the server.
        port: of its REST interface.

    Returns:
        See `parse_rest`.

    Raises:
        ServingError: the server can't be reached, or refuses.
    """
    url = f"http://{host}:{port}/v1/models/{model}:predict"
    request = urllib.request.Request(url, rest_body(signature, inputs), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return parse_rest(response.read())
    except urllib.error.HTTPError as error:
        reason = error.read().decode(errors="replace")  # {"error": "..."}, where TensorFlow Serving wrote it
        raise ServingError(f"{url}: {error.code} {error.reason}: {reason}") from None
    except OSError as error:
        raise ServingError(f"{url}: {getattr(error, 'reason', error)}") from None
    except (http.client.HTTPException, ValueError, KeyError, TypeError):
        raise ServingError(f"{url}: the answer is not TensorFlow Serving's; is this its REST port?") from None


def grpc_request(model: str, signature: str, inputs: dict[str, Any]) -> PredictRequest:
    """The same request as a protobuf. Types are sent as they are: whole numbers int32, others float32."""
    import tensorflow as tf
    from tensorflow_serving.apis.model_pb2 import ModelSpec
    from tensorflow_serving.apis.predict_pb2 import PredictRequest

    request = PredictRequest(model_spec=ModelSpec(name=model, signature_name=signature))
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(_to_bytes(value)))
    return request


def _to_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_bytes(item) for item in value]
    return value.encode(errors="surrogateescape") if isinstance(value, str) else value


def parse_grpc(response: PredictResponse) -> dict[str, Any]:
    """The outputs by name, as nested lists."""
    import numpy as np
    import tensorflow as tf

    outputs = {name: tf.make_ndarray(tensor) for name, tensor in response.outputs.items()}
    decode = np.vectorize(bytes.decode, otypes=[object])
    return {name: (decode(array) if array.dtype == object else array).tolist() for name, array in outputs.items()}


def predict_grpc(model: str, signature: str, inputs: dict[str, Any], host: str, port: int) -> dict[str, Any]:
    """Sends a request over gRPC; see `predict_rest`."""
    import grpc
    from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

    with grpc.insecure_channel(f"{host}:{port}") as channel:
        try:
            response = PredictionServiceStub(channel).Predict(grpc_request(model, signature, inputs), timeout=TIMEOUT)
        except grpc.RpcError as error:
            raise ServingError(f"{host}:{port}: {error.code().name}: {error.details()}") from None
    return parse_grpc(response)


def main() -> None:
    """Prints a translation a line, or with translate_nbest a score and a translation a line, best first."""
    parser = argparse.ArgumentParser(description="Asks TensorFlow Serving for translations.")
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    parser.add_argument("--grpc", action="store_true", help="gRPC in place of REST")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, help="8501, with --grpc 8500, unless given")
    parser.add_argument("--model", default="demo", help="its name on the server (%(default)s)")
    parser.add_argument("--signature", choices=["translate", "translate_nbest"], default="translate")
    options = parser.parse_args()

    predict, port = (predict_grpc, 8500) if options.grpc else (predict_rest, 8501)
    inputs = {"text": options.texts}
    try:
        outputs = predict(options.model, options.signature, inputs, options.host, options.port or port)
    except ServingError as error:
        sys.exit("client.py: " + " ".join(str(error).split()))

    for number, cut in enumerate(outputs["truncated"], 1):
        if cut:
            print(f"client.py: text {number} is too long for the model and was cut", file=sys.stderr)
    for translation, score in zip(outputs["translation"], outputs["score"], strict=True):
        if options.signature == "translate":
            print(translation)
        else:
            print(*(f"{s:.4f}\t{t}" for s, t in zip(score, translation, strict=True)), sep="\n")


if __name__ == "__main__":
    main()
