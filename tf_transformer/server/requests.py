"""What all interfaces share: reading a request within its limits, refusing it, giving up when its client has gone."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from starlette.requests import ClientDisconnect, Request

from tf_transformer.files.as_json import read_json
from tf_transformer.server.settings import Settings

T = TypeVar("T")


class Note(NamedTuple):
    """What the log tells of a request: the model, texts and translations; only their number unless it may tell all."""

    model: str
    texts: Sequence[str]
    translations: Sequence[str]


# Of a body that is too large so much more is read and thrown away, so that the client gets to the answer.
LINGER_BYTES = 2**26


class Refusal(Exception):
    """A request that is refused: status, one line that says why, further headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})


async def read_body(request: Request) -> bytes:
    """The body of a request that is to be answered.

    Whether the server is ready counts when the headers have come, and not when the body has: a request that is under
    way when the server begins to drain is answered. It is refused only once its body has been read, since a client that
    still sends would not get to the answer.

    Raises:
        Refusal: the server was not ready, or the body is larger than may be, or too long in coming.
        ClientDisconnect: the client has gone.
    """
    settings: Settings = request.app.state.settings
    refusal = request.app.state.lifecycle.refusal()
    closing = {"Connection": "close"}
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size <= settings.max_body:
                    body += part
                elif size > settings.max_body + LINGER_BYTES:
                    break
    except TimeoutError:
        message = f"the request's body did not arrive within {settings.body_seconds:g} seconds"
        raise Refusal(408, message, closing) from None
    if size > settings.max_body:
        raise Refusal(413, f"the request's body has more than {settings.max_body:,} bytes", closing)
    if refusal:
        raise refusal
    return bytes(body)


def parse_json(body: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        Refusal: it is none.
    """
    try:
        value = read_json(body)
    except ValueError as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refusal(400, "the body must be a JSON object")
    return value


def check_text(text: Any, name: str, settings: Settings) -> str:
    """A text of a request.

    Raises:
        Refusal: it is no text, too long, or no Unicode.
    """
    if not isinstance(text, str):
        raise Refusal(400, f"{name} must be a string")
    if len(text) > settings.max_characters:
        raise Refusal(400, f"{name} has {len(text):,} characters; at most {settings.max_characters:,} are allowed")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refusal(400, f"{name} contains half of a surrogate pair, which is not a character") from None
    return text


def check_key(request: Request, given: Any = None) -> None:
    """Compares the API key, `Authorization: Bearer KEY` or as a parameter, where the server wants one.

    Raises:
        Refusal: it is missing or wrong.
    """
    wanted = request.app.state.settings.api_key
    if wanted is None:
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    key = given if given else token if scheme.lower() == "bearer" else None
    if not key:
        raise Refusal(401, "this server requires an API key", {"WWW-Authenticate": "Bearer"})
    if not hmac.compare_digest(str(key).encode(errors="replace"), wanted.encode()):
        raise Refusal(403, "Invalid API key")


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Awaits the work, and cancels it when the client goes. The body must have been read.

    Raises:
        ClientDisconnect: the client has gone.
    """
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, gone):
            task.cancel()


async def together(*work: Awaitable[T]) -> list[T]:
    """Awaits several pieces of work; the others are cancelled when one fails, and all when this is."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def note(request: Request, model: str, texts: Sequence[str], translations: Sequence[str] = ()) -> None:
    """Remembers what the log tells of a request."""
    request.state.note = Note(model, texts, translations)
