"""What the server allows a request, and how it answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Limits of requests, and what is logged.

    Attributes:
        max_body: bytes of a request's body.
        max_texts: texts of a request.
        max_characters: characters of a text.
        body_seconds: a request's body must have come after so many.
        drain_seconds: what is under way at SIGTERM has so many to end.
        api_key: what a request that makes a model work must bring; None for nothing.
        log_texts: whether texts and translations are logged.
    """

    max_body: int = 2**21
    max_texts: int = 256
    max_characters: int = 20_000
    body_seconds: float = 10.0
    drain_seconds: float = 30.0
    api_key: str | None = None
    log_texts: bool = False
