"""CTranslate2 with our weights: against searches by the definition over the Keras model's own logits."""

import errno
import os
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.export.ctranslate2 import export_ctranslate2, free_folder, transformer_spec
from tf_transformer.export.ctranslate2_engine import load_ctranslate2
from tf_transformer.model import Transformer
from tf_transformer.tokenizers import WordPieceTokenizer
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID
from tf_transformer.tokenizers.pair import TokenizerPair
from tf_transformer.translation import translate_texts

pytest.importorskip("ctranslate2", reason="needs CTranslate2: pip install -e '.[ctranslate2]'")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads that wait for each other take the time of tests that run beside these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


SPECIAL = ["[PAD]", "[UNK]", "[START]", "[END]"]
ENGLISH = [*SPECIAL, "a", "dog", "##s", "sees", "the", "cat", "."]
GERMAN = [*SPECIAL, "Hund", "##e", "sieht", "die", "Katze", "."]

MAX_LENGTH = 12
GREEDY = DecodingOptions(beam_size=1, extra_length=3)
BEAM = replace(GREEDY, beam_size=3)

TEXTS = ["a dog sees the cats.", "dogs", "", "the cat unheard", "cat cat cat cat cat cat cat cat", " \t"]

CONFIGURATIONS = {
    "post-norm, sinusoids, one vocabulary, all shared": {"share_embeddings": "all"},
    "pre-norm, sinusoids, one vocabulary, all shared": {"share_embeddings": "all", "norm_first": True},
    "post-norm, learned, two vocabularies, target shared": {"share_embeddings": "target", "position": "learned"},
    "pre-norm, learned, two vocabularies, none shared": {"position": "learned", "norm_first": True},
    "wide values": {"key_dim": 2, "value_dim": 6},
    "wide keys": {"key_dim": 5, "value_dim": 3},
}


def random_model(scale=0.7, **arguments):
    """A model that says anything its vocabulary can, and its tokenizers."""
    source = WordPieceTokenizer(ENGLISH)
    target = source if arguments.get("share_embeddings") == "all" else WordPieceTokenizer(GERMAN)
    tokenizers = TokenizerPair(source, target, "wordpiece")
    sizes = {"input_vocab_size": source.vocab_size, "target_vocab_size": target.vocab_size}
    model = Transformer(2, 8, 2, 16, max_length=MAX_LENGTH, **sizes, **arguments)
    model.build(((None, None), (None, None)))
    random = np.random.default_rng(5)
    model.set_weights([random.normal(size=weights.shape) * scale for weights in model.get_weights()])
    return model, tokenizers


def projection_of(piece, model):
    return model.projection.kernel.numpy()[:, GERMAN.index(piece)]


def set_projection(model, columns):
    kernel = model.projection.kernel.numpy()
    for piece, column in columns.items():
        kernel[:, GERMAN.index(piece)] = column
    model.projection.kernel.assign(kernel)


@pytest.fixture(scope="module")
def separate(tmp_path_factory):
    """A model with its tokenizers, two vocabularies, and its export. Its likeliest word and to close are near."""
    model, tokenizers = random_model()
    closing = projection_of("sieht", model) + 0.6 * np.random.default_rng(3).normal(size=8)
    set_projection(model, {"[END]": closing})
    return model, tokenizers, export_ctranslate2(model, tokenizers, tmp_path_factory.mktemp("separate") / "ct2")


def translate(path, texts, options):
    """What comes out, as lists."""
    return {key: value.numpy().tolist() for key, value in load_ctranslate2(path, vars(options))(texts).items()}


def next_log_probabilities(model, sources, targets, min_length=1):
    """By the Keras model, of all that may be said next: not padding, and no closing token before its time.

    The targets have one length.
    """
    sources = tf.ragged.constant(sources, dtype=tf.int32).to_tensor()
    logits = model((sources, np.array([[START_ID, *target] for target in targets])))[:, -1].numpy().astype("float64")
    logits[:, PAD_ID] = -np.inf
    if len(targets[0]) + 1 < min_length:
        logits[:, END_ID] = -np.inf
    logits -= logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def source_and_limit(tokenizers, text, options):
    tokens = tokenizers.source.tokenize([text]).to_list()[0][: MAX_LENGTH - 1]
    longest = min(MAX_LENGTH, options.max_length or MAX_LENGTH)
    return [*tokens, END_ID], min(len(tokens) + options.extra_length, longest) if tokens else 0


def search_slowly(model, tokenizers, texts, options):
    """Greedy search by the definition. Returns the translations and the paper's scores."""
    sources, limits = zip(*(source_and_limit(tokenizers, text, options) for text in texts), strict=True)
    targets, log_probabilities = [[] for _ in texts], np.zeros(len(texts))
    for length in range(max(limits)):
        rows = [row for row, limit in enumerate(limits) if length < limit and END_ID not in targets[row]]
        if not rows:
            break
        scores = next_log_probabilities(
            model, [sources[row] for row in rows], [targets[row] for row in rows], options.min_length
        )
        log_probabilities[rows] += scores.max(axis=-1)
        for row, token in zip(rows, scores.argmax(axis=-1), strict=True):
            targets[row].append(int(token))
    penalties = [((5 + len(target)) / 6) ** options.alpha for target in targets]
    translations = tokenizers.target.detokenize(tf.ragged.constant(targets, dtype=tf.int32))
    return translations.numpy().tolist(), log_probabilities / penalties


def every_translation(model, tokenizers, text, options):
    """All there can be, by their tokens, with their log-probabilities."""
    source, limit = source_and_limit(tokenizers, text, options)
    finished, live = {}, {(): 0.0}
    for length in range(1, limit + 1):
        scores = next_log_probabilities(model, [source] * len(live), list(live))
        longer = {
            (*target, token): log_probability + scores[row, token]
            for row, (target, log_probability) in enumerate(live.items())
            for token in range(scores.shape[1])
            if token != PAD_ID
        }
        live = {target: p for target, p in longer.items() if target[-1] != END_ID and length < limit}
        finished |= {target: p for target, p in longer.items() if target not in live}
    return finished


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_greedy_search_and_its_score_are_those_of_the_definition(tmp_path, name):
    model, tokenizers = random_model(**CONFIGURATIONS[name])
    output = translate(export_ctranslate2(model, tokenizers, tmp_path / "ct2"), TEXTS, GREEDY)
    translations, scores = search_slowly(model, tokenizers, TEXTS, GREEDY)
    assert output["translation"] == translations
    assert len(set(translations)) >= 4  # or else it compares nothing
    np.testing.assert_allclose(output["score"], scores, atol=1e-4)


def test_a_beam_of_everything_finds_the_best_of_everything(separate):
    model, tokenizers, path = separate
    texts = ["dog", "."]
    everything = [every_translation(model, tokenizers, text, replace(BEAM, extra_length=2)) for text in texts]
    found = set()
    for alpha in 0.0, 0.6, 3.0:
        options = DecodingOptions(beam_size=len(everything[0]), alpha=alpha, extra_length=2)
        output = translate(path, texts, options)
        found.add(tuple(output["translation"]))
        columns = output["translation"], output["score"]
        for log_probabilities, translation, score in zip(everything, *columns, strict=True):
            scores = {target: p / ((5 + len(target)) / 6) ** alpha for target, p in log_probabilities.items()}
            best = max(scores, key=lambda target: (target[-1] == END_ID, scores[target]))
            assert score == pytest.approx(scores[best], abs=1e-4)
            assert translation == tokenizers.target.detokenize(tf.constant([best])).numpy()[0]
    assert len(found) > 1  # alpha makes a difference


def test_it_translates_as_it_was_exported_to_unless_it_is_asked_otherwise(separate, tmp_path):
    model, tokenizers, plain = separate
    options = DecodingOptions(beam_size=3, alpha=1.4, extra_length=0)
    path = export_ctranslate2(model, tokenizers, tmp_path / "ct2", options=options)
    assert load_ctranslate2(path).options == options
    assert load_ctranslate2(path, {"alpha": 0.5}).options == replace(options, alpha=0.5)
    assert load_ctranslate2(plain).options == DecodingOptions()
    own, asked, default = (
        loaded(TEXTS)["translation"].numpy().tolist()
        for loaded in (load_ctranslate2(path), load_ctranslate2(plain, vars(options)), load_ctranslate2(plain))
    )
    assert own == asked != default


def test_more_tokens_than_positions_are_refused(separate):
    with pytest.raises(UserError, match=f"min_length is {MAX_LENGTH + 1}; the model has {MAX_LENGTH} positions"):
        load_ctranslate2(separate[2], {"min_length": MAX_LENGTH + 1})


def test_the_layer_norms_epsilon(tmp_path):
    """So small are these activations that it matters."""
    model, tokenizers = random_model(position="learned", norm_first=True)
    for stack in model.encoder, model.decoder:
        for table in stack.embedding.embeddings, stack.position_encoding.table:
            table.assign(table * 1e-3)
    output = translate(export_ctranslate2(model, tokenizers, tmp_path / "ct2"), ["a dog"], GREEDY)
    translations, scores = search_slowly(model, tokenizers, ["a dog"], GREEDY)
    assert output["translation"] == translations
    np.testing.assert_allclose(output["score"], scores, atol=1e-4)


def test_equal_matrices_are_kept_once():
    names = ["encoder/embeddings_0/weight", "decoder/embeddings/weight", "decoder/projection/weight"]
    for sharing, matrices in {"all": 1, "target": 2, "none": 3}.items():
        spec = transformer_spec(*random_model(share_embeddings=sharing))
        spec.validate()
        spec.optimize()
        # What is kept elsewhere is the name of that place.
        assert sum(not isinstance(spec.variables()[name], str) for name in names) == matrices


@pytest.mark.parametrize("options", [GREEDY, BEAM, replace(BEAM, alpha=0.0)], ids=["greedy", "beam", "alpha 0"])
def test_a_batch_gives_what_each_text_alone_gives(separate, options):
    options = replace(options, extra_length=1)  # so low a limit that few searches end by themselves
    together = translate(separate[2], TEXTS, options)
    for row, text in enumerate(TEXTS):
        alone = translate(separate[2], [text], options)
        assert alone["translation"] == [together["translation"][row]]
        assert alone["score"] == [pytest.approx(together["score"][row], abs=1e-4)]
        assert alone["truncated"] == [together["truncated"][row]]


@pytest.mark.parametrize("text", ["", " ", "\t \u3000"])
def test_nothing_is_translated_by_nothing(separate, text):
    assert translate(separate[2], [text], BEAM) == {"translation": [b""], "score": [0.0], "truncated": [False]}


def test_no_text_at_all(separate):
    assert translate(separate[2], [], BEAM) == {"translation": [], "score": [], "truncated": []}


def test_a_text_is_cut_where_the_positions_end(separate):
    texts = ["the " * count for count in (MAX_LENGTH - 2, MAX_LENGTH - 1, MAX_LENGTH, 1000)]
    output = translate(separate[2], texts, GREEDY)
    assert output["truncated"] == [False, False, True, True]
    assert output["translation"][1] == output["translation"][2] == output["translation"][3]


def test_minimum_and_maximum_length(tmp_path):
    model, tokenizers = random_model()
    set_projection(model, {"[END]": 2 * projection_of("sieht", model)})  # it would rather say nothing
    path = export_ctranslate2(model, tokenizers, tmp_path / "ct2")
    said = []
    for changes in (
        {},
        {"min_length": 4},
        {"min_length": 3, "max_length": 3},
        {"min_length": MAX_LENGTH, "extra_length": 0},  # the limit goes first
    ):
        options = replace(GREEDY, **changes)
        output = translate(path, TEXTS, options)
        translations, scores = search_slowly(model, tokenizers, TEXTS, options)
        assert output["translation"] == translations
        np.testing.assert_allclose(output["score"], scores, atol=1e-4)
        said.append(translations[TEXTS.index("dogs")])
    assert said == [b"", b"sieht sieht sieht", b"sieht sieht", b"sieht sieht"]


def test_padding_is_never_said(tmp_path):
    model, tokenizers = random_model()
    # Whatever stands before, the decoder's output is (1, ..., 1), and so padding has the highest logit.
    norm = model.decoder.layers[-1].feed_forward_residual.norm
    norm.gamma.assign(np.zeros(8))
    norm.beta.assign(np.ones(8))
    set_projection(model, {piece: np.zeros(8) for piece in GERMAN} | {"[PAD]": 9, "sieht": 5})
    path = export_ctranslate2(model, tokenizers, tmp_path / "ct2")
    for options in (replace(options, extra_length=1) for options in (GREEDY, BEAM, replace(GREEDY, temperature=0.5))):
        # A beam finds what closes at the limit too, which ranks before what is cut there.
        expected = b"sieht sieht" if options.beam_size == 1 else b"sieht"
        assert translate(path, ["dog"], options)["translation"] == [expected]


@pytest.mark.parametrize(
    "options",
    [
        replace(GREEDY, temperature=1.0),
        replace(GREEDY, temperature=0.5),
        replace(GREEDY, temperature=2.0, top_k=3),
        replace(GREEDY, temperature=2.0, top_p=0.7),
        replace(GREEDY, temperature=1.0, top_k=1000),
    ],
    ids=["plain", "cold", "top 3", "top 70 %", "top of all"],
)
def test_samples_are_drawn_from_their_distribution(separate, options):
    model, tokenizers, path = separate
    options = replace(options, extra_length=0, alpha=0.0)  # one token, so that the score tells which it is
    scores = next_log_probabilities(model, [source_and_limit(tokenizers, "dog", options)[0]], [[]])[0]
    expected = np.exp(scores / options.temperature)
    expected /= expected.sum()
    order = np.argsort(-scores)
    kept = order[: options.top_k or None]
    if options.top_p < 1:  # the fewest tokens that have so much together
        kept = kept[: np.searchsorted(np.cumsum(expected[kept]), options.top_p) + 1]
    expected[np.setdiff1d(order, kept)] = 0
    expected /= expected.sum()

    count = 4000
    drawn = np.array(translate(path, ["dog"] * count, options)["score"])
    tokens = np.abs(drawn[:, None] - scores).argmin(axis=1)
    np.testing.assert_allclose(drawn, scores[tokens], atol=1e-4)
    shares = np.bincount(tokens, minlength=len(scores)) / count
    np.testing.assert_allclose(shares, expected, atol=4 * 0.5 / count**0.5)
    assert not shares[expected == 0].any()


def test_a_seed_tells_what_is_drawn(separate):
    texts = ["a dog sees the cats."] * 20

    def drawn(seed):
        return translate(separate[2], texts, replace(GREEDY, temperature=1.0, seed=seed))["translation"]

    assert len(set(drawn(1))) > 10
    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize(("quantization", "share"), [("int8", 0.8), ("int16", 0.9), ("float16", 0.9)])
def test_quantized_models_are_smaller_and_score_alike(separate, tmp_path, quantization, share):
    model, tokenizers, path = separate
    quantized = export_ctranslate2(model, tokenizers, tmp_path / quantization, quantization)
    assert (quantized / "model.bin").stat().st_size < share * (path / "model.bin").stat().st_size
    exact, rounded = (translate(where, TEXTS, GREEDY) for where in (path, quantized))
    assert np.mean([a == b for a, b in zip(exact["translation"], rounded["translation"], strict=True)]) > 0.5
    np.testing.assert_allclose(rounded["score"][1], exact["score"][1], atol=0.5)


def test_it_translates_as_translate_texts_asks(separate):
    engine = load_ctranslate2(separate[2], vars(BEAM))
    translations = list(translate_texts(engine, TEXTS, batch_size=2))
    expected = translate(separate[2], TEXTS, BEAM)
    assert [translation.text.encode() for translation in translations] == expected["translation"]
    assert [translation.score for translation in translations] == pytest.approx(expected["score"], abs=1e-4)
    assert {key: value.dtype for key, value in engine(TEXTS).items()} == {
        "translation": tf.string,
        "score": tf.float32,
        "truncated": tf.bool,
    }


def test_the_folder_alone_is_enough(separate, tmp_path):
    shutil.copytree(separate[2], tmp_path / "elsewhere")
    assert translate(tmp_path / "elsewhere", TEXTS, BEAM) == translate(separate[2], TEXTS, BEAM)


def test_what_is_there_stays_as_it_is(separate, tmp_path):
    model, tokenizers, _ = separate
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes").write_bytes(b"precious")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"taken: a folder with something in it"):
        export_ctranslate2(model, tokenizers, tmp_path / "taken")
    with pytest.raises(UserError, match=r"notes: a file"):
        export_ctranslate2(model, tokenizers, tmp_path / "taken" / "notes")
    with pytest.raises(UserError, match=r"notes/deeper: the CTranslate2 model can't be written: Not a directory"):
        export_ctranslate2(model, tokenizers, tmp_path / "taken" / "notes" / "deeper")
    assert sorted(os.listdir(tmp_path)) == ["empty", "taken"]
    assert (tmp_path / "taken" / "notes").read_bytes() == b"precious"
    assert export_ctranslate2(model, tokenizers, tmp_path / "empty") == free_folder(tmp_path / "new").with_name("empty")
    assert translate(tmp_path / "empty", ["dog"], GREEDY)["translation"]


def test_a_failure_leaves_nothing_behind(separate, tmp_path):
    class FullDisk(TokenizerPair):
        def save(self, directory):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    model, tokenizers, _ = separate
    with pytest.raises(UserError, match=r"ct2: the CTranslate2 model can't be written: No space left"):
        export_ctranslate2(model, FullDisk(tokenizers.source, tokenizers.target, "wordpiece"), tmp_path / "ct2")
    assert not os.listdir(tmp_path)


def test_an_unknown_quantization(separate, tmp_path):
    model, tokenizers, _ = separate
    with pytest.raises(UserError, match=r"^quantization 'int4' is not known; choose one of int8, .*float16.*float32$"):
        export_ctranslate2(model, tokenizers, tmp_path / "ct2", "int4")
    assert not os.listdir(tmp_path)


def test_without_the_library(separate, tmp_path, monkeypatch):
    model, tokenizers, path = separate
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"pip install -e '\.\[ctranslate2\]'"):
        export_ctranslate2(model, tokenizers, tmp_path / "ct2")
    with pytest.raises(UserError, match=r"pip install -e '\.\[ctranslate2\]'"):
        load_ctranslate2(path)


@pytest.fixture
def copy(separate, tmp_path):
    return shutil.copytree(separate[2], tmp_path / "copy")


@pytest.mark.parametrize(
    "name", ["model.bin", "config.json", "tokenizer/tokenizer.json", "tokenizer/source.txt", "target_vocabulary.json"]
)
def test_a_missing_file_is_named(copy, name):
    (copy / name).unlink()
    words = name.split(".")[0].replace("_", ".")  # as a file, or in CTranslate2's words
    with pytest.raises(UserError, match=rf"{copy}.*{words}") as raised:
        load_ctranslate2(copy)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["model.bin", "config.json"])
@pytest.mark.parametrize("content", [b"", b"{", b'{"tf_transformer": 3}'])
def test_a_damaged_file(copy, name, content):
    (copy / "SHA256SUMS").unlink()  # as an earlier version wrote it
    (copy / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"^{copy}.*export (it|the model) again"):
        load_ctranslate2(copy)


@pytest.mark.parametrize(("option", "value"), [("num_hypotheses", 2), ("replace_unknown", True)])
def test_what_it_does_not_have(separate, option, value):
    with pytest.raises(UserError, match=f"^{option}: .*CTranslate2.*; use a SavedModel$"):
        load_ctranslate2(separate[2], {option: value})
