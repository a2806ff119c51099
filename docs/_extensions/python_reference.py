"""Adapts autodoc to this package's classes and docstrings."""

from __future__ import annotations

import inspect
import re
from typing import Any

from docutils.nodes import Element, TextElement
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.inspect import stringify_signature
from sphinx.util.nodes import make_refnode

KINDS = ("class", "function", "data")
# What reStructuredText would read otherwise: code that is more than a name, and a backslash in the text.
OTHERWISE = re.compile(r"`[A-Za-z_][\w.]*`|(?P<code>`[^`]+`)|(?P<backslash>\\)")


def own_signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, None] | None:
    """A class's signature is that of its `__init__`: Keras's classes have a `__new__` that takes anything."""
    if what != "class" or thing.__init__ is object.__init__:
        return None
    parameters = list(inspect.signature(thing.__init__).parameters.values())[1:]
    return stringify_signature(inspect.Signature(parameters), show_annotation=False), None


def mend_docstring(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Makes reStructuredText of what is written otherwise in this package's docstrings.

    `code` in them is code. A name may become a link, which the default role does, but in anything else that role would
    take a backslash or a tilde for its own.
    """

    def mended(found: re.Match) -> str:
        if found["code"]:
            return f"`{found[0]}`"
        return "\\\\" if found["backslash"] else found[0]

    if what == "data":  # a constant has no docstring: this one is that of `int` or `dict`
        lines.clear()
    in_example = False
    for number, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or in_example and line.strip() != ""
        if not in_example:
            lines[number] = OTHERWISE.sub(mended, line)


def no_fields_of_tuples(app: Sphinx, what: str, name: str, thing: Any, skipped: bool, options: Any) -> bool | None:
    """Of a named tuple's fields Python itself writes docstrings, which say no more than its signature."""
    return True if type(thing).__name__ == "_tuplegetter" else None


def link_to_other_module(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contents: TextElement
) -> Element | None:
    """Has `name` in a docstring lead to what is documented by that name, whichever package it is in.

    A plain word may be an argument as well: only names that look like no word of English are taken.
    """
    target = node.get("reftarget", "")
    if node.get("reftype") != "obj" or target == target.lower() and "_" not in target:
        return None
    objects = env.domains.python_domain.objects
    found = [name for name, entry in objects.items() if entry.objtype in KINDS and name.rpartition(".")[2] == target]
    if len(found) != 1:
        return None
    entry = objects[found[0]]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contents, found[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", own_signature)
    app.connect("autodoc-process-docstring", mend_docstring, priority=400)  # before napoleon
    app.connect("autodoc-skip-member", no_fields_of_tuples)
    app.connect("missing-reference", link_to_other_module)
    return {"parallel_read_safe": True}
