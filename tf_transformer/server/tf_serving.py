"""TensorFlow Serving's REST interface: status, :predict in both forms, /metadata."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tf_transformer.server.requests import Refusal


def routes() -> list[Route]:
    """The interface's routes."""
    return [Route("/v1/models/{name}", status, methods=["GET"])]


async def status(request: Request) -> JSONResponse:
    """The versions of a model and their states."""
    model = request.app.state.models.get(request.path_params["name"])
    if model is None:
        raise Refusal(404, f"Could not find any versions of model {request.path_params['name']}")
    state = {"version": str(model.number), "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    return JSONResponse({"model_version_status": [state]})
