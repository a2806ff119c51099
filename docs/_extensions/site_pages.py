"""Adds generated parts and links to the pages of the site.

A page can include a part with a comment, which GitHub does not show:

    <!-- site: recipe_keys -->                    the output of a generator
    <!-- site: file ../train/README.md -->        a file of the repository
    <!-- site: contents                           the pages below this one in the site's contents, as in a `toctree`:
    model                                         the name of each, or `title <name>`; an optional first line
    -->                                           `:caption: NAME` names the group

Links to files outside of `docs/` lead to the page that shows the file; if there is none, they become plain text. A link
whose text is the file name of a page gets the page's title instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from _extensions import commands, recipe_keys, signatures

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent

GENERATORS: dict[str, Callable[[], str]] = {
    "recipe_keys": recipe_keys.as_markdown,
    "commands": commands.as_markdown,
    "signatures": signatures.as_markdown,
}

# Files outside of docs/, and the pages that show them or say the same.
SHOWN_ON = {
    "README.md": "project/readme.md",
    "CHANGELOG.md": "project/changes.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "train/README.md": "project/scores.md",
    "train/experiments.md": "project/experiments.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "serving/README.md": "project/serving.md",
    "savedmodels/README.md": "reference/saved_model.md",
}

PART = re.compile(r"<!-- site: (\w+)\s(.*?)-->", re.S)
# A code block, which is left as it is; or the text and the target of a link, or of a picture.
LINK = re.compile(
    r"(?P<block>^```.*?^```)|\[(?P<text>[^\[\]]*)\]\((?P<path>[^()#\s:]+)(?P<anchor>#[^()\s]*)?\)", re.M | re.S
)


def page_text(page: Path) -> str:
    """The Markdown of a page, as it is used for the site."""
    return with_parts(with_links(page.read_text(encoding="utf-8"), page.parent, page), page)


def with_parts(text: str, page: Path) -> str:
    """Inserts the parts that the page's comments name."""

    def part(match: re.Match) -> str:
        what, arguments = match[1], match[2].strip()
        if what == "contents":
            return "\n".join(["```{toctree}", ":hidden:", *arguments.split("\n"), "```"])
        if what == "file":
            file = (page.parent / arguments).resolve()
            return with_links(file.read_text(encoding="utf-8"), file.parent, page)
        return GENERATORS[what]()

    return PART.sub(part, text)


def with_links(text: str, folder: Path, page: Path) -> str:
    """Changes the links of a text, which are relative to a folder of the repository, to pages of the site."""

    def link(match: re.Match) -> str:
        if match["block"]:
            return match[0]
        target = (folder / match["path"]).resolve()
        if not target.exists():  # code that looks like a link; or a broken link, which Sphinx reports
            return match[0]
        name = target.relative_to(ROOT).as_posix()
        if name in SHOWN_ON:
            target = DOCS / SHOWN_ON[name]
        elif not target.is_relative_to(DOCS):
            return match["text"] if "`" in match["text"] else f"{match['text']} (`{name}`)"
        path = Path(os.path.relpath(target, page.parent)).as_posix()
        # In place of a file's name MyST puts the title of what the link leads to.
        text = "" if match["text"].endswith(".md") else match["text"]
        # MyST would look for a page of a notebook's name; `path:` is a file to be fetched.
        kind = "path:" if target.suffix == ".ipynb" else ""
        return f"[{text}]({kind}{path}{match['anchor'] or ''})"

    return LINK.sub(link, text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""

    def read(app: Sphinx, name: str, source: list[str]) -> None:
        source[0] = page_text(Path(app.env.doc2path(name)))

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
