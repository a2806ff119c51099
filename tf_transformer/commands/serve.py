"""The command `serve`: answer requests over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.errors import UserError
from tf_transformer.terminal import cores, quiet_tensorflow


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
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all of this machine's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8501,
    api_key: Annotated[
        str | None,
        typer.Option(
            help="Key that requests must bring; better given in the environment, which other users can't read.",
            envvar="TF_TRANSFORMER_API_KEY",
            show_default=False,
        ),
    ] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Log texts and translations.")] = False,
) -> None:
    """Serves models over HTTP: LibreTranslate's interface, TensorFlow Serving's REST interface, a page."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(f"the server can't be imported ({error}); pip install 'tf_transformer[serve]'") from None
    from tf_transformer.server.batching import BatchLimits
    from tf_transformer.server.models import Models, find_sources
    from tf_transformer.server.running import listen, run
    from tf_transformer.server.settings import Settings

    sources = find_sources(models)
    bound = listen(host, port)
    address = f"http://{host}:{bound.getsockname()[1]}"
    with quiet_tensorflow(streams=True):
        pass
    served = Models(sources, BatchLimits(threads=cores()))
    names = ", ".join(served)
    run(
        served,
        Settings(api_key=api_key, log_texts=log_texts),
        bound,
        lambda: print(f"serving {names} at {address}", flush=True),
    )
