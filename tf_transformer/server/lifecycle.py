"""Starting, ready, draining: what the server is at, and the loading of its models."""

from __future__ import annotations

import asyncio
import enum
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from tf_transformer.errors import UserError, reason
from tf_transformer.server.models import Models, ServedModel
from tf_transformer.server.requests import Refusal

T = TypeVar("T")

log = logging.getLogger("tf_transformer.server")

# Folders of versions are looked at so often.
WATCH_SECONDS = 1.0
# A version that can't be loaded, which may still be being copied, is tried again after so many.
RETRY_SECONDS = 10.0


class Phase(enum.Enum):
    """What the server is at."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class Lifecycle:
    """Loads the models, watches for new versions, counts what is under way.

    Attributes:
        phase: see `Phase`.
        under_way: requests that are being answered, from when their headers have come.
        failure: why the models could not be loaded.
    """

    def __init__(self, models: Models) -> None:
        self.models = models
        self.phase = Phase.STARTING
        self.under_way = 0
        self.failure: UserError | None = None
        self._task: asyncio.Task | None = None
        self._thread: threading.Thread | None = None
        self._refused: dict[tuple[str, int], float] = {}  # versions that can't be loaded, and when to try again

    def refusal(self) -> Refusal | None:
        """Why a request that comes now can't be answered, with status 503; None if it can."""
        if self.phase is Phase.READY:
            return None
        return Refusal(503, f"the server is {self.phase.value}", {"Retry-After": "5"})

    def check_ready(self) -> None:
        """Raises a Refusal with status 503 unless requests can be answered."""
        refusal = self.refusal()
        if refusal:
            raise refusal

    @property
    def is_busy(self) -> bool:
        """Whether a version is being loaded, which can't be broken off."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, ready: Callable[[], Any], failed: Callable[[], Any]) -> None:
        """Begins to load the models; then calls one of both."""
        self._task = asyncio.create_task(self._run(ready, failed))

    async def _run(self, ready: Callable[[], Any], failed: Callable[[], Any]) -> None:
        try:
            for model in self.models.values():
                await self._in_thread(model.load_newest)
        except Exception as error:  # such as no memory for a thread
            told = f"model {model.name}: can't be loaded ({reason(error)})"
            self.failure = error if isinstance(error, UserError) else UserError(told)
            failed()
            return
        if self.phase is Phase.STARTING:
            self.phase = Phase.READY
            try:
                ready()
            except OSError as error:  # whoever read the standard output has ended, or the disk is full
                log.warning("can't print that the server is ready: %s", reason(error))
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for model in self.models.values():
                try:
                    await self._watch(model)
                except Exception:  # such as no memory for a thread; later there may be some
                    log.exception("model %s: checking for a new version failed; trying again", model.name)
                    await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, model: ServedModel) -> None:
        model.free_replaced()
        number = max(await self._in_thread(model.source.versions), default=model.number)
        newest = model.name, number
        if number == model.number or time.monotonic() < self._refused.get(newest, 0.0):
            return
        try:
            await self._in_thread(model.load_newest)
        except UserError as error:
            self._refused[newest] = time.monotonic() + RETRY_SECONDS
            log.warning("model %s version %d: %s; keeping version %s", *newest, error, model.number)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Works in a thread of its own, since the end of the event loop waits for those of `asyncio.to_thread`."""
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()  # it goes on to its end, whoever waits for it

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        self._thread = threading.Thread(target=run, name="load", daemon=True)
        self._thread.start()
        return await asyncio.wrap_future(done)

    async def drain(self, seconds: float) -> None:
        """Takes no new work, and waits for what is under way, at most so many seconds."""
        self.phase = Phase.DRAINING
        until = time.monotonic() + seconds
        while self.under_way and time.monotonic() < until:
            await asyncio.sleep(0.02)
        if self._task:
            self._task.cancel()
