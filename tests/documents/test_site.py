"""The documentation's site: nothing is missing in its reference, its links lead somewhere, and it builds.

What the examples of pages and docstrings do, and whether named files exist, is tested in the files beside this one.
"""

import fnmatch
import importlib
import importlib.util
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer
from _extensions import signatures, site_pages
from markdown_it import MarkdownIt
from typer.testing import CliRunner

import tf_transformer
from tests.translation.test_signatures import SIGNATURES
from tf_transformer import cli
from tf_transformer.commands import app
from tf_transformer.commands.app import READER_GONE
from tf_transformer.recipe.settings import KEYS
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.terminal.ctrl_c import STATUS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ALL = [*PAGES, *sorted(ROOT / file for file in site_pages.SHOWN_ON)]
REFERENCE = DOCS / "reference"
NEEDS_SPHINX = pytest.mark.skipif(not importlib.util.find_spec("sphinx"), reason="needs `make docs`'s packages")


def named(path):
    return str(path.relative_to(ROOT))


@pytest.fixture
def page_text(monkeypatch):
    """The text of a page; without the tables of signatures, which take seconds to make."""
    monkeypatch.setitem(site_pages.GENERATORS, "signatures", lambda: "")
    return site_pages.page_text


def table_rows(text):
    """The first cell of each row of the tables in a text."""
    return [row.split("|")[1].strip() for row in text.splitlines() if row.startswith("|") and "---" not in row]


# -- the reference ----


def public_objects():
    """Every public class, function and constant, by its full name."""
    packages = [each.name for each in pkgutil.iter_modules(tf_transformer.__path__) if each.ispkg]
    modules = ["tf_transformer", *(f"tf_transformer.{name}" for name in packages if name != "commands")]
    for name in modules:
        module = importlib.import_module(name)
        for each in getattr(module, "__all__", ()):  # `files` has none: nothing in it is public
            if not inspect.ismodule(getattr(module, each)):
                yield f"{name}.{each}", getattr(module, each)


def test_every_public_name_is_in_the_reference_once():
    text = "".join(page.read_text(encoding="utf-8") for page in (REFERENCE / "python").glob("*.md"))
    documented = re.findall(r"^\.\. auto\w+:: ([\w.]+)", text, flags=re.M)
    assert len(documented) == len(set(documented))
    public = dict(public_objects())
    assert len(public) > 100
    assert set(documented) <= set(public)
    # A name of a package that is in `tf_transformer` too is documented there.
    shortest = {min((n for n in public if public[n] is thing), key=len) for thing in public.values() if callable(thing)}
    constants = {name for name, thing in public.items() if not callable(thing)}
    assert set(documented) == shortest | constants


def test_every_recipe_key_is_in_the_reference(page_text):
    rows = table_rows(page_text(REFERENCE / "recipe_keys.md"))
    assert [row.strip("`") for row in rows if row.strip("`") in KEYS] == KEYS


def test_what_a_recipe_key_may_be_is_told(page_text):
    text = page_text(REFERENCE / "recipe_keys.md")
    for row in (
        "| `seed` | whole number, at least 0, less than 4294967296 | `1` | seed of all random numbers |",
        "| `model.position` | `sinusoidal`, `sinusoidal_halves`, `learned` | `sinusoidal` | how positions are ",
        "| `model.window` | whole number, at least 1 or `null` | `null` |",
        "| `training.steps` | whole number, at least 1 | required |",
        "| `training.jit_compile` | `true` or `false` | `false` |",
    ):
        assert row in text


def test_every_command_and_option_is_in_the_reference(page_text, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = page_text(REFERENCE / "commands.md")
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## )", text, flags=re.M | re.S))
    whole = typer.main.get_command(app)
    assert list(sections) == ["tf-transformer", *whole.commands]
    for name, section in sections.items():
        words = [] if name == "tf-transformer" else [name]
        told = CliRunner().invoke(app, [*words, "--help"]).output
        options = re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", told)
        assert "--help" in options
        for option in options:
            assert f"`{option}" in section, option
    for name, command in whole.commands.items():
        arguments = [each for each in command.params if isinstance(each, typer.core.TyperArgument)]
        assert len(re.findall(r"^\| `[A-Z][A-Z.\[\] ]*` \|", sections[name], flags=re.M)) == len(arguments)
        assert command.help in sections[name]


def test_every_exit_status_is_in_the_reference(page_text):
    section = page_text(REFERENCE / "commands.md").split("## Exit statuses")[1]
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tf_transformer").rglob("*.py"))
    given = set(re.findall(r"(?:sys\.exit|os\._exit)\(([^()]*)\)", source))
    values = {
        "0": 0,
        "USER_MISTAKE": cli.USER_MISTAKE,
        "os.EX_TEMPFAIL": os.EX_TEMPFAIL,
        "STATUS": STATUS,
        "READER_GONE": READER_GONE,
    }
    of_python = 1  # of a traceback
    assert given == {*values, "status"}  # the last is `main`'s, which `command` passes on
    assert table_rows(section)[1:] == [str(status) for status in sorted([*values.values(), of_python])]


def test_every_signature_is_told_with_its_inputs_and_outputs():
    others = {name: sides for name, sides in SIGNATURES.items() if name != "serving_default"}
    assert set(signatures.PURPOSE) == {*others, "parse", "warm_up"}
    for signature, sides in others.items():
        for side in sides:
            for name, (_, axes) in side.items():
                assert len(signatures.meaning(signature, name)[0].split()) == len(axes.split()), (signature, name)


def test_every_file_of_a_run_is_told(tiny_run_directory):
    text, scores = (REFERENCE / "run_files.md").read_text(encoding="utf-8").split("## scores.json")
    patterns = [pattern for row in table_rows(text) for pattern in re.findall(r"`([^`]+)`", row)]
    assert len(patterns) > 15
    run = RunDirectory("run")
    places = [path.relative_to("run") for path in vars(run).values() if isinstance(path, Path) and path != run.path]
    assert all(any(pattern.startswith(str(place)) for pattern in patterns) for place in places)
    for file in tiny_run_directory.path.rglob("*"):
        name = str(file.relative_to(tiny_run_directory.path))
        assert file.is_dir() or any(fnmatch.fnmatch(name, pattern) for pattern in patterns), name
    keys = {key for row in table_rows(scores) for key in re.findall(r"`(\w+)`", row)}
    assert set(json.loads(tiny_run_directory.scores.read_bytes())) <= keys


# -- pages and links ----


def inline_tokens(text):
    for token in MarkdownIt().enable("table").parse(text):
        yield from token.children or []


def anchors_of(text):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    tokens = MarkdownIt().parse(text)
    titles = [tokens[place + 1] for place, token in enumerate(tokens) if token.type == "heading_open"]
    anchors = []
    for title in titles:
        words = "".join(each.content for each in title.children)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        anchors.append(slug if slug not in anchors else f"{slug}-{sum(a.startswith(slug) for a in anchors)}")
    return anchors


@pytest.mark.parametrize("page", ALL, ids=named)
def test_links_lead_to_headings_that_are_there(page, page_text):
    for token in inline_tokens(page.read_text(encoding="utf-8")):
        if token.type != "link_open" or token.attrs["href"].startswith("http"):
            continue
        path, _, anchor = token.attrs["href"].partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            text = page_text(target) if target.is_relative_to(DOCS) else target.read_text(encoding="utf-8")
            assert anchor in anchors_of(text), token.attrs["href"]


@pytest.mark.parametrize("page", ALL, ids=named)
def test_pictures_have_alternative_texts(page):
    for token in inline_tokens(page.read_text(encoding="utf-8")):
        assert token.type != "image" or len(token.content.split()) >= 3, token.attrs["src"]


def test_every_page_is_in_the_contents():
    found = {DOCS / "index.md"}
    for page in PAGES:
        for names in re.findall(r"<!-- site: contents\n(.*?)-->", page.read_text(encoding="utf-8"), flags=re.S):
            listed = [re.sub(r".*<(.*)>", r"\1", name) for name in names.split("\n") if name and name[0] != ":"]
            found |= {(page.parent / f"{name}.md").resolve() for name in listed}
    assert found == set(PAGES)


def test_links_out_of_the_docs_lead_to_pages_or_become_text():
    page = DOCS / "guide.md"

    def on_the_site(text, folder=DOCS):
        return site_pages.with_links(text, folder, page)

    assert on_the_site("[scores](../train/README.md#x)") == "[scores](project/scores.md#x)"
    assert on_the_site("[docs](docs/model.md)", ROOT) == "[docs](model.md)"
    assert on_the_site("![A picture of it](docs/layers.png)", ROOT) == "![A picture of it](layers.png)"
    assert on_the_site("[it](tutorials/transformer.ipynb)") == "[it](path:tutorials/transformer.ipynb)"
    assert on_the_site("[model.md](model.md#tokens)") == "[](model.md#tokens)"  # which gets the title
    assert on_the_site("[the file](../tf_transformer/cli.py)") == "the file (`tf_transformer/cli.py`)"
    assert on_the_site("[`cli.py`](../tf_transformer/cli.py)") == "`cli.py`"
    for kept in ("[a](https://example.org/b)", "[a](#b)", "```\n[a](../train/README.md)\n```", "`f[0](x)`"):
        assert on_the_site(kept) == kept


# -- the built site ----


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", str(DOCS), str(folder)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert process.returncode == 0, process.stderr
    return folder


@pytest.mark.slow
@NEEDS_SPHINX
def test_the_site_is_built_without_a_warning_and_needs_no_network(built):
    for page in PAGES:
        assert (built / page.relative_to(DOCS).with_suffix(".html")).is_file()
    for file in (*built.rglob("*.html"), *built.rglob("*.css")):
        text = file.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"(?:https?:)?//[^\"]*", text), file
        assert not re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)]*", text), file
        assert not re.findall(r"<img(?![^>]*\balt=\"[^\"]+\")[^>]*>", text), file


@pytest.fixture(scope="module")
def served(built):
    """The address of a server that knows nothing but files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=built)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.slow
@NEEDS_SPHINX
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_it_in_the_dark_at_any_width_and_finds_things(served, new_page, width):
    page = new_page(viewport={"width": width, "height": 844}, color_scheme="dark")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    for source in PAGES:
        page.goto(served + source.relative_to(DOCS).with_suffix(".html").as_posix())
        assert page.locator("html").get_attribute("data-theme") == "dark"
        assert page.evaluate("document.documentElement.scrollWidth") == width, source
    page.goto(f"{served}search.html?q=beam_search")
    page.get_by_role("link", name="tf_transformer.decoding.beam_search").click()
    assert page.url.endswith("decoding.html#tf_transformer.decoding.beam_search")
    assert [url for url in asked if not url.startswith((served, "data:"))] == []
