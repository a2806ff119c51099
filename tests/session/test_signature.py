"""A signature called by TensorFlow's C API gives what `tf.saved_model.load`'s gives."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from tests.bounded import SECONDS
from tests.memory_in_use import NEEDS_MALLINFO, memory_in_use
from tests.tiny_run import PAIRS
from tf_transformer.errors import UserError
from tf_transformer.session.c_api import CApiError
from tf_transformer.session.graph import graph_for, read_meta_graph
from tf_transformer.session.signature import load_in_session
from tf_transformer.session.tensors import STRING, new_tensor
from tf_transformer.translation.loading import load_translate
from tf_transformer.translation.texts import translate_texts

TEXTS = [PAIRS[0][0], "", "A {man} in a <b>house</b>.", "Ein Ärger, 강아지 🐕 " * 3, "the " * 100, "A man"]
OPTIONS = {
    "beam_size": 3, "num_hypotheses": 2, "alpha": 0.6, "min_length": 1, "max_length": 12, "temperature": 0.0,
    "top_k": 0, "top_p": 1.0, "seed": 0, "replace_unknown": True, "no_repeat_ngram_size": 2,
    "protect": False,
}  # fmt: skip
CALLS = {
    "translate": {"text": TEXTS},
    "translate_with_attention": {"text": TEXTS[:2]},
    "translate_with_options": {"text": TEXTS, "prefix": ["", "", "", "Ein", "", "Der"], **OPTIONS},
    "score": {"source": [source for source, _ in PAIRS], "target": [target for _, target in PAIRS]},
    "tokenize": {"text": TEXTS},
    "detokenize": {"ids": [[5, 6, 0], [7, 0, 0]]},
}


@pytest.fixture(scope="module")
def loaded(tiny_loaded):
    return tiny_loaded


def same(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        array = tensor.numpy()
        assert found[name].shape == array.shape
        if array.dtype == object:
            assert found[name].tolist() == array.tolist()
        else:
            assert found[name].dtype == array.dtype
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CALLS)
def test_it_gives_what_tensorflow_gives(tiny_saved_model, loaded, name):
    signature = load_in_session(tiny_saved_model, name)
    expected = loaded.signatures[name](**{
        key: tf.constant(value, spec.dtype)
        for key, value in CALLS[name].items()
        for spec in [loaded.signatures[name].structured_input_signature[1][key]]
    })  # fmt: skip
    same(signature(**CALLS[name]), expected)


@pytest.mark.thorough
def test_a_graph_made_faster_gives_the_same_in_several_threads(tiny_saved_model, loaded):
    signature = load_in_session(tiny_saved_model, "translate", streams=2, optimise=True)
    expected = {text: loaded.signatures["translate"](text=tf.constant([text])) for text in TEXTS}
    with ThreadPoolExecutor(3) as threads:
        for text, found in zip(TEXTS * 5, threads.map(lambda text: signature(text=[text]), TEXTS * 5), strict=True):
            same(found, expected[text])


def test_what_is_no_text_is_none_of_so_many_zero_bytes():
    with pytest.raises(AttributeError, match="encode"):
        new_tensor([5], STRING)


def test_no_text_at_all(tiny_saved_model):
    assert load_in_session(tiny_saved_model, "translate")(text=[])["translation"].shape == (0,)


def test_only_what_a_signature_needs_is_kept(tiny_saved_model):
    meta = read_meta_graph(tiny_saved_model / "saved_model.pb")
    whole = {function.signature.name for function in meta.graph_def.library.function}
    graph = graph_for(meta, "tokenize", b"as told")
    kept = {function.signature.name for function in graph.library.function}
    assert kept < whole and len(kept) < len(whole) / 4
    nodes = {node.name for node in graph.node}
    assert all(tensor.lstrip("^").partition(":")[0] in nodes for node in graph.node for tensor in node.input)
    calls = [node for function in graph.library.function for node in function.node_def] + list(graph.node)
    assert {node.attr["config_proto"].s for node in calls if "config_proto" in node.attr} == {b"as told"}


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A SavedModel that is not this package's: with a file, a table, several types, and a part that XLA compiles."""
    folder = tmp_path_factory.mktemp("other")
    words = folder / "words.txt"
    words.write_text("a\ndog\nruns\n")
    module = tf.Module()
    module.weight = tf.Variable([1.0, 2.0])
    text = tf.lookup.TextFileIndex
    where = tf.lookup.TextFileInitializer(str(words), tf.string, text.WHOLE_LINE, tf.int64, text.LINE_NUMBER)
    module.table = tf.lookup.StaticHashTable(where, -1)

    @tf.function(jit_compile=True)
    def compiled(x):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * module.weight), (0, x))[1]

    specs = [tf.TensorSpec([None], tf.string, "word"), tf.TensorSpec([2], tf.float32, "x")]
    specs += [tf.TensorSpec([None, 2], tf.int64, "pairs"), tf.TensorSpec([], tf.bool, "flag")]

    @tf.function(input_signature=specs)
    def everything(word, x, pairs, flag):
        tf.debugging.assert_less(x, 100.0, "x is too large")
        return {
            "index": module.table.lookup(word),
            "x": compiled(x),
            "pairs": tf.where(flag, pairs, -pairs),
            "back": tf.strings.join([word, word]),
            "double": tf.cast(x, tf.float64),
        }

    tf.saved_model.save(module, str(folder / "1"), {"everything": everything})
    words.unlink()  # it has a copy
    return folder / "1"


def test_files_tables_types_and_what_xla_compiles(other):
    signature = load_in_session(other, "everything")
    long = "long " * 100
    found = signature(word=["dog", b"runs", long], x=[1, 3], pairs=[[1, 2], [3, 4]], flag=False)
    assert found["index"].tolist() == [1, 2, -1]
    assert found["x"].tolist() == [1.0, 24.0]
    assert found["pairs"].tolist() == [[-1, -2], [-3, -4]]
    assert found["back"].tolist() == [b"dogdog", b"runsruns", (long * 2).encode()]
    assert found["double"].dtype == np.float64
    with pytest.raises(CApiError, match="x is too large"):
        signature(word=["dog"], x=[100, 3], pairs=np.zeros((0, 2)), flag=True)
    assert signature(word=[], x=[1, 3], pairs=np.zeros((0, 2)), flag=True)["pairs"].shape == (0, 2)


@NEEDS_MALLINFO
def test_calls_leave_nothing_behind(other):
    """Strings, and numbers in numpy's arrays: 100 calls with 2 MB each."""
    signature = load_in_session(other, "everything")

    def call():
        signature(word=["x" * 100_000] * 10, x=[1, 3], pairs=np.zeros((60_000, 2)), flag=True)

    call()
    before = memory_in_use()
    for _ in range(100):
        call()
    assert memory_in_use() - before < 50e6


def test_what_is_not_there_or_damaged(tiny_saved_model, tmp_path):
    assert load_in_session(tiny_saved_model, "none") is None
    with pytest.raises(UserError, match="a SavedModel without the signature translate_with_options; export it again"):
        module = tf.Module()
        module.f = tf.function(lambda text: {"translation": text}, [tf.TensorSpec([None], tf.string, "text")])
        tf.saved_model.save(module, str(tmp_path / "1"), {"translate": module.f})
        load_translate(tmp_path / "1", {"beam_size": 2}, load=load_in_session)
    content = (tiny_saved_model / "saved_model.pb").read_bytes()
    (tmp_path / "2").mkdir()
    for kept in b"", content[: len(content) // 2], b"nonsense":
        (tmp_path / "2" / "saved_model.pb").write_bytes(kept)
        with pytest.raises(UserError, match=r"the SavedModel can't be loaded \(.+\); export it again$"):
            load_translate(tmp_path / "2", load=load_in_session)
    (tmp_path / "2" / "saved_model.pb").write_bytes(content)
    (tmp_path / "2" / "variables").mkdir()
    (tmp_path / "2" / "variables" / "variables.index").write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"the SavedModel can't be loaded \(.+\); export it again$"):
        load_translate(tmp_path / "2", load=load_in_session)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"beam_size": 1}, marks=pytest.mark.thorough),
        pytest.param({"num_hypotheses": 3}, marks=pytest.mark.thorough),
        {"temperature": 2.0, "seed": 5, "max_length": 9},
    ],
)
def test_translations_with_options_are_the_same(tiny_saved_model, loaded, changes):
    def load_by_tensorflow(path, name):
        return loaded.signatures[name]

    by_tensorflow, in_session = (
        list(translate_texts(load_translate(tiny_saved_model, changes, load=load), TEXTS, batch_size=2))
        for load in (load_by_tensorflow, load_in_session)
    )
    assert [one._replace(score=0, others=()) for one in in_session] == [
        one._replace(score=0, others=()) for one in by_tensorflow
    ]
    assert [[text for text, _ in one.others] for one in in_session] == [
        [text for text, _ in one.others] for one in by_tensorflow
    ]
    assert [one.score for one in in_session] == pytest.approx([one.score for one in by_tensorflow], abs=1e-4)


def test_options_that_are_the_exports_own_are_not_asked_for(tiny_saved_model):
    """`translate` has them already."""
    own = json.loads((tiny_saved_model / "assets.extra" / "decoding_options.json").read_text())
    names = []

    def noting(path, name):
        names.append(name)
        return dict  # it is not called

    for changes in ({"beam_size": own["beam_size"]}, {"beam_size": own["beam_size"] + 1}, {"num_hypotheses": 1}):
        load_translate(tiny_saved_model, changes, load=noting)
    assert names == ["translate", "translate_with_options", "translate_with_options"]


@pytest.mark.thorough
def test_tensorflow_can_be_imported_after_it(tiny_saved_model):
    """As `inspect --logdir` does."""
    program = """
import sys
from pathlib import Path
from tf_transformer.session.signature import load_in_session
found = load_in_session(Path(sys.argv[1]), "translate")(text=["A man sees a house."])["translation"]
assert not {"tensorflow", "keras"} & set(sys.modules)
import tensorflow as tf, tensorflow_text
again = tf.saved_model.load(sys.argv[1]).signatures["translate"](text=tf.constant(["A man sees a house."]))
assert again["translation"].numpy().tolist() == found.tolist() == [b"Ein Mann sieht ein Haus."]
"""
    process = subprocess.run([sys.executable, "-c", program, tiny_saved_model], capture_output=True, timeout=SECONDS)
    assert process.returncode == 0, process.stderr.decode()
