"""The files that pages link to or name exist."""

import re

import pytest

from tests.documents.reading import PAGES, ROOT


@pytest.mark.parametrize("page", PAGES)
def test_links_and_named_files_exist(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"`[^`\n]*`", "", text)):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target
    for target in re.findall(r"`((?:tf_transformer|train|tests|docs|serving|benchmarks)/[\w/.]+)`", text):
        assert (ROOT / target).exists(), target
