"""The tab Attention as a single HTML file that needs no server and no network."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.tensorboard.record import decode_header, encode

if TYPE_CHECKING:
    from tf_transformer.inspection.sentence import Inspection

STATIC = Path(__file__).parent / "static"

# The modules of the page, each after those it imports.
MODULES = (
    *("weights", "tokens", "drawing", "legend", "source", "memory", "choices"),
    *("grid", "heatmap", "lines", "saving", "app"),
)

_START = """
const root = document.body.appendChild(element('div', {class: 'attention'}));
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => root.classList.toggle('dark', prefersDark.matches);
follow();
const records = JSON.parse(document.getElementById('records').textContent);
const {draw: drawAgain} = show(root, new Page(records), new Address(window, ''));
prefersDark.addEventListener('change', () => { follow(); drawAgain(); });
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<script type="application/json" id="records">{records}</script>
<script type="module">
{script}</script>
</body>
</html>
"""

# Whatever a token holds, the page loads nothing.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def write_page(
    path: str | Path, inspections: Sequence[Inspection], title: str, references: Sequence[str | None] | None = None
) -> Path:
    """Writes the page.

    Args:
        path: where to write it; an existing file is overwritten.
        inspections: as `tf_transformer.inspection.inspect` gives them.
        title: of the page, and the name of the model in it.
        references: a reference translation of each sentence, or None.

    Returns:
        The path.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=280, target_vocab_size=280, max_length=64)
        >>> translator = tt.Translator(model, tokenizers)
        >>> seen = tt.inspection.inspect(translator.functions["translate_with_attention"], ["a dog"])
        >>> write_page(f"{tempfile.mkdtemp()}/attention.html", seen, "a model").name
        'attention.html'
    """
    path = Path(path)
    path.write_text(make_page(inspections, title, references), encoding="utf-8")
    return path


def make_page(inspections: Sequence[Inspection], title: str, references: Sequence[str | None] | None = None) -> str:
    """The page's HTML; see `write_page`."""
    references = references or [None] * len(inspections)
    tags = {
        f"{number} {each.source}": {"0": make_record(each, reference)}
        for number, (each, reference) in enumerate(zip(inspections, references, strict=True), start=1)
        if each.target_tokens
    }
    records = json.dumps({title: tags}, ensure_ascii=False)
    return _PAGE.format(
        policy=_POLICY,
        title=html.escape(f"Attention: {title}"),
        style=(STATIC / "attention.css").read_text(encoding="utf-8"),
        records=records.replace("<", "\\u003c"),  # nothing in it ends the script, or begins a comment
        script=_script(),
    )


def show(inspections: Sequence[Inspection], references: Sequence[str | None] | None = None, height: int = 640) -> Any:
    """Shows attention in a notebook.

    Args:
        inspections: as `tf_transformer.inspection.inspect` gives them.
        references: a reference translation of each sentence, or None.
        height: of the frame, in pixels.

    Returns:
        What a notebook displays as the page.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=280, target_vocab_size=280, max_length=64)
        >>> translator = tt.Translator(model, tokenizers)
        >>> seen = tt.inspection.inspect(translator.functions["translate_with_attention"], ["a dog"])
        >>> show(seen, height=480)._repr_html_().startswith("<iframe")
        True
    """
    return Frame(make_page(inspections, "model", references), height)


class Frame:
    """A page in a frame, which keeps its styles from the notebook's."""

    def __init__(self, page: str, height: int) -> None:
        self.page = page
        self.height = height

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.page)}" style="width: 100%; height: {self.height}px; border: 0" '
            'title="Attention"></iframe>'
        )


def make_record(inspection: Inspection, reference: str | None = None) -> dict[str, Any]:
    """A record as the page's script takes it: "header", and "layers" of each kind in base64."""
    parts = encode(
        inspection.source_tokens, inspection.target_tokens, inspection.attention, reference, inspection.alignment
    )
    header = decode_header(parts[0])
    layers = iter(base64.b64encode(zlib.decompress(part)).decode("ascii") for part in parts[1:])
    return {
        "header": asdict(header),
        "layers": {kind: [next(layers) for _ in range(number)] for kind, (number, _) in header.sizes.items()},
    }


def _script() -> str:
    """The modules as one, since a page opened from a disk may import no others."""
    texts = [(STATIC / f"{name}.js").read_text(encoding="utf-8") for name in MODULES]
    texts = [re.sub(r"^import .*\n", "", text, flags=re.M) for text in texts]
    texts = [re.sub(r"^export ", "", text, flags=re.M) for text in texts]
    return "\n".join([*texts, _START])
