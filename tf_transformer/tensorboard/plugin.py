"""TensorBoard's tab Attention: the server side."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tensorboard.plugins import base_plugin
from werkzeug import Request, Response

from tf_transformer.inspection.kinds import KINDS
from tf_transformer.tensorboard.events import Index
from tf_transformer.tensorboard.record import PLUGIN, DamagedRecord

STATIC = Path(__file__).parent / "static"
PATIENCE = 1  # seconds
TYPES = {".js": "text/javascript", ".css": "text/css"}


class AttentionPlugin(base_plugin.TBPlugin):
    """Shows what `attention_summary` wrote.

    Args:
        context: TensorBoard's; of it, the log directory is used.
    """

    plugin_name = PLUGIN

    def __init__(self, context: base_plugin.TBContext) -> None:
        super().__init__(context)
        self.index = Index(context.logdir) if context.logdir else None
        self._reader: threading.Thread | None = None
        self.is_active()  # begins to read before the first page asks

    def is_active(self) -> bool:
        """Whether there is anything to show, as far as is known after a moment: all of TensorBoard waits for this."""
        if not self.index or self.index.places:
            return bool(self.index)
        if not (self._reader and self._reader.is_alive()):
            self._reader = threading.Thread(target=self.index.refresh, daemon=True)
            self._reader.start()
        self._reader.join(timeout=PATIENCE)
        return bool(self.index.places)

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="Attention")

    def get_plugin_apps(self) -> dict[str, Callable]:
        """The routes, all below /data/plugin/attention."""
        files = {f"/{file.name}": _serving(file) for file in STATIC.iterdir() if file.suffix in TYPES}
        routes = {"/runs": self._runs, "/header": self._header, "/layer": self._layer}
        return {**files, **{path: _answering(route) for path, route in routes.items()}}

    def _runs(self, request: Request) -> Response:
        """JSON: the steps of each tag of each run, and the damaged files."""
        if not self.index:
            raise _Mistake("TensorBoard reads several named folders, which this tab can't; start it with --logdir DIR")
        return _json({"runs": self.index.refresh(), "damaged": self.index.damaged})

    def _header(self, request: Request) -> Response:
        """JSON: one record's header."""
        return _json(asdict(self.index.header(*_record(request))))

    def _layer(self, request: Request) -> Response:
        """One layer's weights as bytes: float16, little-endian, (heads, rows, columns)."""
        kind = _argument(request, "kind")
        if kind not in KINDS:
            raise _Mistake(f"kind is {kind!r}; give {', '.join(KINDS)}")
        weights = self.index.layer(*_record(request), kind, _number(request, "layer"))
        return _answer(weights.tobytes(), "application/octet-stream")


class _Mistake(Exception):
    """A request for what can't be."""


def _record(request: Request) -> tuple[str, str, int]:
    return _argument(request, "run"), _argument(request, "tag"), _number(request, "step")


def _argument(request: Request, name: str) -> str:
    value = request.args.get(name)
    if value is None:
        raise _Mistake(f"{name} is missing")
    return value


def _number(request: Request, name: str) -> int:
    text = _argument(request, name)
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _Mistake(f"{name} is {text[:50]!r}; give a whole number")
    return int(text)


def _json(values: Any, status: int = 200) -> Response:
    return _answer(json.dumps(values, ensure_ascii=False), "application/json", status)


def _answer(content: str | bytes, mimetype: str, status: int = 200) -> Response:
    return Response(content, status, {"X-Content-Type-Options": "nosniff"}, mimetype)


def _answering(route: Callable[[Request], Response]) -> Callable:
    """A WSGI application that tells what is wrong with a request."""

    @Request.application
    def answer(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return _json({"error": "only GET is supported"}, 405)
        try:
            return route(request)
        except _Mistake as mistake:
            return _json({"error": str(mistake)}, 400)
        except KeyError as missing:
            return _json({"error": f"there is no {missing.args[0]}"}, 404)
        except DamagedRecord as damage:
            return _json({"error": f"damaged: {damage}"}, 410)
        except OSError as error:
            return _json({"error": f"the event file can't be read: {error.strerror}"}, 404)

    return answer


def _serving(file: Path) -> Callable:
    @Request.application
    def serve(request: Request) -> Response:
        return _answer(file.read_bytes(), TYPES[file.suffix])

    return serve
