"""LibreTranslate's interface: /translate, /languages, /detect, /frontend/settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tf_transformer.languages import UNKNOWN_LANGUAGE, language_name
from tf_transformer.server.models import Models, ServedModel
from tf_transformer.server.requests import Refusal, check_key, check_text, note, parse_json, read_body, unless_gone
from tf_transformer.server.texts import translate_documents
from tf_transformer.server.versions import Version

FORMATS = ("text", "html")
MAX_ALTERNATIVES = 10
# Nothing is detected: where only one language can be meant, it is taken, and this says so.
NOT_DETECTED = 0.0


def routes() -> list[Route]:
    """The interface's routes."""
    return [
        Route("/translate", translate, methods=["POST"]),
        Route("/languages", languages, methods=["GET"]),
        Route("/detect", detect, methods=["POST"]),
        Route("/frontend/settings", frontend_settings, methods=["GET"]),
    ]


async def translate(request: Request) -> JSONResponse:
    """Translates `q`, a text or a list of texts."""
    asked = await _parameters(request)
    check_key(request, asked.get("api_key"))
    settings = request.app.state.settings
    texts, many = _texts(asked, settings)
    source, target = (_required(asked, name) for name in ("source", "target"))
    text_format = asked.get("format") or "text"
    if text_format not in FORMATS:
        raise Refusal(400, f"format is {text_format!r}; choose text or html")
    alternatives = _alternatives(asked.get("alternatives"))
    protect = _flag(asked.get("protect"), "protect")
    model, version = _model_for(request.app.state.models, source, target)

    translating = translate_documents(model, version, texts, text_format == "html", alternatives, protect)
    results = await unless_gone(request, translating)
    note(request, model.name, texts, [result.text for result in results])
    answer: dict[str, Any] = {"translatedText": [result.text for result in results]}
    if source == "auto":
        found = {"confidence": NOT_DETECTED, "language": version.languages[0]}
        answer["detectedLanguage"] = [found] * len(texts)
    if alternatives:
        answer["alternatives"] = [result.others for result in results]
    return JSONResponse(answer if many else {key: value[0] for key, value in answer.items()})


async def languages(request: Request) -> JSONResponse:
    """Every source language, with what it can be translated to."""
    request.app.state.lifecycle.check_ready()  # a client that asks once would keep a list without what is still loaded
    pairs = request.app.state.models.pairs()
    targets: dict[str, list[str]] = {}
    for source, target in pairs:
        targets.setdefault(source, []).append(target)
    # Clients look a target's name up among the languages.
    for target in sorted({target for _, target in pairs} - set(targets)):
        targets[target] = []
    return JSONResponse(
        [{"code": code, "name": language_name(code), "targets": names} for code, names in targets.items()]
    )


async def detect(request: Request) -> JSONResponse:
    """The one source language of the models, with confidence 0, since nothing is detected; an error with several."""
    asked = await _parameters(request)
    check_key(request, asked.get("api_key"))
    _texts(asked, request.app.state.settings)
    sources = sorted({source for source, _ in request.app.state.models.pairs()})
    if len(sources) != 1 or sources == [UNKNOWN_LANGUAGE]:
        raise Refusal(501, f"this server does not detect languages; it translates from {', '.join(sources) or 'none'}")
    return JSONResponse([{"confidence": NOT_DETECTED, "language": sources[0]}])


async def frontend_settings(request: Request) -> JSONResponse:
    """The limits, as clients of LibreTranslate read them."""
    request.app.state.lifecycle.check_ready()
    settings = request.app.state.settings
    pairs = list(request.app.state.models.pairs()) or [(UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE)]
    source, target = ({"code": code, "name": language_name(code)} for code in pairs[0])
    return JSONResponse(
        {
            "apiKeys": settings.api_key is not None,
            "charLimit": settings.max_characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": settings.api_key is not None,
            "language": {"source": source, "target": target},
            "suggestions": False,
            "supportedFilesFormat": [],
        }
    )


async def _parameters(request: Request) -> dict[str, Any]:
    """Those of a JSON body, or of a form and the address."""
    body = await read_body(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return parse_json(body)
    asked = _values(request.query_params.multi_items())
    if kind == "multipart/form-data":
        raise Refusal(
            415, "multipart forms are not supported; send JSON, or a form as application/x-www-form-urlencoded"
        )
    from urllib.parse import parse_qsl

    try:
        most = request.app.state.settings.max_texts + 100
        form = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=most)
    except ValueError as error:
        raise Refusal(400, f"the form can't be read: {error}") from None
    return asked | _values(form)


def _values(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The values of a form or an address by name; several `q` are a list, as in JSON."""
    given: dict[str, list[str]] = {}
    for name, value in pairs:
        given.setdefault(name, []).append(value)
    for name, values in given.items():
        if name != "q" and len(set(values)) > 1:
            raise Refusal(400, f"{name} is given {len(values)} times, with different values; give it once")
    return {name: values if name == "q" and len(values) > 1 else values[0] for name, values in given.items()}


def _required(asked: dict[str, Any], name: str) -> Any:
    if not asked.get(name):
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    if not isinstance(asked[name], str):
        raise Refusal(400, f"{name} must be a string")
    return asked[name]


def _texts(asked: dict[str, Any], settings: Any) -> tuple[list[str], bool]:
    """The texts of `q`, and whether it is a list."""
    q = asked.get("q")
    if q is None:
        raise Refusal(400, "Invalid request: missing q parameter")
    if not isinstance(q, list):
        return [check_text(q, "q", settings)], False
    if len(q) > settings.max_texts:
        raise Refusal(400, f"q has {len(q):,} texts; at most {settings.max_texts:,} are allowed")
    return [check_text(text, f"q[{i}]", settings) for i, text in enumerate(q)], True


def _alternatives(given: Any) -> int:
    try:
        number = int(given or 0)
    except (TypeError, ValueError, OverflowError):  # of what is infinite
        raise Refusal(400, "alternatives must be a whole number") from None
    if not 0 <= number <= MAX_ALTERNATIVES:
        raise Refusal(400, f"alternatives is {number}; it must be from 0 to {MAX_ALTERNATIVES}")
    return number


def _flag(given: Any, name: str) -> bool:
    """A truth value; a form has it as text."""
    known = {None: False, "": False, "false": False, "true": True}
    if isinstance(given, bool):
        return given
    if not isinstance(given, str | None) or given not in known:
        raise Refusal(400, f"{name} must be true or false")
    return known[given]


def _model_for(models: Models, source: str, target: str) -> tuple[ServedModel, Version]:
    """The model for a pair of languages, and its version.

    One for `de` is also one for `de-AT`, which one for `de-AT` goes before.
    """
    pairs = models.pairs()
    fitting = [pair for pair in pairs if _fits(pair[1], target) and (source == "auto" or _fits(pair[0], source))]
    for side, asked in ((1, target), (0, source)):
        exact = [pair for pair in fitting if _normal(pair[side]) == _normal(asked)]
        fitting = exact or fitting
    if len(fitting) == 1:
        return pairs[fitting[0]]
    told = ", ".join(f"{a} to {b}" for a, b in pairs) or "nothing"
    if fitting:
        raise Refusal(400, f"source is auto, but this server does not detect languages; it translates {told}")
    raise Refusal(400, f"{source} to {target} is not supported; this server translates {told}")


def _fits(own: str, asked: str) -> bool:
    own, asked = _normal(own), _normal(asked)
    return own == asked or own == asked.partition("-")[0]


def _normal(code: str) -> str:
    return code.lower().replace("_", "-")
