"""Puts the server together: its routes, errors, headers, and what happens at its start and end."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tf_transformer.errors import UserError
from tf_transformer.server import documentation, libretranslate, page, tf_serving
from tf_transformer.server.batching import DeadlineExceeded, QueueFull, TooMany
from tf_transformer.server.lifecycle import Lifecycle, Phase
from tf_transformer.server.models import Models
from tf_transformer.server.requests import Note, Refusal
from tf_transformer.server.settings import Settings

log = logging.getLogger("tf_transformer.server")

STATIC = Path(__file__).with_name("static")

# Batches that are under way at the end, whose requests are answered or too late, have so many to come to theirs.
STOP_SECONDS = 5.0

# These are asked for again and again: they are not logged.
QUIET = ("/health/live", "/health/ready", "/metrics")

# The longest message of an error; a longer one is cut.
ERROR_CHARACTERS = 1000

# The most characters of a path that the log repeats.
PATH_CHARACTERS = 200

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def create_app(
    models: Models,
    settings: Settings,
    ready: Callable[[], Any] = lambda: None,
    failed: Callable[[], Any] = lambda: None,
) -> Starlette:
    """Makes the ASGI application.

    Args:
        models: what is served; loaded once the application starts.
        settings: limits.
        ready: called when all models are loaded.
        failed: called when one can't be; `app.state.lifecycle.failure` says why.

    Returns:
        The application. Its `state` has `models`, `settings` and `lifecycle`.
    """
    lifecycle = Lifecycle(models)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        lifecycle.start(ready, failed)
        yield
        end = time.monotonic() + STOP_SECONDS  # for all of them together
        for model in models.values():
            model.batcher.close()
        for model in models.values():
            model.batcher.stop(end - time.monotonic())

    routes = [
        Route("/health/live", _live),
        Route("/health/ready", _ready),
        Route("/metrics", _metrics),
        *libretranslate.routes(),
        *tf_serving.routes(),
        *documentation.routes(),
        *page.routes(),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(RequestMiddleware, lifecycle=lifecycle, settings=settings)],
        exception_handlers={
            Refusal: _refused,
            UserError: lambda request, error: _error(400, str(error)),
            TooMany: lambda request, error: _error(
                413, "the request has more sentences than the queue can hold; split it"
            ),
            QueueFull: lambda request, error: _error(429, "too many texts are waiting", {"Retry-After": "1"}),
            DeadlineExceeded: lambda request, error: _error(503, "the translation took too long", {"Retry-After": "1"}),
            ClientDisconnect: lambda request, error: Response(status_code=499),
            HTTPException: lambda request, error: _error(error.status_code, error.detail, error.headers),
        },
    )
    app.state.models, app.state.settings, app.state.lifecycle = models, settings, lifecycle
    return app


class RequestMiddleware:
    """Around each request: security headers, a line in the log, a count of what is under way, statuses 500 and 505."""

    def __init__(self, app: ASGIApp, lifecycle: Lifecycle, settings: Settings) -> None:
        self.app, self.lifecycle, self.settings = app, lifecycle, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, began, metrics = 499, time.perf_counter(), self.lifecycle.models.metrics
        metrics.request_began()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name.lower() for name, _ in message["headers"]}
                message["headers"] += [
                    (name.lower().encode(), value.encode())
                    for name, value in SECURITY_HEADERS.items()
                    if name.lower().encode() not in own
                ]
            await send(message)

        self.lifecycle.under_way += 1
        try:
            if scope["http_version"].startswith("1."):
                await self.app(scope, receive, sending)
            else:
                await _error(505, "this server speaks HTTP/1.1 and HTTP/1.0")(scope, receive, sending)
        except Exception as error:
            # The message may hold texts: type and place are what is told.
            place = "".join(traceback.format_tb(error.__traceback__)[-3:])
            # A path may be long, and hold line breaks.
            log.error("%s in %r\n%s", type(error).__name__, scope["path"][:PATH_CHARACTERS], place)
            if status == 499:
                await _error(500, "internal server error; the server's log has the details")(scope, receive, sending)
        finally:
            self.lifecycle.under_way -= 1
            seconds = time.perf_counter() - began
            path = getattr(scope.get("route"), "path", "none")
            metrics.request_ended(path, status, seconds)
            if path not in QUIET:
                log.info("%s %s %d %.1f ms%s", scope["method"], path, status, seconds * 1000, self._told(scope))

    def _told(self, scope: Scope) -> str:
        note: Note | None = scope.get("state", {}).get("note")
        if note is None:
            return ""
        told = f", model {note.model}, {len(note.texts)} texts, {sum(map(len, note.texts))} characters"
        return f"{told}: {list(note.texts)} -> {list(note.translations)}" if self.settings.log_texts else told


def _error(status: int, message: str, headers: Any = None) -> JSONResponse:
    # What it repeats of a request may be as long as that, and hold half of a surrogate pair, which no answer can.
    message = message if len(message) <= ERROR_CHARACTERS else f"{message[:ERROR_CHARACTERS]} ..."
    return JSONResponse({"error": message.encode(errors="replace").decode()}, status, headers)


async def _refused(request: Request, error: Refusal) -> Response:
    return _error(error.status, str(error), error.headers)


async def _live(request: Request) -> Response:
    return PlainTextResponse("live\n")


async def _metrics(request: Request) -> Response:
    content, kind = request.app.state.models.metrics.text()
    return Response(content, headers={"Content-Type": kind})


async def _ready(request: Request) -> Response:
    phase = request.app.state.lifecycle.phase
    return PlainTextResponse(f"{phase.value}\n", 200 if phase is Phase.READY else 503)
