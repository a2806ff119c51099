"""TensorFlow Serving's REST interface: a model's status and metadata, and `:predict` in both forms."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tf_transformer.server.models import ServedModel, tokens_of
from tf_transformer.server.predict_json import inputs_of, written
from tf_transformer.server.requests import Refusal, check_key, note, parse_json, read_body, unless_gone
from tf_transformer.server.texts import without_blocking
from tf_transformer.server.versions import DEFAULT_SIGNATURES, Version
from tf_transformer.translation.texts import Translation

# The most hypotheses that a signature's inputs may ask for: memory grows with them. Each of the `count` next tokens
# is one, since a search goes on from it.
MOST_HYPOTHESES = 16
HYPOTHESES = ("beam_size", "num_hypotheses", "count")
# Bytes of an answer's arrays; as JSON they are some ten times as much.
MOST_OUTPUT = 2**24


class _VersionConvertor(IntegerConvertor):
    """A version's number; Python makes no number of thousands of digits, which Starlette's own takes."""

    regex = "[0-9]{1,20}"


register_url_convertor("version", _VersionConvertor())


def routes() -> list[Route]:
    """The interface's routes."""
    found = []
    for model in ("/v1/models/{name}", "/v1/models/{name}/versions/{version:version}"):
        found += [
            Route(model + ":predict", predict, methods=["POST"]),
            Route(model + "/metadata", metadata, methods=["GET"]),
            Route(model, status, methods=["GET"]),
        ]
    return found


async def status(request: Request) -> JSONResponse:
    """The versions of a model and their states."""
    name, version = request.path_params["name"], request.path_params.get("version")
    model: ServedModel | None = request.app.state.models.get(name)
    states = {}
    if model is not None:
        states = {model.loading: "LOADING", model.number: "AVAILABLE"}
        states = {n: s for n, s in states.items() if n is not None and version in (None, n)}
    if not states:
        which = f"version {version}" if version is not None else "any versions"
        raise Refusal(404, f"Could not find {which} of model {name}")
    fine = {"error_code": "OK", "error_message": ""}
    listed = [{"version": str(n), "state": s, "status": fine} for n, s in sorted(states.items(), reverse=True)]
    return JSONResponse({"model_version_status": listed})


async def metadata(request: Request) -> Response:
    """Inputs and outputs of each signature."""
    from google.protobuf.json_format import MessageToDict
    from tensorflow_serving.apis.get_model_metadata_pb2 import SignatureDefMap

    model, version = _model(request)
    signatures = MessageToDict(
        SignatureDefMap(signature_def=version.signatures),
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )
    spec = {"name": model.name, "signature_name": "", "version": str(version.number)}
    return JSONResponse({"model_spec": spec, "metadata": {"signature_def": signatures}})


async def predict(request: Request) -> Response:
    """Calls a signature; `translate`, which is also the default, through the batches that all requests share."""
    check_key(request)
    body = await read_body(request)
    model, version = _model(request)
    asked = parse_json(body)
    name = asked.get("signature_name") or "serving_default"
    if not isinstance(name, str) or name not in version.signatures:
        raise Refusal(400, f'Serving signature name: "{name}" not found in signature def')
    in_rows, inputs = inputs_of(asked, version.signatures[name])
    texts = _texts(inputs, request)
    if name in DEFAULT_SIGNATURES and version.translates:
        translations = await unless_gone(request, model.translate(version, inputs["text"].tolist()))
        outputs = _columns(translations)
        note(request, model.name, texts, [translation.text for translation in translations])
    else:
        _check_size(inputs, model)
        outputs = await unless_gone(request, model.call(version, name, **inputs))
        note(request, model.name, texts)
    size = sum(array.nbytes for array in outputs.values())
    if size > MOST_OUTPUT:
        raise Refusal(413, "the answer would be too large; send fewer or shorter texts")
    answer = await without_blocking(size, written, outputs, in_rows)
    return Response(answer, media_type="application/json")


def _model(request: Request) -> tuple[ServedModel, Version]:
    """The model, and its version, that a request is for."""
    name, number = request.path_params["name"], request.path_params.get("version")
    model = request.app.state.models.get(name)
    version = model and model.version
    if model is not None and version is None:
        request.app.state.lifecycle.check_ready()
    if version is None or number not in (None, version.number):
        told = f"Latest({name})" if number is None else f"Specific({name}, {number})"
        raise Refusal(404, f"Servable not found for request: {told}")
    return model, version


def _texts(inputs: dict[str, np.ndarray], request: Request) -> list[str]:
    """All texts among the inputs, within the limits."""
    settings = request.app.state.settings
    texts = [text for array in inputs.values() if array.dtype == object for text in array.ravel()]
    if len(texts) > settings.max_texts:
        raise Refusal(400, f"the request has {len(texts):,} texts; at most {settings.max_texts:,} are allowed")
    for text in texts:
        if len(text) > 4 * settings.max_characters:
            raise Refusal(400, f"a text has {len(text):,} bytes; at most {4 * settings.max_characters:,} are allowed")
    return [text.decode("utf-8", "replace") for text in texts]


def _check_size(inputs: dict[str, np.ndarray], model: ServedModel) -> None:
    """A signature's call is a batch that the client has made: it is held to the limits of ours."""
    for name in HYPOTHESES:
        if name in inputs and np.max(inputs[name]) > MOST_HYPOTHESES:
            raise Refusal(400, f"{name} is {np.max(inputs[name])}; it must be at most {MOST_HYPOTHESES}")
    for name, array in inputs.items():
        most = model.batcher.limits.tokens
        if array.dtype == object and array.size > 1:
            tokens = array.size * max(map(tokens_of, array.ravel()))
            if tokens > most:
                raise Refusal(
                    413, f"{name} has about {tokens:,} tokens with its padding; at most {most:,} are allowed in a call"
                )
        elif array.dtype.kind in "iu" and array.ndim == 2 and array.size > most:  # ids of tokens, padded by the client
            raise Refusal(
                413, f"{name} has {array.size:,} tokens with its padding; at most {most:,} are allowed in a call"
            )


def _columns(translations: list[Translation]) -> dict[str, Any]:
    return {
        "translation": np.array([t.text.encode() for t in translations], object),
        "score": np.array([t.score for t in translations], np.float32),
        "truncated": np.array([t.truncated for t in translations], bool),
    }
