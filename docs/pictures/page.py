"""Photographs the server's page for the documents: `python docs/pictures/page.py savedmodels/demo`.

It needs the export of `make demo`, the extra `serve`, Playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

PICTURE = Path(__file__).with_suffix(".png")
SENTENCE = "The old man reads the book because the young woman sleeps."
WORD = "junge"  # of its translation; what else was likely there is shown
SIZE = {"width": 1280, "height": 900}


def photograph(address: str) -> None:
    """Takes the picture of a server's page, with a word's offer and the search."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto(f"{address}/#t.text={quote(SENTENCE)}&t.view=search")
        page.wait_for_selector(".tree")
        page.locator("#target .word").filter(has_text=re.compile(f"^{WORD}$")).click()
        page.wait_for_selector("#offer button")
        page.mouse.move(0, 0)
        page.screenshot(path=PICTURE)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Photographs the server's page.")
    parser.add_argument("model", type=Path, help="the export of the demo")
    model = parser.parse_args().model
    command = [Path(sys.executable).with_name("tf-transformer"), "serve", model, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            photograph(server.stdout.readline().split()[-1])
        finally:
            server.terminate()
    print(PICTURE)


if __name__ == "__main__":
    main()
