"""A translator whose search XLA compiles: the same translations, and nothing compiled that nobody asked for."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.tiny_run import PAIRS, tiny_run
from tests.translation.conftest import with_nothing_but
from tf_transformer.decoding import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.export import export_saved_model
from tf_transformer.runs.loading import load_model
from tf_transformer.translation import Translator
from tf_transformer.translation.compiled import CompiledSearch

TEXTS = [source for source, _ in PAIRS[:5]] + ["Our dog", "green! houses, love; a man's apple", "", "A man"]
# More tokens than 16.
LONG = "A man sees a house, a woman finds the green apple. Our dog loves a house."


def make(run, **options):
    return Translator(load_model(run.path), run.load_tokenizers(), DecodingOptions(extra_length=10), **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def compiled(run):
    """Warm for up to four sentences, of up to 16 tokens."""
    translator = make(run, compiled=True)
    seconds = translator.warm_up(rows=(3,), lengths=(10,))
    assert seconds.keys() == {(3, 10)} and min(seconds.values()) > 0
    return translator


@pytest.fixture(scope="module")
def expected(translator):
    """Of each text alone, by the search that is never compiled."""
    return {text: outputs(translator.translate([text])) for text in [*TEXTS, LONG]}


def outputs(found):
    columns = (found[key].numpy() for key in ("translation", "score"))
    return [(text.decode(), score) for text, score in zip(*columns, strict=True)]


def check(found, expected, texts):
    for got, text in zip(outputs(found), texts, strict=True):
        assert got[0] == expected[text][0][0]
        assert got[1] == pytest.approx(expected[text][0][1], abs=1e-4)


def times_compiled(translator):
    """How many programs XLA has made for the search."""
    return int(translator._compiled.warm.numpy().sum())


@pytest.mark.thorough
def test_any_batch_has_the_translations_of_the_other_search(compiled, expected):
    """Alone and together, in any order, in batches that are padded, and in those that are too large or too long."""
    compiled.warm_up(rows=(1,), lengths=(16,))
    random = np.random.default_rng(0)
    for number in (1, 1, 2, 3, 4, 4, 5, 9):
        texts = [TEXTS[i] for i in random.permutation(len(TEXTS))[:number]]
        check(compiled.translate(texts), expected, texts)
    check(compiled.translate([LONG]), expected, [LONG])
    check(compiled.translate([TEXTS[0], LONG, TEXTS[1]]), expected, [TEXTS[0], LONG, TEXTS[1]])
    assert compiled.translate([])["translation"].shape == (0,)


@pytest.mark.thorough  # as test_saved_model.py has it of an export
def test_the_compiled_program_is_what_answers(compiled):
    """Its memory has a fixed size, by which its answers are known."""
    search = compiled._compiled
    ids, _ = search(tf.constant([[5, 6, 3], [7, 3, 0]]))
    assert ids.shape[2] == 24  # half as much again as 16
    ids, _ = search(tf.constant([[5, 6, 3]] * 4 + [[7, 3, 0]]))
    assert ids.shape[2] != 24


@pytest.mark.thorough
def test_a_translation_that_is_longer_than_the_memory_is_searched_for_again(run):
    """The shortest memory holds 24 tokens; here all translations must have 30."""
    options = DecodingOptions(min_length=30, extra_length=60)
    model, tokenizers = load_model(run.path), run.load_tokenizers()
    plain, compiled = (Translator(model, tokenizers, options, compiled=each) for each in (False, True))
    compiled.warm_up(rows=(2,), lengths=(16,))
    texts = TEXTS[:2]
    for got, other in zip(outputs(compiled.translate(texts)), outputs(plain.translate(texts)), strict=True):
        assert len(tokenizers.target.tokenize([got[0]]).to_list()[0]) > 24
        assert got[0] == other[0] and got[1] == pytest.approx(other[1], abs=1e-4)


@pytest.fixture
def search():
    """Of stand-ins for both searches: one has room for 4 tokens and is done with even ones, the other makes 6."""

    def fixed(source_ids):
        first = source_ids[:, :1]
        return tf.tile(first[:, None], [1, 1, 4]), tf.zeros_like(first, tf.float32), first[:, 0] % 2 == 0

    def growing(source_ids):
        first = source_ids[:, :1] + 100
        return tf.tile(first[:, None], [1, 1, 6]), tf.ones_like(first, tf.float32)

    return CompiledSearch(fixed, growing, max_length=16)


def test_the_others_of_its_batch_are_not_searched_for_again(search):
    search.warm_up(tf.constant([4]), tf.constant([8]))
    ids, scores = search(tf.constant([[4, 3], [5, 3], [6, 3]]))
    assert ids[:, 0].numpy().tolist() == [[4, 4, 4, 4, 0, 0], [105] * 6, [6, 6, 6, 6, 0, 0]]
    assert scores[:, 0].numpy().tolist() == [0, 1, 0]


def test_it_is_told_how_long_each_size_took(run, search):
    """All but those that are too large to be compiled."""
    translator = make(run, compiled=True)
    translator._compiled = search
    seconds = translator.warm_up(rows=(3, 33), lengths=(8, 10))
    assert seconds.keys() == {(3, 8), (3, 10)} and min(seconds.values()) > 0
    assert times_compiled(translator) == 1  # for up to four sentences, of up to 16 tokens


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"beam_size": 1}, {"alpha": 0.0, "max_length": 5}])
def test_other_options_of_its_own(run, options):
    model, tokenizers = load_model(run.path), run.load_tokenizers()
    options = DecodingOptions(extra_length=10, **options)
    plain, compiled = (Translator(model, tokenizers, options, compiled=each) for each in (False, True))
    compiled.warm_up(rows=(4,), lengths=(16,))
    for got, other in zip(outputs(compiled.translate(TEXTS[:4])), outputs(plain.translate(TEXTS[:4])), strict=True):
        assert got[0] == other[0] and got[1] == pytest.approx(other[1], abs=1e-4)


@pytest.mark.thorough
def test_what_is_larger_is_not_compiled(compiled):
    before = times_compiled(compiled)
    assert compiled.warm_up(rows=(33,), lengths=(16,)) == {}
    assert compiled.warm_up(rows=(1,), lengths=(129,)) == {}
    assert times_compiled(compiled) == before


@pytest.mark.parametrize("options", [{}, {"compiled": True, "options": {"temperature": 1.0}}], ids=["not", "drawn"])
def test_warming_up_what_does_not_compile_is_a_mistake(run, options):
    decoding = DecodingOptions(extra_length=10, **options.pop("options", {}))
    translator = Translator(load_model(run.path), run.load_tokenizers(), decoding, **options)
    assert "warm_up" not in translator.functions
    with pytest.raises(UserError, match="make it with compiled=True"):
        translator.warm_up()


PROGRAM = """
import json, sys
import numpy as np, tensorflow as tf, tensorflow_text
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # as in the tests' own processes
loaded = tf.saved_model.load(sys.argv[1])
assert not any(name.split(".")[0] in ("tf_transformer", "keras_hub") for name in sys.modules)
translate, warm_up = (loaded.signatures[name] for name in ("translate", "warm_up"))
texts = json.loads(sys.argv[2])
def answer():
    found = [translate(text=tf.constant(batch)) for batch in ([texts[0]], texts)]
    texts_and_scores = [(text.decode(), float(score)) for one in found
        for text, score in zip(one["translation"].numpy(), one["score"].numpy())]
    return texts_and_scores
warm = lambda: int(loaded.translator._compiled.warm.numpy().sum())
result = {"before": warm(), "cold": answer(), "not_compiled": warm()}
compiled = warm_up(rows=tf.constant([7, 33]), lengths=tf.constant([9, 9]))["compiled"]
result |= {"compiled": compiled.numpy().tolist(), "warm": answer(), "after": warm()}
print(json.dumps(result))
"""


@pytest.mark.parametrize(
    "half",
    [pytest.param(False, marks=pytest.mark.thorough), pytest.param(True, marks=pytest.mark.slow)],
    ids=["float32", "float16"],
)  # the former with random weights, as test_saved_model.py has it
def test_a_saved_model_in_a_new_process(run, compiled, expected, tmp_path, half):
    """Without this package; it is cold there, whatever was warm where it was written, and stays warm here."""
    translator = make(run, compiled=True, half=True) if half else compiled
    before = times_compiled(translator)
    folder = export_saved_model(with_nothing_but(translator, "translate", "warm_up"), tmp_path / "tiny")
    assert times_compiled(translator) == before
    texts = TEXTS[:7]
    words = [sys.executable, "-c", PROGRAM, str(folder), json.dumps(texts)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=240)
    result = json.loads(done.stdout)
    assert (result["before"], result["not_compiled"], result["after"]) == (0, 0, 1)
    assert result["compiled"] == [True, False]
    for got, other, text in zip(result["warm"], result["cold"], [texts[0], *texts], strict=True):
        assert got[0] == other[0] == expected[text][0][0]
        assert got[1] == pytest.approx(other[1], abs=1e-4)
