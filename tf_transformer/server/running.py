"""Runs the application in uvicorn: the socket, the signals, the log, and the end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette

from tf_transformer.errors import UserError
from tf_transformer.server.app import create_app
from tf_transformer.server.models import Models
from tf_transformer.server.protocol import Protocol
from tf_transformer.server.settings import Settings
from tf_transformer.terminal.ctrl_c import STATUS

# Connections at once; more are answered with 503.
CONNECTIONS = 900


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, not listening yet.

    Raises:
        UserError: the port is in use, or the address is not this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Only of a socket that names its protocol does asyncio send small packets at once: else an answer takes 40 ms.
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, UnicodeError) as error:  # the latter of a name that can't be one
        why = getattr(error, "strerror", None) or error
        raise UserError(f"can't listen on {host} port {port}: {why}; give another with --host or --port") from None
    return bound


def run(models: Models, settings: Settings, bound: socket.socket, ready: Callable[[], Any]) -> None:
    """Serves until SIGTERM or Ctrl-C.

    Args:
        models: what is served.
        settings: limits.
        bound: see `listen`.
        ready: called once all models are loaded.

    Raises:
        UserError: a model can't be loaded.
        KeyboardInterrupt: it was stopped with Ctrl-C.
    """
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("tf_transformer.server").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    server: _Server

    def fail() -> None:
        server.should_exit = True

    app = create_app(models, settings, ready, fail)
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS + 1,  # with so many, a request's own among them, uvicorn answers 503
        timeout_graceful_shutdown=5,
    )
    server = _Server(config, app, settings.drain_seconds)
    asyncio.run(server.serve(sockets=[bound]))
    if app.state.lifecycle.failure:
        raise app.state.lifecycle.failure
    if app.state.lifecycle.is_busy or any(model.batcher.is_alive for model in models.values()):
        # TensorFlow is at work in a thread, where nothing breaks it off: Python's end would take its libraries away.
        logging.shutdown()
        if server.interrupted:
            os._exit(STATUS)
        os._exit(0)
    if server.interrupted:
        raise KeyboardInterrupt


class _Server(uvicorn.Server):
    """At the first signal it drains; a second Ctrl-C ends it at once."""

    def __init__(self, config: uvicorn.Config, app: Starlette, drain_seconds: float) -> None:
        super().__init__(config)
        self.interrupted = False
        self._lifecycle, self._drain_seconds = app.state.lifecycle, drain_seconds
        self._draining: asyncio.Task | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.interrupted |= sig == signal.SIGINT
        if self._draining is not None:
            self.should_exit = True
            self.force_exit = sig == signal.SIGINT
            return
        self._draining = asyncio.get_event_loop().create_task(self._drain())

    async def _drain(self) -> None:
        await self._lifecycle.drain(self._drain_seconds)
        self.should_exit = True
