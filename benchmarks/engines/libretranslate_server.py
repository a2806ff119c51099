"""LibreTranslate's server with one package for Argos Translate, in a home of its own that goes with it."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def main(package: str, source: str, target: str, threads: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # for the folder to go
    sys.path.insert(0, str(REPOSITORY))
    from tests.bounded import free_port

    with tempfile.TemporaryDirectory() as folder, free_port() as port:
        home = Path(folder)
        os.environ |= {f"XDG_{kind.upper()}_HOME": str(home / kind) for kind in ("data", "config", "cache")}
        install(package, (source, target), home)
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what it says itself goes into the log
        address = f"http://127.0.0.1:{port}"
        threading.Thread(target=tell_when_ready, args=(address, answers), daemon=True).start()
        import libretranslate.init

        # At its start it would take packages from the network, if there is one, in place of this one.
        libretranslate.init.boot = lambda *settings: None
        from libretranslate.main import main as serve

        sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", str(port), "--threads", threads]
        sys.argv += ["--load-only", f"{source},{target}", "--disable-web-ui"]
        serve()


def install(package: str, languages: tuple[str, str], home: Path) -> None:
    """Installs the package, and a model that finds the ends of sentences: LibreTranslate's is on the network."""
    from tests.export.argos.splitter import write_splitter

    splitters = home / "data" / "argos-translate" / "minisbd"
    splitters.mkdir(parents=True)
    for language in languages:
        write_splitter(splitters / f"{language}.onnx")
    os.chdir(home)  # it writes a file of its own beside its models
    from argostranslate import package as packages
    from argostranslate import settings

    Path(settings.local_package_index).write_text("[]")  # or it asks the network for one, again and again
    packages.install_from_path(package)


def tell_when_ready(address: str, answers) -> None:
    while True:
        try:
            urllib.request.urlopen(f"{address}/languages", timeout=5).close()
        except OSError:
            time.sleep(0.2)
            continue
        print(address, file=answers, flush=True)
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
