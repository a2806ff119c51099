"""The command `serve`: answer requests over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.cores import cores
from tf_transformer.errors import UserError
from tf_transformer.server.batching import BatchLimits
from tf_transformer.server.settings import Settings
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.process import keep_what_xla_compiles, quiet_tensorflow

KEY_VARIABLE = "TF_TRANSFORMER_API_KEY"


@app.command()
def serve(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL...",
            help="Folder of a SavedModel's versions (savedmodels/demo, whose highest version is served as demo), of "
            "one version, or of a CTranslate2 model.",
            show_default=False,
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is every address of this machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8501,
    api_key: Annotated[
        str | None,
        typer.Option(
            help=f"Key that requests must have. The environment variable {KEY_VARIABLE} is safer: other users can see "
            "a command's arguments.",
            envvar=KEY_VARIABLE,
            show_default=False,
        ),
    ] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Log texts and translations.")] = False,
    deadline: Annotated[float, typer.Option(min=0.1, help="Time limit for answering a request, in seconds.")] = 30.0,
    queue: Annotated[
        int,
        typer.Option(
            min=1, help="Maximum number of sentences that wait for a model; more are refused with status 429."
        ),
    ] = BatchLimits.queue,
    batch_tokens: Annotated[
        int,
        typer.Option(
            min=1, help="Maximum number of source tokens in a batch, including padding; a token is about 4 bytes."
        ),
    ] = BatchLimits.tokens,
    max_body: Annotated[
        int, typer.Option(min=1, help="Maximum size of a request's body, in bytes.")
    ] = Settings.max_body,
    max_texts: Annotated[int, typer.Option(min=1, help="Maximum number of texts in a request.")] = Settings.max_texts,
    max_characters: Annotated[
        int, typer.Option(min=1, help="Maximum number of characters in a text.")
    ] = Settings.max_characters,
) -> None:
    """Serves models over HTTP, in LibreTranslate's and TensorFlow Serving's interfaces."""
    if (os.environ.get(KEY_VARIABLE) if api_key is None else api_key) == "":  # an empty variable is none for Typer
        raise UserError(
            f"the API key (--api-key or {KEY_VARIABLE}) is empty; give one, or leave it out to serve anybody"
        )
    if api_key and not (api_key.isascii() and api_key.isprintable() and api_key == api_key.strip()):
        # Other characters come through a header changed, and blanks at an end not at all.
        raise UserError(
            f"the API key (--api-key or {KEY_VARIABLE}) must consist of printable ASCII characters, with no "
            "space at the start or end; choose another"
        )
    try:
        import babel  # noqa: F401
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(f"the server can't be imported ({error}); pip install 'tf_transformer[serve]'") from None
    from tf_transformer.server.models import Models, find_sources
    from tf_transformer.server.running import listen, run

    sources = find_sources(models)
    bound = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{bound.getsockname()[1]}"
    names = ", ".join(source.name for source in sources)
    notes.print(
        f"loading and warming up {names}, which takes about a minute; requests are answered with 503 until then"
    )
    keep_what_xla_compiles()
    with quiet_tensorflow(streams=True):
        pass
    served = Models(sources, BatchLimits(tokens=batch_tokens, queue=queue, threads=cores()), deadline)
    settings = Settings(
        max_body=max_body,
        max_texts=max_texts,
        max_characters=max_characters,
        drain_seconds=deadline,
        api_key=api_key or None,
        log_texts=log_texts,
    )
    run(served, settings, bound, lambda: print(f"serving {names} at {address}", flush=True))
