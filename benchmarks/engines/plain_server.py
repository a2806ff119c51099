"""What one would write without a server of one's own: a handler that calls the SavedModel, a request at a time."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


def main(model: str) -> None:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its ops are in the graph
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    loaded = tf.saved_model.load(model)
    signature = loaded.signatures["translate"]

    async def translate(request: Request) -> JSONResponse:
        text = (await request.json())["q"]
        output = signature(text=tf.constant([text]))  # nothing else is done meanwhile
        return JSONResponse({"translatedText": output["translation"].numpy()[0].decode()})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if "warm_up" in loaded.signatures:
            loaded.signatures["warm_up"](rows=tf.constant([1, 1, 1]), lengths=tf.constant([16, 32, 64]))
        signature(text=tf.constant(["1"]))
        print(f"http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
        yield

    bound = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/translate", translate, methods=["POST"])], lifespan=lifespan)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[bound])


if __name__ == "__main__":
    main(sys.argv[1])
