"""The page at `/`, and what it asks of the models: JSON below `/page/`, each request with its text in the body."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tf_transformer.languages import language_name
from tf_transformer.server.exploring import as_steps, as_words, prefixes_of
from tf_transformer.server.models import ServedModel
from tf_transformer.server.requests import (
    Refusal,
    check_key,
    check_text,
    note,
    parse_json,
    read_body,
    together,
    unless_gone,
)
from tf_transformer.server.texts import without_blocking
from tf_transformer.server.versions import Version
from tf_transformer.tokenizers.spans import token_spans
from tf_transformer.translation.paragraphs import behind_translations, split_text
from tf_transformer.translation.texts import Translation, as_translations

PAGE = Path(__file__).parent / "static" / "page.html"
# The drawings of attention are those of TensorBoard's tab.
DRAWINGS = Path(__file__).parents[1] / "tensorboard" / "static"

# Scripts, styles and answers come from this server alone; drawings of weights are images made in the page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

# Likely words that are offered in the place of one.
WORDS = 8
# Alternatives of a model that searches greedily.
ALTERNATIVES = 4


def routes() -> list[BaseRoute]:
    """The page's routes."""
    return [
        Route("/", page, methods=["GET"]),
        Mount("/static/attention", StaticFiles(directory=DRAWINGS)),
        Route("/page/models", list_models, methods=["GET"]),
        Route("/page/translate", translate, methods=["POST"]),
        Route("/page/sentence", sentence, methods=["POST"]),
        Route("/page/words", words, methods=["POST"]),
        Route("/page/attention", attention, methods=["POST"]),
        Route("/page/search", search, methods=["POST"]),
    ]


async def page(request: Request) -> Response:
    """The page itself."""
    return FileResponse(PAGE, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"})


async def list_models(request: Request) -> JSONResponse:
    """The models that translate: their languages, and what the page can show of them."""
    request.app.state.lifecycle.check_ready()
    settings = request.app.state.settings
    told = []
    for model in request.app.state.models.values():
        version = model.version
        if version is not None and version.translates:
            source, target = ({"code": code, "name": language_name(code)} for code in version.languages)
            shows = {name: signature in version.signatures for name, signature in SHOWN_BY.items()}
            told.append({"name": model.name, "version": version.number, "source": source, "target": target, **shows})
    return JSONResponse(
        {"models": told, "maxCharacters": settings.max_characters, "keyRequired": settings.api_key is not None}
    )


# What the page shows, and the signature that a model needs for it.
SHOWN_BY = {
    "prefix": "translate_with_options",
    "attention": "attention",
    "words": "next_tokens",
    "search": "translate_with_search",
}


async def translate(request: Request) -> JSONResponse:
    """Translates a text of any length, sentence by sentence; some may have to begin with a prefix.

    The answer's `parts` are in turn what stands between two sentences, a string, and a sentence, which tells what
    stands `behind` its translation: that may be a space where the source has none; and what the model `read`: in front
    of the sentence the text's language tags, which are no part. Those and the spaces behind them are `tagged`
    characters. `version` is that of the model.
    """
    asked, model, version = await _asked(request)
    text = check_text(asked.get("text"), "text", request.app.state.settings)
    splitting = text, version.languages[0], None, version.language_tags
    split = await without_blocking(len(text), split_text, *splitting)
    pieces = split.pieces
    given = asked.get("prefixes") or {}
    if not isinstance(given, dict):
        raise Refusal(400, "prefixes must be an object with a string for each sentence's number")
    prefixes = {
        number: check_text(given[str(number)], "prefixes", request.app.state.settings)
        for number in range(len(split.read))
        if given.get(str(number))
    }
    found = await unless_gone(request, _translate(model, version, split.read, prefixes))
    note(request, model.name, [text], [each.text for each in found])
    parts: list[Any] = [pieces[0]]
    behind = behind_translations(pieces, [each.text for each in found])
    for source, read, after, each, own in zip(pieces[1::2], split.read, pieces[2::2], found, behind, strict=True):
        told = {"source": source, "read": read, "text": each.text, "score": each.score, "behind": own}
        parts += [{**told, "truncated": bool(each.truncated)}, after]
    return JSONResponse({"parts": parts, "tagged": split.length, "version": version.number})


async def sentence(request: Request) -> JSONResponse:
    """Of one sentence and its translation: tokens, where they stand in the texts, alignment, and alternatives."""
    asked, model, version = await _asked(request)
    source, target = _pair(asked, request)
    prefix = check_text(asked.get("prefix") or "", "prefix", request.app.state.settings)
    seen, others = await unless_gone(
        request, together(_attention(model, version, source, target), _alternatives(model, version, source, prefix))
    )
    note(request, model.name, [source], [target])
    answer: dict[str, Any] = {"alternatives": [{"text": text, "score": score} for text, score in others]}
    if seen:
        for side, text in (("source", source), ("target", target)):
            tokens = _strings(seen[f"{side}_tokens"][0])
            spans = await asyncio.to_thread(token_spans, tokens, text)  # which may take a second
            answer[side] = {"tokens": tokens, "spans": spans}
        answer |= {"ids": seen["target_ids"][0].tolist(), "alignment": seen["alignment"][0].tolist()}
    return JSONResponse(answer)


async def words(request: Request) -> JSONResponse:
    """What else was likely in the place of some tokens of a translation, and how it would go on."""
    asked, model, version = await _asked(request)
    source = check_text(asked.get("source"), "source", request.app.state.settings)
    ids, start, end = asked.get("ids"), asked.get("start"), asked.get("end")
    rows = prefixes_of(ids, start, end)
    inputs = {"text": [source] * len(rows), "prefix_ids": rows, "count": WORDS}
    found = await unless_gone(request, model.call(version, "next_tokens", **inputs))
    note(request, model.name, [source])
    return JSONResponse({"words": as_words(found, ids[start:end])})


async def attention(request: Request) -> JSONResponse:
    """All attention weights of a pair, as TensorBoard's tab reads them."""
    from tf_transformer.inspection.kinds import KINDS
    from tf_transformer.inspection.sentence import Inspection
    from tf_transformer.tensorboard.page import make_record

    asked, model, version = await _asked(request)
    source, target = _pair(asked, request)
    seen = await unless_gone(request, _attention(model, version, source, target))
    note(request, model.name, [source], [target])
    if not seen:
        raise Refusal(
            400, f"the model {model.name} has no attention to show; export it as a SavedModel with this version"
        )
    weights = {kind: seen[f"{kind}_attention"][0] for kind in KINDS if f"{kind}_attention" in seen}
    tokens = (_strings(seen[f"{side}_tokens"][0]) for side in ("source", "target"))
    inspection = Inspection(source, target, *tokens, weights, seen["alignment"][0].tolist(), False)
    return JSONResponse(await asyncio.to_thread(make_record, inspection))


async def search(request: Request) -> JSONResponse:
    """The beam search for a sentence: each step's hypotheses, and what became of them."""
    asked, model, version = await _asked(request)
    settings = request.app.state.settings
    source = check_text(asked.get("source"), "source", settings)
    prefix = check_text(asked.get("prefix") or "", "prefix", settings)
    if "translate_with_search" not in version.signatures:
        raise Refusal(400, f"the model {model.name} has no search to show; export it as a SavedModel with this version")
    options = version.options
    inputs = {name: getattr(options, name) for name in ("beam_size", "alpha", "min_length")}
    inputs |= {"num_hypotheses": 1, "max_length": options.max_length or 0, "text": [source], "prefix": [prefix]}
    found = await unless_gone(request, model.call(version, "translate_with_search", **inputs))
    note(request, model.name, [source])
    told = {"beamSize": options.beam_size, "alpha": options.alpha, "steps": as_steps(found)}
    best = {"translation": _strings(found["translation"][0])[0], "score": float(found["score"][0, 0])}
    return JSONResponse({**told, **best})


async def _asked(request: Request) -> tuple[dict[str, Any], ServedModel, Version]:
    """What a request holds, and the model that it names, with its version."""
    body = await read_body(request)
    check_key(request)
    asked = parse_json(body)
    model = request.app.state.models.get(str(asked.get("model")))
    version = model and model.version
    if version is None or not version.translates:
        raise Refusal(404, "there is no such model; reload the page")
    return asked, model, version


def _pair(asked: dict[str, Any], request: Request) -> tuple[str, str]:
    settings = request.app.state.settings
    source, target = (check_text(asked.get(name), name, settings) for name in ("source", "target"))
    return source, target


async def _translate(
    model: ServedModel, version: Version, sentences: Sequence[str], prefixes: dict[int, str]
) -> list[Translation]:
    """Translates sentences; those without a prefix share batches with all other requests."""
    free = [text for number, text in enumerate(sentences) if number not in prefixes]
    found = await together(
        model.translate(version, free),
        *(_with_options(model, version, sentences[number], prefix) for number, prefix in prefixes.items()),
    )
    translated, begun = iter(found[0]), dict(zip(prefixes, found[1:], strict=True))
    return [begun[number] if number in begun else next(translated) for number in range(len(sentences))]


async def _with_options(model: ServedModel, version: Version, text: str, prefix: str, **changes: Any) -> Translation:
    from tf_transformer.translation.signature_options import option_tensors

    options = option_tensors(version.options.changed(**changes))
    found = await model.call(version, "translate_with_options", text=[text], prefix=[prefix], **options)
    (translation,) = as_translations(found)
    return translation


async def _alternatives(model: ServedModel, version: Version, source: str, prefix: str) -> list[tuple[str, float]]:
    """The best translations with their scores, as many as the search follows; none where only one can be had."""
    if SHOWN_BY["prefix"] not in version.signatures:
        return []
    beam_size = version.options.beam_size
    number = beam_size if beam_size > 1 else ALTERNATIVES
    if prefix:
        found = await _with_options(model, version, source, prefix, num_hypotheses=number)
    else:
        (found,) = await model.translate(version, [source], num_hypotheses=number)
    return [(found.text, found.score), *found.others]


async def _attention(model: ServedModel, version: Version, source: str, target: str) -> dict[str, np.ndarray]:
    """What the signature `attention` gives; nothing for a model without it."""
    if SHOWN_BY["attention"] not in version.signatures:
        return {}
    return await model.call(version, "attention", source=[source], target=[target])


def _strings(array: np.ndarray) -> list[str]:
    return [text.decode("utf-8", "replace") for text in array]
