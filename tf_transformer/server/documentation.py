"""/openapi.json, and /docs, a page made of it that needs no other host."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

SPECIFICATION = Path(__file__).with_name("openapi.yaml")


def routes() -> list[Route]:
    """The interface's routes."""
    return [Route("/openapi.json", openapi, methods=["GET"]), Route("/docs", docs, methods=["GET"])]


async def openapi(request: Request) -> JSONResponse:
    """The specification."""
    return JSONResponse(_specification())


async def docs(request: Request) -> HTMLResponse:
    """The page, with this server's address in its examples."""
    return HTMLResponse(page(_specification(), f"{request.url.scheme}://{request.url.netloc}"))


@cache
def _specification() -> dict[str, Any]:
    return yaml.safe_load(SPECIFICATION.read_text(encoding="utf-8"))


def page(specification: dict[str, Any], address: str) -> str:
    """The specification as an HTML page.

    Args:
        specification: in OpenAPI's form.
        address: the server's, for the examples.
    """
    operations = [
        (method, path, operation)
        for path, methods in specification["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(specification["info"]["title"])
    parts = [
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/docs.css">',
        '<link rel="icon" href="/static/icon.svg" type="image/svg+xml"></head>',
        f"<body><h1>{title}</h1><p>{escape(specification['info']['description'])} ",
        '<a href="/openapi.json">This page as an OpenAPI description</a>.</p>',
    ]
    for tag, group in groupby(operations, key=lambda each: each[2]["tags"][0]):
        parts.append(f"<h2>{escape(tag)}</h2>")
        parts += [_operation(*each, specification, address) for each in group]
    return "".join([*parts, "</body></html>"])


def _operation(method: str, path: str, operation: dict, specification: dict, address: str) -> str:
    parts = [f"<h3><code>{method.upper()} {escape(path)}</code></h3><p>{escape(operation['summary'])}.</p>"]
    if told := operation.get("description"):
        parts.append(f"<p>{escape(told)}</p>")
    command = f"curl {address}{path.replace('{name}', 'NAME')}"
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        rows = content["schema"]["properties"].items()
        parts.append(_table((name, schema.get("description", "")) for name, schema in rows))
        body = json.dumps(content["example"])
        command += f" \\\n  -H 'Content-Type: application/json' -d '{body}'"
    parts.append(f"<pre>{escape(command)}</pre>")
    answers = {
        status: answer if "$ref" not in answer else specification["components"]["responses"][_last(answer["$ref"])]
        for status, answer in operation["responses"].items()
    }
    parts.append(_table((status, answer["description"]) for status, answer in answers.items()))
    return "".join(parts)


def _table(rows: Any) -> str:
    cells = (f"<tr><th><code>{escape(name)}</code></th><td>{escape(told)}</td></tr>" for name, told in rows)
    return f"<table>{''.join(cells)}</table>"


def _last(reference: str) -> str:
    return reference.rpartition("/")[2]
