"""A package for Argos Translate: what is in it, and what comes out when it is read as Argos Translate reads it."""

import errno
import json
import os
import zipfile

import ctranslate2
import numpy as np
import pytest
import sentencepiece
from babel.core import get_global

from tests.cli.command import assert_mistake, contents
from tests.export.argos.conftest import AS_ARGOS, TEXTS, engine_of
from tests.marian.folders import TAGS, spm, vocabulary_of
from tests.tiny_run import PAIRS
from tf_transformer import Transformer, train_tokenizers
from tf_transformer.errors import UserError
from tf_transformer.experiment import export_run_argos
from tf_transformer.export.argos import POSITIONS, export_argos
from tf_transformer.export.ctranslate2 import export_ctranslate2
from tf_transformer.languages import language_name, short_code
from tf_transformer.tokenizers import MarianTokenizer, TokenizerPair
from tf_transformer.tokenizers.base import END_ID
from tf_transformer.translation.ctranslate2_engine import load_ctranslate2

BYTES = slice(4, 260)  # behind the special pieces
SOURCES, TARGETS = (list(texts) for texts in zip(*PAIRS, strict=True))


def unpacked(package, folder):
    """The package's one folder."""
    with zipfile.ZipFile(package) as file:
        file.extractall(folder)
    (root,) = folder.iterdir()
    return root


class AsArgosTranslate:
    """Translates with the files of a package, in the way of Argos Translate 1.11."""

    def __init__(self, root):
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(root / "sentencepiece.model"))
        self.model = ctranslate2.Translator(str(root / "model"), compute_type="default")

    def __call__(self, texts):
        """Translations and their scores."""
        results = self.model.translate_batch(
            [self.processor.encode(text, out_type=str) for text in texts],
            replace_unknowns=True,
            max_batch_size=32,
            batch_type="tokens",
            beam_size=4,
            num_hypotheses=1,
            length_penalty=0.2,
            return_scores=True,
        )
        return [self.join(result.hypotheses[0]) for result in results], [result.scores[0] for result in results]

    def join(self, pieces):
        joined = self.processor.decode_pieces(pieces).replace("▁", " ").replace("_", " ")
        # Argos Translate takes one blank away. Ours has none at the ends, where only an untrained model has any.
        return joined.strip()


def assert_same(found, output):
    """Asserts that translations and scores are those of this package's engine."""
    texts, scores = found
    # Argos Translate has no underscores.
    assert texts == [text.decode().replace("_", " ") for text in output["translation"].numpy()]
    np.testing.assert_allclose(scores, output["score"], atol=1e-3)


def test_the_package_of_a_run(tiny_run_directory, tmp_path):
    package = export_run_argos(tiny_run_directory, tmp_path / "new" / "tiny.argosmodel", quantization="int8")
    assert os.listdir(tmp_path / "new") == ["tiny.argosmodel"]
    root = unpacked(package, tmp_path / "unpacked")
    assert root.name == "translate-en_de-1_0"
    assert json.loads((root / "metadata.json").read_text(encoding="ascii")) == {
        "package_version": "1.0",
        "argos_version": "1.11",
        "from_code": "en",
        "from_name": "English",
        "to_code": "de",
        "to_name": "German",
    }
    assert sorted(contents(root)) == sorted(
        ["README.md", "metadata.json", "sentencepiece.model", "model"]
        + [f"model/{name}" for name in ("config.json", "model.bin", "shared_vocabulary.json")]
    )
    page = (root / "README.md").read_text(encoding="utf-8")
    assert "It translates from en to de. To use it, install it in Argos Translate." in page
    # What int8 rounds away depends on the CPU: the translations are those of a folder of CTranslate2 in int8.
    engine = engine_of(tiny_run_directory, tmp_path / "ct2", "int8")
    assert_same(AsArgosTranslate(root)(SOURCES), engine(SOURCES))


def test_translations_are_those_of_the_engine(tiny_run_directory, tmp_path):
    root = unpacked(export_run_argos(tiny_run_directory, tmp_path / "tiny.argosmodel"), tmp_path / "unpacked")
    translate = AsArgosTranslate(root)
    texts = [*TEXTS, *SOURCES[::5]]
    assert_same(translate(texts), engine_of(tiny_run_directory, tmp_path / "ct2")(texts))
    # It knows them by heart.
    assert translate(SOURCES)[0] == TARGETS


def test_an_imported_model_with_two_sentencepiece_models(separate, tmp_path):
    root = unpacked(export_run_argos(separate, tmp_path / "opus.argosmodel"), tmp_path / "unpacked")
    assert root.name == "translate-en_de-1_0"  # the folder says eng and deu
    translate = AsArgosTranslate(root)
    assert_same(translate(TEXTS), engine_of(separate, tmp_path / "ct2")(TEXTS))
    # The model says few pieces; the source's SentencePiece model joins all that the target's makes.
    target = separate.load_tokenizers().target
    for _, text in PAIRS:
        assert translate.join(target.pieces(target.tokenize([text]).to_list()[0])) == text


@pytest.mark.parametrize("tag", [TAGS[0], pytest.param(TAGS[1], marks=pytest.mark.thorough)])
def test_the_tag_of_a_multilingual_model_is_in_the_package(multilingual, tmp_path, tag):
    package = export_run_argos(multilingual, tmp_path / "opus.argosmodel", tag=tag, languages=("en", "nl"))
    root = unpacked(package, tmp_path / "unpacked")
    assert root.name == "translate-en_nl-1_0"
    engine = engine_of(multilingual, tmp_path / "ct2")
    found = AsArgosTranslate(root)(TEXTS)
    assert_same(found, engine([f"{tag} {text}" for text in TEXTS]))
    assert not np.allclose(found[1], engine(TEXTS)["score"], atol=0.01)


@pytest.fixture(scope="module")
def random_models():
    """Models of this package that say anything, with a vocabulary of their own for each language."""
    tokenizers = train_tokenizers([*PAIRS, ("a dog", "ein Hund 狗")], kind="bpe", vocab_size=310, joint=False)
    sizes = {"input_vocab_size": tokenizers.source.vocab_size, "target_vocab_size": tokenizers.target.vocab_size}

    def make(**arguments):
        model = Transformer(1, 16, 2, 16, max_length=24, output_bias=True, **sizes, **arguments)
        model.build(((None, None), (None, None)))
        random = np.random.default_rng(5)
        model.set_weights([random.normal(size=weights.shape) * 0.7 for weights in model.get_weights()])
        bias = model.bias.numpy()
        bias[END_ID] += 5  # translations are short, as a trained model's are
        bias[BYTES] -= 3  # and seldom spelled in bytes
        model.bias.assign(bias)
        return model, tokenizers

    return make


@pytest.mark.parametrize("position", ["sinusoidal", "sinusoidal_halves", "learned"])
def test_two_vocabularies_of_ones_own_and_texts_of_any_length(random_models, tmp_path, position):
    model, tokenizers = random_models(position=position)
    package = export_argos(model, tokenizers, tmp_path / "own.argosmodel", ("en", "de"))
    translate = AsArgosTranslate(unpacked(package, tmp_path / "unpacked"))
    engine = load_ctranslate2(export_ctranslate2(model, tokenizers, tmp_path / "ct2"), AS_ARGOS)
    texts = ["A man", "Our dog sees", "狗", "a house. The child"]
    assert_same(translate(texts), engine(texts))
    # Longer than the model's positions, and than what Argos Translate has cut.
    long_texts = ["a " * 30, "a " * (POSITIONS + 200)]
    assert all(np.isfinite(translate(long_texts)[1]))


def test_what_argos_translate_cant_do(random_models, tiny_run_directory, multilingual, separate, tmp_path):
    model, _ = random_models()
    wordpiece = train_tokenizers(PAIRS, kind="wordpiece", vocab_size=90)
    with pytest.raises(UserError, match="splits text with SentencePiece, and this model's tokenizer is of kind wordp"):
        export_argos(model, wordpiece, tmp_path / "new.argosmodel", ("en", "de"))
    with pytest.raises(UserError, match="CTranslate2 does not support attention with a window"):
        windowed, tokenizers = random_models(window=2)
        export_argos(windowed, tokenizers, tmp_path / "new.argosmodel", ("en", "de"))
    with pytest.raises(UserError, match=r"a multilingual model.* as in --tag '>>deu<<'; its tags: >>deu<<, >>nld<<$"):
        export_run_argos(multilingual, tmp_path / "new.argosmodel")
    with pytest.raises(UserError, match="a multilingual model"):
        export_run_argos(multilingual, tmp_path / "new.argosmodel", tag=">>fra<<")
    with pytest.raises(UserError, match="--tag is >>deu<<, but the model has no tags"):
        export_run_argos(separate, tmp_path / "new.argosmodel", tag=">>deu<<")
    with pytest.raises(UserError, match="source language is '../x'"):
        export_run_argos(tiny_run_directory, tmp_path / "new.argosmodel", languages=("../x", None))
    with pytest.raises(UserError, match="target language is not known; .*--target-language"):
        export_run_argos(tiny_run_directory, tmp_path / "new.argosmodel", languages=("en", "und"))
    source, target = spm([source for source, _ in PAIRS]), tokenizers.target.to_bytes()
    two = TokenizerPair(*(MarianTokenizer(model, list(vocabulary_of(model))) for model in (source, target)), "marian")
    with pytest.raises(UserError, match="decodes 256 of the target's pieces differently, such as '<0x00>'"):
        export_argos(model, two, tmp_path / "new.argosmodel", ("en", "de"))
    assert not os.listdir(tmp_path)


def test_the_command(tiny_run_directory, tmp_path, command):
    package = tmp_path / "tiny.argosmodel"
    words = ["export", tiny_run_directory.path, package, "--format", "argos"]
    outcome = command(*words, "--source-language", "eng", "--target-language", "pt-BR")
    assert (outcome.status, outcome.lines) == (0, [str(package)])
    with zipfile.ZipFile(package) as file:
        metadata = json.loads(file.read("translate-en_pt-BR-1_0/metadata.json"))
    assert (metadata["from_code"], metadata["to_code"], metadata["to_name"]) == ("en", "pt-BR", "Portuguese (Brazil)")
    before = contents(tmp_path)
    assert_mistake(command(*words), "tiny.argosmodel: exists and was not changed")
    for mistake, *told in (
        (["export", tiny_run_directory.path, tmp_path / "new", "--format", "argos"], "give new.argosmodel"),
        ([*words, "--beam-size", 2], "--beam-size is for --format savedmodel; leave it out with --format argos"),
        ([*words, "--float16"], "or give --quantization"),
        ([*words[:-1], "marian", "--tag", ">>deu<<"], "--tag is for --format argos"),
        (["export", tiny_run_directory.path, *words[1:]], "--format argos writes one model"),
        (["export", tiny_run_directory.path, package / "x.argosmodel", "--format", "argos"], "Not a directory"),
    ):
        assert_mistake(command(*mistake), *told)
    assert contents(tmp_path) == before


def test_a_failure_leaves_nothing_behind(tiny_run_directory, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(zipfile.ZipFile, "write", full)
    with pytest.raises(UserError, match=r"tiny.argosmodel: the package can't be written: No space left"):
        export_run_argos(tiny_run_directory, tmp_path / "tiny.argosmodel")
    assert not os.listdir(tmp_path)


def test_the_shorter_codes_are_those_of_babel():
    aliases = get_global("language_aliases")
    for code in ("eng", "deu", "ger", "fra", "zho", "nob", "swh", "hsb", "mul", "und", "de", "pt-BR"):
        assert short_code(code) == aliases.get(code, code)


def test_tagalog_has_a_code_of_two_letters():
    """Babel's alias of it is Filipino's code, which has three."""
    assert short_code("tgl") == "tl"
    assert language_name("tl")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        *[("de", "German"), ("deu", "German"), ("ger", "German"), ("eng", "English"), ("cmn", "Chinese")],
        *[("iw", "Hebrew"), ("hsb", "Upper Sorbian"), ("xyz", "xyz"), ("und", "undetermined"), ("", "")],
        *[("deu-AT", "German (Austria)"), ("deu_AT", "German (Austria)"), ("pt-BR", "Portuguese (Brazil)")],
    ],
)
def test_a_language_s_name_has_a_country_only_where_its_code_has_one(code, name):
    assert language_name(code) == name
