"""Exports: what a process without this package gets out of them, and where they are written."""

import errno
import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tests.cli.command import contents
from tests.parsing.random_parser import SENTENCES, make_parser
from tests.tiny_run import MAX_LENGTH, PAIRS, tiny_export, tiny_run
from tests.translation.conftest import with_nothing_but
from tf_transformer.decoding import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.export import export_saved_model, saved_model, used_ops, version_folder
from tf_transformer.models.transformer import Transformer
from tf_transformer.parsing.parser import Parser
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model
from tf_transformer.tokenizers import TokenizerPair, train_tokenizers
from tf_transformer.translation import Translator

BATCHES = {
    "the issue's": [b"A man rides a bike.", b"", b"Hi"],
    "none": [],
    "one": [b"Our dog loves a house."],
    "seven": [source.encode() for source, _ in PAIRS[:7]],
    "nasty": [
        b"A man sees " + b"a house and " * 1000,  # 3,000 words and more
        b"\xff\xfe\x80 is no UTF-8 \xc3",
        b"a\x00b\x00",
        b"\x00",
        "\ud55c\u2028e\u0301\u202e \U0001f415".encode(),
        b"\r\n\t",
    ],
}

SENTENCES_TO_PARSE = [*(sentence for sentence, _ in SENTENCES), "a (b) c", ""]

TRAINED, HALF = "trained: bpe, joint", "trained, float16"
UNIGRAM, WORDPIECE = "unigram, separate", "wordpiece, separate, compiled"
RANDOM = {UNIGRAM: ("unigram", 286), WORDPIECE: ("wordpiece", 60)}
NAMES = [*RANDOM, TRAINED, HALF]

# All that the tokenizers may add to TensorFlow's own operations.
SENTENCEPIECE = {"SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceDetokenizeOp", "SentencepieceIdToStringOp"}
WORDPIECE_OPS = {"NormalizeUTF8", "FastWordpieceTokenizeWithOffsets"}


def random_translator(kind: str, vocab_size: int, folder: Path, compiled: bool) -> Translator:
    """A model with random weights says anything its vocabulary can; its export can do nothing but translate.

    Its tokenizers are loaded from files that are gone before the export is loaded.
    """
    train_tokenizers(PAIRS, kind, vocab_size, joint=False).save(folder)
    tokenizers = TokenizerPair.load(folder)
    shutil.rmtree(folder)
    sizes = {"input_vocab_size": tokenizers.source.vocab_size, "target_vocab_size": tokenizers.target.vocab_size}
    model = Transformer(1, 16, 2, 32, max_length=50, share_embeddings="none", **sizes)
    model.build(((None, None), (None, None)))
    random = np.random.default_rng(7)
    model.set_weights([random.normal(size=weights.shape) for weights in model.get_weights()])
    translator = Translator(model, tokenizers, DecodingOptions(extra_length=10), compiled=compiled)
    return with_nothing_but(translator, "translate", *(["warm_up"] if compiled else []))


class Exports(NamedTuple):
    """By name of the export: its translator, its folder, what the other process got out of it, and its foreign ops.

    And what it found about the compiled one, the parser, and what it got out of that by name of the signature.
    """

    translators: dict
    paths: dict
    answers: dict
    foreign: dict
    compiled: dict
    parser: Parser
    trees: dict


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    base = tmp_path_factory.getbasetemp()
    # The run of one is gone before it is loaded, the other lies elsewhere than it was written.
    shutil.copytree(tiny_run(base).path, folder / "run")
    run = RunDirectory.open(folder / "run")
    whole, half = (
        Translator(load_model(run.path), run.load_tokenizers(), DecodingOptions(extra_length=10), each)
        for each in (False, True)
    )
    translators = {TRAINED: whole, HALF: whole}
    paths = {
        TRAINED: shutil.copytree(tiny_export(base), folder / TRAINED / "1"),
        HALF: export_saved_model(with_nothing_but(half, "translate", "score"), folder / HALF),
    }
    shutil.rmtree(folder / "run")
    for name, (kind, vocab_size) in RANDOM.items():
        translators[name] = random_translator(kind, vocab_size, folder / "tokenizers", compiled=name == WORDPIECE)
    warm = translators[WORDPIECE]._compiled.warm
    warm.assign(tf.ones_like(warm))
    for name in RANDOM:
        paths[name] = export_saved_model(translators[name], folder / name)
    assert warm.numpy().all()  # as it was; where it is loaded nothing is
    warm.assign(tf.zeros_like(warm))
    parser = make_parser(seed=1, told="tree_state", tags=True, beam_size=3, extra_length=12)
    question = {
        "paths": [str(paths[name]) for name in NAMES],
        "batches": {name: [text.hex() for text in texts] for name, texts in BATCHES.items()},
        "compiled": NAMES.index(WORDPIECE),
        "parser": str(export_saved_model(with_nothing_but(parser, "parse"), folder / "parser")),
        "sentences": SENTENCES_TO_PARSE,
    }
    process = subprocess.run(
        [sys.executable, "-I", Path(__file__).with_name("elsewhere.py")],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    answers, foreign = (dict(zip(NAMES, found[key], strict=True)) for key in ("answers", "foreign ops"))
    return Exports(translators, paths, answers, foreign, found["compiled"], parser, found["trees"])


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", NAMES)
def test_another_process_gets_what_the_translator_gives(exports, name, batch):
    answer = exports.answers[name][batch]["together"]
    output = exports.translators[name].translate(tf.constant(BATCHES[batch], tf.string, shape=[len(BATCHES[batch])]))
    assert [bytes.fromhex(text) for text in answer["translation"]] == output["translation"].numpy().tolist()
    tolerance = 0.05 if name == HALF else 1e-5
    np.testing.assert_allclose(answer["score"], output["score"], rtol=tolerance, atol=tolerance)
    assert answer["truncated"] == output["truncated"].numpy().tolist()
    assert len(answer["translation"]) == len(BATCHES[batch])


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", NAMES)
def test_in_it_a_batch_gives_what_each_text_alone_gives(exports, name, batch):
    answer = exports.answers[name][batch]
    alone = {key: [one[key][0] for one in answer["one by one"]] for key in answer["together"]}
    assert alone["translation"] == answer["together"]["translation"]
    assert alone["truncated"] == answer["together"]["truncated"]
    np.testing.assert_allclose(alone["score"], answer["together"]["score"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_goes_in_utf8_comes_out(exports, name):
    answer = exports.answers[name]["nasty"]["together"]
    for text in answer["translation"]:
        bytes.fromhex(text).decode("utf-8")  # which raises unless it is
    assert answer["truncated"][0]
    assert answer["translation"][-1] == ""  # of blanks alone


@pytest.mark.parametrize("name", [TRAINED, HALF])
def test_the_trained_one_translates(exports, name):
    translations = exports.answers[name]["seven"]["together"]["translation"]
    assert [bytes.fromhex(text).decode() for text in translations] == [target for _, target in PAIRS[:7]]


def test_the_random_ones_speak(exports):
    """Or else the comparisons above would compare empty strings."""
    for name in RANDOM:
        texts = exports.answers[name]["seven"]["together"]["translation"]
        assert len(set(texts)) > 1
        assert sum(map(bool, texts)) > len(texts) / 2  # some it closes at once


@pytest.mark.parametrize("name", NAMES)
def test_its_ops_are_tensorflow_s_and_the_tokenizer_s(exports, name):
    listed = (exports.paths[name] / "assets.extra" / "ops.txt").read_text(encoding="utf-8").splitlines()
    assert listed == used_ops(exports.paths[name])
    assert "MatMul" in listed and not [op for op in listed if op.startswith("Xla")]
    assert set(exports.foreign[name]) <= (WORDPIECE_OPS if name == WORDPIECE else SENTENCEPIECE)
    assert exports.foreign[name]


def test_what_xla_compiles_there_finds_the_same_and_nothing_is_compiled_unasked(exports):
    """A search that is compiled for 8 rows of up to 32 tokens has memory for half as many tokens again."""
    compiled, before = exports.compiled, exports.answers[WORDPIECE]["seven"]["together"]
    none, growing = compiled["before"]
    assert none == 0 and growing < 48
    assert compiled["asked"] == [True, False]
    assert compiled["after"][:2] == [1, 48]
    assert compiled["after"][2] < 48  # of less than half as many rows
    assert compiled["answers"]["translation"] == before["translation"]
    np.testing.assert_allclose(compiled["answers"]["score"], before["score"], rtol=1e-4, atol=1e-4)


def test_a_parser_parses_there_as_here(exports):
    trees = [tree.decode() for tree in exports.parser.parse(SENTENCES_TO_PARSE)["tree"].numpy()]
    assert exports.trees == {"parse": trees, "serving_default": trees}
    assert " -LRB-b-RRB-)" in trees[-2] and trees[-1] == ""


def test_float16_weights_are_half_the_size_and_all_there_is(exports):
    weights = exports.translators[TRAINED].model.weights
    checkpoint = tf.train.load_checkpoint(str(exports.paths[HALF] / "variables" / "variables"))
    saved = [key for key in checkpoint.get_variable_to_shape_map() if "OBJECT_GRAPH" not in key]
    assert {checkpoint.get_variable_to_dtype_map()[key] for key in saved} == {tf.float16}
    shapes = [checkpoint.get_variable_to_shape_map()[key] for key in saved]
    assert sorted(shapes) == sorted(weight.shape.as_list() for weight in weights)
    whole, half = (
        (exports.paths[name] / "variables" / "variables.data-00000-of-00001").stat().st_size for name in (TRAINED, HALF)
    )
    parameters = sum(int(np.prod(shape)) for shape in shapes)
    assert whole - half == pytest.approx(2 * parameters, rel=0.05)
    # Nor do they lie in the graph as constants, where only the positions may.
    graph = SavedModel.FromString((exports.paths[HALF] / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    floats = [node for node in nodes if node.op == "Const" and tf.as_dtype(node.attr["dtype"].type).is_floating]
    assert max(tf.make_ndarray(node.attr["value"].tensor).size for node in floats) <= MAX_LENGTH * 32


@pytest.mark.parametrize("name", NAMES)
def test_beside_the_graph_lie_its_options_and_its_warm_up(exports, name):
    extra = exports.paths[name] / "assets.extra"
    assert sorted(os.listdir(extra)) == [
        *("decoding_options.json", "model_card.json", "model_card.md", "ops.txt"),
        "tf_serving_warmup_requests",
    ]
    options = json.loads((extra / "decoding_options.json").read_text(encoding="utf-8"))
    assert DecodingOptions(**options) == exports.translators[name].options
    assert (extra / "tf_serving_warmup_requests").stat().st_size


class Exportable(tf.Module):
    """The least that can be exported."""

    def __init__(self) -> None:
        super().__init__()
        self.options = DecodingOptions()
        self.functions = {"translate": self.translate}

    def as_new(self):
        return nullcontext()


class Echo(Exportable):
    def __init__(self):
        super().__init__()
        self.model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])  # of which the card tells
        self.tokenizers = SimpleNamespace(source=SimpleNamespace(tags=[]))  # without language tags, which it tells too

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def translate(self, text):
        return {"translation": text}


class FullDisk(Exportable):
    """Fails in the middle of an export, as a full disk does: Python's way, or TensorFlow's."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def translate(self, text):
        raise self.error


@pytest.mark.parametrize(
    ("there", "asked", "given"),
    [
        ([], "demo", "demo/1"),
        (["demo/1"], "demo", "demo/2"),
        (["demo/9", "demo/10", "demo/2"], "demo", "demo/11"),  # numbers, not strings
        (["demo/1-old", "demo/assets", "demo/.partial-7-12", "demo/²"], "demo", "demo/1"),
        (["demo/1"], "demo/5", "demo/5"),
        ([], "deep/er/demo/3", "deep/er/demo/3"),
    ],
)
def test_version_folder(tmp_path, there, asked, given):
    for name in there:
        (tmp_path / name).mkdir(parents=True)
    before = contents(tmp_path)
    assert version_folder(tmp_path / asked) == tmp_path / given
    assert contents(tmp_path) == before


def test_exports_lie_side_by_side_and_nothing_else_does(tmp_path):
    first = export_saved_model(Echo(), tmp_path / "echo")
    before = contents(first)
    second = export_saved_model(Echo(), str(tmp_path / "echo"))
    assert (first, second) == (tmp_path / "echo" / "1", tmp_path / "echo" / "2")
    assert sorted(os.listdir(tmp_path / "echo")) == ["1", "2"]
    assert contents(first) == before
    texts = tf.constant(["a", "b"])
    assert tf.saved_model.load(second).translate(texts)["translation"].numpy().tolist() == [b"a", b"b"]


@pytest.mark.parametrize("asked", ["echo", "echo/1"])
def test_a_version_that_another_export_takes_meanwhile_stays(tmp_path, monkeypatch, asked):
    """Then the next one is taken, unless this very one was asked for."""

    def meanwhile(*arguments):
        (tmp_path / "echo" / "1").mkdir()
        (tmp_path / "echo" / "1" / "saved_model.pb").write_bytes(b"precious")

    monkeypatch.setattr(saved_model, "write_warmup", meanwhile)
    if asked == "echo":
        assert export_saved_model(Echo(), tmp_path / asked) == tmp_path / "echo" / "2"
        assert (tmp_path / "echo" / "2" / "saved_model.pb").is_file()
        shutil.rmtree(tmp_path / "echo" / "2")
    else:
        with pytest.raises(UserError, match="1: this version already exists and was not changed"):
            export_saved_model(Echo(), tmp_path / asked)
    assert contents(tmp_path) == {"echo": None, "echo/1": None, "echo/1/saved_model.pb": b"precious"}


def test_a_version_that_is_there_stays_as_it_is(tmp_path):
    folder = export_saved_model(Echo(), tmp_path / "echo" / "3")
    before = contents(tmp_path)
    with pytest.raises(UserError, match=f"^{folder}: this version already exists"):
        export_saved_model(Echo(), folder)
    # A SavedModel straight in the named folder is not mixed with versions.
    shutil.copytree(folder, tmp_path / "bare")
    with pytest.raises(UserError, match=r"bare: is itself a SavedModel"):
        export_saved_model(Echo(), tmp_path / "bare")
    shutil.rmtree(tmp_path / "bare")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("asked", ["file", "file/1", "file/name", "file/name/1"])
def test_a_file_in_the_way_stays_as_it_is(tmp_path, asked):
    (tmp_path / "file").write_bytes(b"precious")
    with pytest.raises(UserError, match=str(tmp_path / asked)) as raised:
        export_saved_model(Echo(), tmp_path / asked)
    assert "\n" not in str(raised.value)
    assert contents(tmp_path) == {"file": b"precious"}


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root can write to")
def test_an_unwritable_folder():
    with pytest.raises(UserError, match=r"^/proc/self/1: the SavedModel can't be written: "):
        export_saved_model(Echo(), "/proc/self")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        (tf.errors.ResourceExhaustedError(None, None, "/disk/variables"), "no space left on device"),
        (tf.errors.PermissionDeniedError(None, None, "/disk/variables; Permission denied"), ".*Permission denied"),
    ],
)
def test_a_failure_leaves_nothing_behind(tmp_path, error, told):
    (tmp_path / "echo").mkdir()
    with pytest.raises(UserError, match=rf"echo/1: the SavedModel can't be written: {told}"):
        export_saved_model(FullDisk(error), tmp_path / "echo")
    assert contents(tmp_path) == {"echo": None}
