"""The Python programs of every page run, page by page, in their order."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from keras import ops

from tests.documents.reading import PAGES, ROOT, blocks_of, replaced
from tests.eager import eagerly
from tests.tiny_parser import tiny_parser_export
from tf_transformer import TokenEmbedding, UserError

# What differs here: each must be in the text.
SMALLER = {
    "docs/from_python.md": [
        ('tt.DemoSource("train")', 'list(tt.DemoSource("test"))[:64]'),
        ('tt.DemoSource("validation")', 'list(tt.DemoSource("validation"))[:4]'),
        ("vocab_size=1000", "vocab_size=400"),
        ("tt.Transformer(2, 128, 4, 512, ", "tt.Transformer(1, 16, 2, 32, max_length=64, "),
        ("steps_per_epoch=100", "steps_per_epoch=2"),
        ("tt.Translator(model, tokenizers)", "tt.Translator(model, tokenizers, tt.DecodingOptions(extra_length=2))"),
    ],
    "docs/opus_mt.md": [("runs/opus-mt-en-mul", "runs/NAME")],
    "docs/ensembles.md": [('["runs/seed1", "runs/seed2"]', '["runs/NAME", "runs/NAME"]')],
    "docs/tensorboard.md": [
        ("tt.DecodingOptions(beam_size=1)", "tt.DecodingOptions(beam_size=1, extra_length=2)"),
        ("steps_per_epoch=100, epochs=10", "steps_per_epoch=1, epochs=3"),
    ],
    "docs/several_machines.md": [("steps_per_epoch=100", "steps_per_epoch=1")],
    "docs/another_model.md": [
        ('tt.DemoSource("train")', 'list(tt.DemoSource("test"))[:64]'),
        ('tt.DemoSource("validation")', 'list(tt.DemoSource("validation"))[:4]'),
        ("vocab_size=1000", "vocab_size=400"),
        ("ConvolutionalModel(2, 128, 4, 512, ", "ConvolutionalModel(1, 16, 2, 32, "),
        ("steps_per_epoch=250, epochs=2", "steps_per_epoch=2, epochs=1"),
        ("tt.Translator(model, tokenizers)", "tt.Translator(model, tokenizers, tt.DecodingOptions(extra_length=2))"),
    ],
}
# Pages that go on from the example of training from Python, which they name, before its `fit`.
GO_ON = "docs/tensorboard.md", "docs/several_machines.md"
NOT_RUN = {
    "from tf_transformer.marian import": "needs a model from the network; tests/marian/ has random ones",
    "from argostranslate import": "needs Argos Translate; tests/export/argos/test_argostranslate.py installs packages",
    "import apache_beam": "needs Apache Beam; tests/apache_beam/test_documents.py does it",
    "keras.distribution.set_distribution(": "needs the JAX backend; tests/backends/test_data_parallel.py does it",
}

# To run eagerly what a few steps or sentences need takes less time than to trace it; an export is graphs in any case.
EXPORT = "tt.export_saved_model("


def run_blocks(blocks, namespace, replacements=()):
    """Runs them one after another, with their own line numbers in what goes wrong."""
    whole = replaced("\0".join(block.text for block in blocks), replacements)
    for block, text in zip(blocks, whole.split("\0"), strict=True):
        if any(text.startswith(start) for start in NOT_RUN):
            continue
        before, export, after = text.partition(EXPORT)
        with eagerly():
            exec(compile("\n" * (block.line - 1) + before, ROOT / block.page, "exec"), namespace)
        lines = block.line - 1 + before.count("\n")
        exec(compile("\n" * lines + export + after, ROOT / block.page, "exec"), namespace)


def example_before_its_fit():
    """The names of the example of training from Python, with the model compiled and never called."""
    (block,) = blocks_of("docs/from_python.md", "python")
    text = replaced(block.text, SMALLER["docs/from_python.md"]).split("model.fit(")[0]
    namespace = {}
    run_blocks([block._replace(text=text)], namespace)
    return namespace


# What the other pages show, tests of their own do.
FIRST_PAGES = {"README.md", "savedmodels/README.md", "docs/first_model.md"}
LONG = {"docs/parsing.md"}


def marks(page):
    if page in LONG:
        return pytest.mark.slow
    return () if page in FIRST_PAGES else pytest.mark.thorough


@pytest.fixture
def demo_loaded_once(models, tiny_loaded, monkeypatch):
    """What the pages load of savedmodels/demo is of the tiny model, which is loaded already."""
    import tensorflow as tf

    load = tf.saved_model.load

    def load_once(path):
        demo = Path(path).resolve() == (models / "savedmodels" / "demo" / "1").resolve()
        return tiny_loaded if demo and Path(path).is_dir() else load(path)

    monkeypatch.setattr(tf.saved_model, "load", load_once)


@pytest.mark.usefixtures("demo_loaded_once")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=marks(page)) for page in PAGES if blocks_of(page, "python")],
)
def test_programs_run_in_their_order(page, folder, tiny_run_directory, tmp_path_factory):
    blocks = blocks_of(page, "python")
    if page == "docs/parsing.md":
        shutil.copytree(tiny_parser_export(tmp_path_factory.getbasetemp()), folder / "savedmodels/parsing_demo/1")
    namespace = example_before_its_fit() if page in GO_ON else {}
    (folder / "runs").mkdir(exist_ok=True)
    (folder / "runs" / "NAME").symlink_to(tiny_run_directory.path)
    run_blocks(blocks, namespace, SMALLER.get(page, []))
    if page == "docs/from_python.md":
        assert (folder / "savedmodels" / "from_python" / "1" / "saved_model.pb").is_file()
    if page == "docs/tensorboard.md":
        assert list((folder / "logs" / "attention").glob("*tfevents*"))


def another_model():
    """The class that the first block of the page makes."""
    block, *_ = blocks_of("docs/another_model.md", "python")
    namespace = {}
    run_blocks([block], namespace)
    return namespace["ConvolutionalModel"]


def test_another_model_shares_its_embeddings():
    """All of them is a recipe's default. A model that takes no notice of it is refused."""
    model_class = another_model()
    for share_embeddings, matrices in ("all", 1), ("target", 2), ("none", 3):
        model = model_class(1, 8, 2, 16, 21, 21, share_embeddings=share_embeddings)
        model.build(((None, None), (None, None)))
        assert sum(21 in weight.shape for weight in model.weights) == matrices
    model = model_class(1, 8, 2, 16, 21, 21, share_embeddings="all")
    model.decoder.embedding = TokenEmbedding(21, 8)
    with pytest.raises(UserError, match='share_embeddings is "all", but .*; give the decoder the encoder\'s'):
        model.make_projection()


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_another_model_steps_as_a_whole_in_any_precision(dtype):
    """A recipe may ask for mixed precision."""
    model = another_model()(1, 16, 2, 32, 20, 20, dtype=dtype)
    source, target = np.random.default_rng(0).integers(4, 20, (2, 3, 6)).astype("int32")
    expected, stepper = model((source, target)), model.stepper()
    cache = stepper.start_cache(source)
    for position in range(target.shape[1]):
        logits, cache = stepper.step(target[:, position], position, cache, np.ones((1, 1, position + 1), bool))
        near = {"rtol": 0, "atol": 1e-5 if dtype == "float32" else 0.05}
        np.testing.assert_allclose(*(ops.cast(each, "float32") for each in (logits, expected[:, position])), **near)


# -- the example of training from Python, as it stands ----


@pytest.fixture
def from_python():
    """The example of training from Python."""
    page = (ROOT / "docs" / "from_python.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.S)[1]
    assert len(code.strip().splitlines()) <= 30
    return code


def run_from_python(code, folder):
    process = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=900)
    assert process.returncode == 0, process.stderr
    assert (folder / "savedmodels" / "from_python" / "1" / "saved_model.pb").is_file()
    return process.stdout


@pytest.mark.slow
def test_fit_from_python_learns_as_it_stands(from_python, tmp_path):
    # An untrained model's perplexity is about the vocabulary's size, 1,000.
    asking = "\nassert model.evaluate(validation, verbose=0, return_dict=True)['perplexity'] < 200"
    shown = run_from_python(from_python + asking, tmp_path)
    assert shown.splitlines()[-1].strip()  # a translation, whatever one epoch has taught
