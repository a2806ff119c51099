"""HTTP/1.1 by uvicorn, with a limit on the time that a request's header takes, which uvicorn does not have."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0


class Protocol(H11Protocol):
    """Closes a connection whose next request has not fully arrived, header and all, some seconds after it began."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()
        elif self._waiting is None:
            self._watch()

    def _watch(self) -> None:
        self._waiting = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _unwatch(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
