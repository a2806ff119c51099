"""HTTP/1.1 by uvicorn, with limits that it does not have: on the time that a header takes, and an answer's reader."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
# A client has so many to read some of what the system's buffers do not take.
READER_SECONDS = 10.0


class Protocol(H11Protocol):
    """Closes a connection whose next request has not fully arrived, header and all, some seconds after it began.

    Also one whose client does not read its answer, which would never be closed: that waits until all is sent.
    """

    _waiting: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # writing is paused as long as anything is left to send
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch()
        self._cancel_unread()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_unread()

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

    def _watch_reader(self) -> None:
        left = self.transport.get_write_buffer_size()

        def look() -> None:
            if self.transport.get_write_buffer_size() < left:
                self._watch_reader()
            else:
                self.transport.abort()

        self._unread = self.loop.call_later(READER_SECONDS, look)

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
