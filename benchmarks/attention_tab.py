"""How fast the tab Attention opens and switches heads, with many long sentences: a real TensorBoard, a real browser.

python benchmarks/attention_tab.py
"""

from __future__ import annotations

import argparse
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

SENTENCES, TOKENS, LAYERS, HEADS, STEPS = 100, 60, 6, 8, 5
OPENS, SWITCHES = 9, 20

# Until the next picture is on the screen: two frames after the page has changed.
SWITCH = """(frame, [name, value]) => new Promise(done => {
    const select = frame.querySelector(`select[name=${name}]`);
    const began = performance.now();
    new MutationObserver((_, observer) => {
        observer.disconnect();
        requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
    }).observe(frame.querySelector('.view'), {childList: true});
    select.value = value;
    select.dispatchEvent(new Event('change'));
})"""


def write_logs(folder: Path) -> None:
    """Writes sentences whose attention is sharp here and wide there, as a model's is."""
    import tensorflow as tf

    from tf_transformer.tensorboard import attention_summary

    random = np.random.default_rng(1)
    words = [f"▁word{number}" for number in range(TOKENS)]
    with tf.summary.create_file_writer(str(folder)).as_default():
        for sentence in range(SENTENCES):
            for step in range(STEPS):
                logits = random.normal(size=(3, LAYERS, HEADS, TOKENS, TOKENS))
                logits *= random.uniform(0, 5, (3, LAYERS, HEADS, 1, 1))
                weights = np.exp(logits - logits.max(-1, keepdims=True))
                weights /= weights.sum(-1, keepdims=True)
                attention = dict(zip(("encoder", "decoder", "cross"), weights, strict=True))
                attention_summary(f"{sentence:03d}", words, words, attention, step=step)


def start_tensorboard(folder: Path) -> tuple[subprocess.Popen, str]:
    """Starts a server, and waits until it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("tensorboard"), "--logdir", folder, "--host", "127.0.0.1", "--port", port]
    process = subprocess.Popen([str(part) for part in command], stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    while True:
        try:
            urllib.request.urlopen(address).read()
            return process, address
        except OSError:
            if process.poll() is not None:
                raise SystemExit("TensorBoard did not start") from None
            time.sleep(0.1)


def measure(browser, address: str) -> tuple[list[float], dict[str, list[float]]]:
    """Seconds to open the tab, TensorBoard's own page included; milliseconds to switch, by what is switched."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    frame = page.frame_locator("iframe:visible")
    opens = []
    for sentence in range(OPENS):
        page.goto("about:blank")
        began = time.perf_counter()
        # The least threshold: as many lines as are ever drawn.
        page.goto(f"{address}/#attention&p.attention.tag={sentence:03d}&p.attention.least=0.01")
        frame.locator(".map").first.wait_for()
        opens.append(time.perf_counter() - began)
    switches = {}
    for view, name, number in ("heat", "head", HEADS), ("heat", "layer", LAYERS), ("lines", "layer", LAYERS):
        frame.locator(f"[name=view-{view}]").click()
        frame.locator(f"select[name={name}]").wait_for()
        root = frame.locator(".attention")
        switches[f"{view}, another {name}"] = [
            root.evaluate(SWITCH, [name, str((turn + 1) % number)]) for turn in range(SWITCHES)
        ]
    return opens, switches


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    from playwright.sync_api import sync_playwright

    from tf_transformer.tensorboard.events import Index

    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not browser_path:
        raise SystemExit("a browser is needed: install chromium")
    with tempfile.TemporaryDirectory() as folder:
        write_logs(Path(folder) / "run")
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        began = time.perf_counter()
        Index(Path(folder)).refresh()
        index = time.perf_counter() - began
        process, address = start_tensorboard(Path(folder))
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
                )
                opens, switches = measure(browser, address)
                browser.close()
        finally:
            process.terminate()
            process.wait()
    sizes = f"{SENTENCES} sentences of {TOKENS} tokens, {LAYERS} layers, {HEADS} heads, {STEPS} steps"
    print(f"{sizes}: {size / 2**20:.0f} MiB of events")
    print(f"index of all events: {index:.2f} s")
    print(f"open: {statistics.median(opens):.2f} s, at most {max(opens):.2f} s")
    for name, times in switches.items():
        print(f"{name}: {statistics.median(times):.0f} ms, at most {max(times):.0f} ms")


if __name__ == "__main__":
    main()
