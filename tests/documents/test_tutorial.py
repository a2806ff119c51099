"""The tutorial, docs/tutorials/transformer: its notebook is its text, it runs, and what the text tells comes out."""

import json
import os
import re
import subprocess
import sys
from typing import NamedTuple

import pytest
import yaml
from markdown_it import MarkdownIt

from tests.documents.reading import ROOT, replaced
from tests.eager import eagerly

TEXT = ROOT / "docs" / "tutorials" / "transformer.md"
NOTEBOOK = TEXT.with_suffix(".ipynb")


class Cell(NamedTuple):
    """A cell of a notebook."""

    kind: str
    source: str
    metadata: dict


def cells_of_text() -> list[Cell]:
    """The cells of the text: each block marked `{code-cell}`, and what stands between two of them."""
    text = re.sub(r"\A---\n.*?\n---\n", "", TEXT.read_text(encoding="utf-8"), flags=re.S)
    lines, cells, place = text.splitlines(), [], 0
    for token in MarkdownIt().parse(text):
        if token.info != "{code-cell} ipython3":
            continue
        first, last = token.map
        cells.append(Cell("markdown", "\n".join(lines[place:first]).strip(), {}))
        head, source = re.match(r"(?:---\n(.*?)---\n)?(.*)", token.content, flags=re.S).groups()
        cells.append(Cell("code", source.strip(), yaml.safe_load(head or "{}")))
        place = last
    cells.append(Cell("markdown", "\n".join(lines[place:]).strip(), {}))
    return [cell for cell in cells if cell.source]


def code(*replacements: tuple[str, str]) -> list[str]:
    """The sources of the code cells, with other text in place of some."""
    whole = "\0".join(cell.source for cell in cells_of_text() if cell.kind == "code")
    return replaced(whole, list(replacements)).split("\0")


def test_the_notebook_is_its_text():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [Cell(each["cell_type"], "".join(each["source"]), each["metadata"]) for each in notebook["cells"]]
    assert cells == cells_of_text(), "run `make notebook`"
    assert len(cells) > 60
    assert not any(each.get("outputs") or each.get("execution_count") for each in notebook["cells"])


def test_it_installs_the_package_only_where_it_is_missing():
    first = code()[0]
    missing, install = first.split("\n    %pip")
    assert missing.splitlines()[-1] == 'if importlib.util.find_spec("tf_transformer") is None:'
    assert install == " install --quiet tf_transformer"


def test_pictures_have_alternative_texts():
    drawing = [cell for cell in cells_of_text() if cell.kind == "code" and re.search("subplots|Image\\(", cell.source)]
    assert len(drawing) == 5
    for cell in drawing:
        assert len(cell.metadata["mystnb"]["image"]["alt"].split()) > 5


SMALLER = [
    ("    %pip install --quiet tf_transformer", "    raise ModuleNotFoundError"),
    ("STEPS = 700", "STEPS = 5"),
    ("VOCABULARY = 1000", "VOCABULARY = 400"),
    ("= 2, 128, 4, 512", "= 1, 16, 2, 32"),
    ('list(tt.DemoSource("train"))', 'list(tt.DemoSource("test"))[:64]'),
    ('list(tt.DemoSource("validation"))', 'list(tt.DemoSource("validation"))[:4]'),
    ('list(tt.DemoSource("test"))\n', 'list(tt.DemoSource("test"))[:4]\n'),
    ("tt.Translator(model, tokenizers)", "tt.Translator(model, tokenizers, tt.DecodingOptions(extra_length=2))"),
    ("most=20", "most=3"),
    ("from IPython.display import Image", "Image = str"),
]


@pytest.mark.thorough  # `make docs` runs the notebook, too
def test_every_cell_runs_and_what_is_done_by_hand_agrees(tmp_path, monkeypatch, capsys):
    """With a tiny model, in this process."""
    import keras
    import matplotlib

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    matplotlib.use("Agg")
    namespace = {}
    *cells, export, load = code(*SMALLER)  # the slow test exports
    assert "tt.export_saved_model(" in export and "tf.saved_model.load(" in load
    with eagerly():
        for number, cell in enumerate(cells, 1):
            exec(compile(cell, f"cell {number}", "exec"), namespace)
    namespace["plt"].close("all")
    keras.backend.clear_session()
    shown = capsys.readouterr().out
    agreeing = re.findall(r"(?:by hand|changes nothing|shuffled out|gives the same): (\w+)", shown)
    assert agreeing == ["True"] * 6
    by_hand, own = re.search(r"by hand +([\d.]+)\nthe package's ([\d.]+)", shown).groups()
    assert by_hand == own
    assert "last three places: [0. 0. " in re.sub(r" +", " ", shown)


@pytest.mark.slow
def test_what_the_text_says_came_out_comes_out(tmp_path):
    """As it stands, on a clean kernel."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    shown = "".join(output.text for output in outputs if output.output_type == "stream")
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 5

    assert "largest change at each position: [0. 0. 0. " in re.sub(r" +", " ", shown)
    standing = [float(number) for number in re.search(r"and after: \[(.*?)\]", shown)[1].split()]
    assert standing == [1.0] * 5
    untrained = float(re.search(r"the package's ([\d.]+)", shown)[1])
    assert untrained == pytest.approx(6.9078, abs=1.5)
    # The validation's figures are better than the training's.
    *_, last = re.findall(r"- perplexity: ([\d.]+) - .*val_perplexity: ([\d.]+)", shown)
    assert float(last[1]) < float(last[0]) < 2
    german = "Jeden Tag ruft der Junge meine Lehrerin an."
    assert f"translation: {german}" in shown and shown.rstrip().endswith(german)
    assert float(re.search(r"BLEU ([\d.]+)", shown)[1]) > 90
    for token, source in ("▁r", "▁call"), ("▁an", "▁call"), ("▁Lehrerin", "▁teacher"):
        assert re.search(rf"^{token} +{source}$", shown, flags=re.M)

    program = "import tensorflow as tf, tensorflow_text\n" + (
        "translator = tf.saved_model.load('savedmodels/tutorial/1')\n"
        "print(translator.translate(['Every day the boy calls my teacher.'])['translation'].numpy()[0].decode())"
    )
    # Without the package.
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=300
    )
    assert process.stdout.strip() == german, process.stderr
