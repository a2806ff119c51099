"""What a server on the net gets that nobody should send: odd texts, broken requests, clients that misbehave."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

# One plane of Unicode has so many code points.
PLANE = 0x10000
SURROGATES = range(0xD800, 0xE000)

EMOJI = ["👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "🧑🏿\u200d🚀"]
RIGHT_TO_LEFT = ["שלום עולם", "مرحبا بالعالم", "\u202eabc\u202c", "\u2067שלום\u2069", "العَرَبِيَّة؟"]
LIKE_CODE = [
    "<s> </s> <pad> <unk> <0x00>",
    "%s%n{0}${x}",
    "'; DROP TABLE t; --",
    "<script>alert(1)</script>",
    "\\u0000",
]
SPACES = [chr(code) for code in (9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x200B, 0x2028, 0x2029, 0x3000, 0xFEFF)]

SECONDS_TO_ANSWER = 60


def odd_texts(number: int, seed: int = 0) -> list[str]:
    """Texts of every plane of Unicode, control characters, scripts from right to left, emoji, marks, huge words."""
    rng = random.Random(seed)

    def of_a_plane() -> str:
        start = PLANE * rng.randrange(17)
        codes = (rng.randrange(start, start + PLANE) for _ in range(rng.randint(1, 8)))
        return "".join(chr(code) for code in codes if code not in SURROGATES)

    kinds: list[Callable[[], str]] = [
        *3 * [of_a_plane],
        lambda: "".join(chr(rng.choice([*range(32), *range(127, 160)])) for _ in range(rng.randint(1, 8))),
        lambda: " ".join(rng.choices(RIGHT_TO_LEFT, k=2)),
        lambda: "".join(rng.choices(EMOJI, k=3)),
        lambda: rng.choice(LIKE_CODE) + str(rng.random()),
        lambda: "a" + "".join(chr(rng.randrange(0x300, 0x370)) for _ in range(8)),
        lambda: "".join(rng.choices(SPACES, k=rng.randint(0, 12))),
        lambda: rng.choice(".!?…„“\"'()[]{}-–*#,;:") * rng.randint(1, 500),
        lambda: rng.choice(SPACES).join(["A man sees a house."] * rng.randint(1, 3)),
    ]
    texts = [rng.choice(kinds)() for _ in range(number)]
    for i in range(0, number, 500):  # few: each is as much work as a hundred sentences
        texts[i] = rng.choice("aß漢") * rng.randint(300, 3_000)
    return texts


class Answer(NamedTuple):
    """The status of an answer, None where the connection was closed without one, and seconds until then."""

    status: int | None
    seconds: float


class Hostile(NamedTuple):
    """Something hostile, the statuses that may answer it, and whether it takes many seconds."""

    name: str
    act: Callable[[str], Answer]
    allowed: set[int | None]
    slow: bool = False


def converse(
    address: str,
    parts: Iterable[bytes],
    pause: float = 0.0,
    half_close: bool = False,
    leave: bool = False,
) -> Answer:
    """Sends bytes part by part, and reads the status of the answer.

    Args:
        address: "http://127.0.0.1:8501".
        parts: what is sent; no further part once the server answers or closes the connection.
        pause: seconds after each part.
        half_close: nothing more can be sent, but an answer can be read.
        leave: the connection is closed without reading.
    """
    began = time.perf_counter()
    url = urlsplit(address)
    status = None
    with socket.create_connection((url.hostname, url.port), timeout=SECONDS_TO_ANSWER) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                if pause and _can_be_read(connection, pause):
                    break
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            if not leave:
                line = connection.makefile("rb").readline()
                status = int(line.split()[1]) if line.startswith(b"HTTP/") else None
        except (ConnectionError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                status = -1  # neither answered nor closed: never allowed
    return Answer(status, time.perf_counter() - began)


def _can_be_read(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        connection.recv(1, socket.MSG_PEEK)
        return True
    except TimeoutError:
        return False
    finally:
        connection.settimeout(SECONDS_TO_ANSWER)


def request(body: bytes, path: str = "/translate", method: str = "POST", headers: str = "") -> bytes:
    """A request as bytes; its length is told unless `headers` do."""
    if "content-length" not in headers.lower() and "chunked" not in headers.lower():
        headers += f"Content-Length: {len(body)}\r\n"
    kind = "" if "content-type" in headers.lower() else "Content-Type: application/json\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}{headers}\r\n".encode() + body


def chunked(size: int) -> Iterator[bytes]:
    """A body that does not tell its length."""
    yield request(b"", headers="Transfer-Encoding: chunked\r\n")
    for _ in range(size // 2**16):
        yield b"10000\r\n" + b"a" * 2**16 + b"\r\n"
    yield b"0\r\n\r\n"


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def hostile_acts(pair: dict[str, str]) -> list[Hostile]:
    """What is done, again and again. `pair` is a `source` and a `target` that the server translates."""

    def asking(**changes: object) -> bytes:
        return json.dumps({"q": "A man sees a house.", **pair, **changes}).encode()

    def acts(name: str, data: bytes, *allowed: int | None) -> Hostile:
        return Hostile(name, partial(converse, parts=[data]), set(allowed))

    def said(name: str, body: bytes, *allowed: int | None) -> Hostile:
        return acts(name, request(body), *allowed)

    good = request(asking())
    head, _, body = good.partition(b"\r\n\r\n")
    predict = "/v1/models/x:predict"
    return [
        *(said("broken JSON", broken, 400) for broken in (b"", b"{", asking()[:-1], asking() + b"}", b"\xff\xfe{}")),
        *(said("JSON that is no request", value, 400) for value in (b"[]", b"null", b'"x"', b"NaN", b"1e999", b"{}")),
        said("deep JSON", b"[" * 200_000, 400),
        *(said("q that is no text", asking(q=q), 400) for q in (1, {"a": 1}, [["a"]], [1, "a"], True)),
        *(said("half a surrogate pair", asking(q=q), 400) for q in ("\ud800", "a \udfff b", "\udc00\ud800")),
        *(said("odd alternatives", asking(alternatives=n), 400) for n in (-1, 10**30, "x", 1.0e300)),
        *(said("odd languages", asking(**{key: "\0" * 9}), 400) for key in ("source", "target", "format")),
        said("too long a text", asking(q="a " * 200_000), 400, 413),
        said("too many texts", asking(q=["a"] * 50_000), 400, 413),
        said("many lines", asking(q=["a\n" * 9_900] * 60), 413),
        said("many tags", asking(q=["<b>a</b>" * 2_400] * 100, format="html"), 413),
        said("what might be tags", asking(q=["<" * 19_000] * 20, format="html"), 200),
        said("10 MB", asking(q="a" * 10_000_000), 413, None),
        Hostile("10 MB in chunks", lambda address: converse(address, chunked(10_000_000)), {413, None}),
        said("nothing but zeros", b"\0" * 1_000, 400),
        acts("compressed", request(b"\x1f\x8b\x08" + b"x" * 90, headers="Content-Encoding: gzip\r\n"), 400, 415),
        acts("a form", request(b"q=%FF%&=&&&", headers="Content-Type: application/x-www-form-urlencoded\r\n"), 400),
        acts("parts", request(b"--x", headers="Content-Type: multipart/form-data; boundary=x\r\n"), 400, 415),
        acts("another method", request(b"", method="DELETE"), 405),
        acts("another path", request(b"", path="/%00/../../etc/passwd", method="GET"), 400, 404),
        acts("a file of the server", request(b"", path="/static/../app.py", method="GET"), 400, 404),
        acts("no such model", request(b'{"instances": ["a"]}', path=predict), 404),
        acts("no HTTP", random.Random(0).randbytes(500) + b"\r\n\r\n", 400, None),
        acts("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), 400, None),
        acts("another version of HTTP", b"GET / HTTP/9.9\r\n\r\n", 200, 400, 404, 505, None),
        *(acts("odd length", request(body, headers=f"Content-Length: {n}\r\n"), 400, None) for n in ("-1", "x", "1e3")),
        acts("two lengths", request(body, headers="Content-Length: 1\r\nContent-Length: 9\r\n"), 400, None),
        acts("a huge header", request(body, headers="X: " + "a" * 300_000 + "\r\n"), 400, 431, None),
        acts("many headers", request(body, headers="X: a\r\n" * 20_000), 200, 400, 431, None),
        acts("two requests at once", good + good, 200),
        Hostile("half-closed", partial(converse, parts=[good], half_close=True), {200, None}),
        Hostile("half a request", partial(converse, parts=[head, b"\r\n\r\n", body[:9]], half_close=True), {400, None}),
        Hostile("gone at once", partial(converse, parts=[good], leave=True), {None}),
        Hostile("gone in the middle", partial(converse, parts=[good[:-9]], leave=True), {None}),
        Hostile("slow header", lambda a: converse(a, byte_by_byte(good), 1.0), {400, 408, None}, slow=True),
        Hostile("slow body", lambda a: converse(a, [head + b"\r\n\r\n", *byte_by_byte(body)], 1.0), {408, None}, True),
        Hostile("silent", lambda a: converse(a, [b""]), {408, None}, slow=True),
        Hostile("a body that never comes", lambda a: converse(a, [head + b"\r\n\r\n"]), {408, None}, slow=True),
    ]
