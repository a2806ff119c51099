"""Attention of a small model in training, a real TensorBoard that serves it, and a real browser that looks."""

import contextlib
import json
import subprocess
import sys
import urllib.parse
import urllib.request
import zlib
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import expect
from tensorboard.plugins import base_plugin
from werkzeug.test import Client

from tests.bounded import SECONDS, eventually, free_port, started
from tests.browser import make_page
from tests.eager import eagerly
from tests.tiny_run import PAIRS, one_at_a_time
from tf_transformer import (
    DecodingOptions,
    SmoothedCrossEntropy,
    Transformer,
    Translator,
    make_batches,
    train_tokenizers,
)
from tf_transformer.tensorboard import AttentionBoard, attention_summary
from tf_transformer.tensorboard.plugin import AttentionPlugin

LAYERS, HEADS, STEPS = 2, 4, (1, 3)
RUN = "toy/attention"

# What is no plain English: markup, Hangul, a family of emoji joined by zero-width joiners, text from right to left.
NASTY = "<script>window.hit=1</script> 강아지 \U0001f469\u200d\U0001f469\u200d\U0001f467 שלום <b>&amp;</b>"
SENTENCES = [
    ("A man sees a house.", "Ein Mann sieht ein Haus."),
    (NASTY, "<i>Ein</i> Verweis"),
    "Our dog loves a house.",
]
TAGS = ["1 A man sees a house.", f"2 {NASTY}", "3 Our dog loves a house."]


@pytest.fixture(scope="session")
def log_dir(tmp_path_factory) -> Path:
    """Run `toy/attention` from `fit`, run `long` with a sentence that is cut, and a run whose event file is damaged.

    All test processes have it in common.
    """
    with one_at_a_time(tmp_path_factory.getbasetemp(), "logs") as common:
        folder = common / "logs"
        if not folder.exists():
            making = tmp_path_factory.mktemp("logs")
            with eagerly():
                write_logs(making)
            making.rename(folder)
        return folder


def write_logs(folder: Path) -> None:
    keras.utils.set_random_seed(1)
    tokenizers = train_tokenizers([*PAIRS, *[(NASTY, NASTY)] * 8], vocab_size=420)
    size = tokenizers.source.vocab_size
    model = Transformer(LAYERS, 16, HEADS, 32, size, size, max_length=300)
    model.build(((None, None), (None, None)))
    model.compile(keras.optimizers.Adam(0.01), SmoothedCrossEntropy())
    translator = Translator(model, tokenizers, DecodingOptions(beam_size=1, max_length=12))
    attend = translator.functions["translate_with_attention"]
    board = AttentionBoard(SENTENCES, attend, folder / "toy" / "attention", every=2)
    batches = make_batches(PAIRS, tokenizers, batch_tokens=80, max_length=40).repeat()
    model.fit(batches, epochs=STEPS[-1], steps_per_epoch=1, callbacks=[board], verbose=0, shuffle=False)

    words = [f"w{number}" for number in range(300)]
    even = np.full((1, 1, 300, 300), 1 / 300)
    with tf.summary.create_file_writer(str(folder / "long")).as_default(step=0):
        attention_summary("a long one", words, words, {"cross": even})
    with tf.summary.create_file_writer(str(folder / "damaged")).as_default(step=0):
        for name in ("first", "second"):
            attention_summary(name, ["a"], ["b"], {"cross": np.ones((1, 1, 1, 1))})
    (file,) = (folder / "damaged").iterdir()
    content = bytearray(file.read_bytes())
    content[start_of_record(content, 2)] ^= 1  # after the file's version, and the first
    file.write_bytes(content)


def start_of_record(content: bytes, number: int) -> int:
    """Where a record's length stands in a TFRecord file: length, its checksum, data, their checksum."""
    start = 0
    for _ in range(number):
        start += 8 + 4 + int.from_bytes(content[start : start + 8], "little") + 4
    return start


def weights_of(log_dir: Path, tag: str, step: int) -> tuple[list[str], list[str], dict[str, np.ndarray]]:
    """Source tokens, target tokens and weights as TensorFlow's own reader and NumPy find them in the event files."""
    for file in (log_dir / "toy" / "attention").iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                if (value.tag, event.step) == (tag, step):
                    header, *layers = (zlib.decompress(part) for part in value.tensor.string_val)
                    header = json.loads(header)
                    lengths = {"source": len(header["source"]), "target": len(header["target"])}
                    sides = {"encoder": "source source", "decoder": "target target", "cross": "target source"}
                    weights = {}
                    for kind, names in sides.items():
                        shape = HEADS, *(lengths[side] for side in names.split())
                        found, layers = layers[:LAYERS], layers[LAYERS:]
                        weights[kind] = np.stack([np.frombuffer(layer, np.float16).reshape(shape) for layer in found])
                    return header["source"], header["target"], weights
    raise AssertionError((tag, step))


def plugin_of(folder):
    return AttentionPlugin(base_plugin.TBContext(logdir=str(folder)))


def get(plugin, path, **query):
    """What the plugin answers, without a server."""
    return Client(plugin.get_plugin_apps()[path]).get("/", query_string=query)


@pytest.fixture(scope="module")
def plugin(log_dir):
    return plugin_of(log_dir)


@pytest.fixture(scope="module")  # they take much memory, and two files may be tested at once
def served(log_dir, tmp_path_factory):
    """The address of a real TensorBoard of `log_dir`."""
    command = [str(Path(sys.executable).with_name("tensorboard")), "--logdir", str(log_dir), "--host", "127.0.0.1"]
    log = tmp_path_factory.mktemp("tensorboard") / "log.txt"
    with contextlib.ExitStack() as stack:
        port, output = stack.enter_context(free_port()), stack.enter_context(log.open("w"))
        words = [*command, "--port", str(port)]
        process = stack.enter_context(started(words, stdout=output, stderr=subprocess.STDOUT))
        address = f"http://127.0.0.1:{port}"

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(OSError):
                fetch(f"{address}/data/plugins_listing")
                return True
            return False

        eventually(is_ready)
        yield address
        process.terminate()
        process.wait(SECONDS)


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=SECONDS) as answer:
        return answer.read()


@pytest.fixture(scope="module")
def kept_page(context, problems):
    """A page that stays open: to load TensorBoard itself takes a browser three seconds."""
    with contextlib.ExitStack() as stack:
        yield make_page(context, problems, stack)


def choose_theme(page, frame, name):
    """Has TensorBoard use its light colours or its dark ones, for every page that is loaded later as well."""
    page.get_by_role("button", name="Menu for changing light or dark theme").click()
    page.get_by_role("menuitem", name=name).click()
    expect(frame.locator(".attention.dark")).to_have_count(1 if name == "Dark" else 0)


def cell_of(frame, row, column, rows, columns):
    """Where a cell's middle is in the window."""
    image = frame.locator(".cells image")
    box = None
    while box is None:
        try:
            image.scroll_into_view_if_needed()  # which waits until the page has drawn it
            box = image.bounding_box()
        except PlaywrightError as error:
            if "not attached" not in error.message:
                raise
            # It was drawn again meanwhile: look for the new one.
    return box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows


def saved(page, frame, name):
    with page.expect_download() as download:
        frame.locator(f".bar [name={name}]").click()
    return download.value.path().read_bytes()


def address(served, **state):
    state = {"run": RUN, **state}
    return f"{served}/#attention&" + "&".join(f"p.attention.{k}={urllib.parse.quote(v)}" for k, v in state.items())


@pytest.fixture
def tab(served, new_page, kept_page):
    """Opens the tab, in a page of the test's own or in the one that is kept; gives the page and the plugin's frame.

    In the one that is kept the plugin is loaded again, without what an earlier test did to it.
    """

    def open_tab(page=None, **state):
        page = page or kept_page
        if page.url.startswith(served):
            page.mouse.move(0, 0)
            plugin = page.locator("iframe:visible").element_handle().content_frame()
            loaded_from = plugin.url
            plugin.goto("about:blank")
            page.goto(address(served, **state))  # which changes what stands behind the # alone
            plugin.goto(loaded_from)
        else:
            page.goto(address(served, **state))
        frame = page.frame_locator("iframe:visible")
        frame.locator(".picture svg").wait_for()
        return page, frame

    return open_tab


PIXELS = """async image => {
    const picture = new Image();
    picture.src = image.getAttribute('href');
    await picture.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [picture.width, picture.height];
    const context = canvas.getContext('2d');
    context.drawImage(picture, 0, 0);
    return [picture.height, picture.width, [...context.getImageData(0, 0, picture.width, picture.height).data]];
}"""


def drawn_weights(image) -> np.ndarray:
    """The weights that an image's colours stand for."""
    rows, columns, values = image.evaluate(PIXELS)
    red = np.array(values).reshape(rows, columns, 4)[..., 0]
    paper, ink = 0xF4, 0x08  # of the light colours
    return (red - paper) / (ink - paper)
