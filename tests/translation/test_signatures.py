"""The tiny run's export: each signature's inputs and outputs, against the equations in NumPy."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from tests.eager import eagerly
from tests.tiny_run import MAX_LENGTH, PAIRS, tiny_export
from tests.translation.conftest import OPTIONS, with_options
from tf_transformer.export import export_saved_model
from tf_transformer.translation import Translator

SOURCES, TARGETS = zip(*PAIRS, strict=True)
# Some that it knows, of several lengths, nothing, and what it has never seen.
TEXTS = [SOURCES[1], "", SOURCES[0], "Our dog", " \t", "🐕 house!", SOURCES[23]]

# One dimension of unknown size for each letter or word; no string is a scalar.
TRANSLATION = {"translation": ("string", "b"), "score": ("float32", "b"), "truncated": ("bool", "b")}
NBEST = {"translation": ("string", "b n"), "score": ("float32", "b n"), "truncated": ("bool", "b")}
TEXT = {"text": ("string", "b")}
ATTENTION = {
    "source_tokens": ("string", "b s"),
    "target_tokens": ("string", "b t"),
    "encoder_attention": ("float32", "b 1 2 s s"),
    "decoder_attention": ("float32", "b 1 2 t t"),
    "cross_attention": ("float32", "b 1 2 t s"),
    "alignment": ("int32", "b t"),
}
SIGNATURES = {
    "serving_default": (TEXT, TRANSLATION),
    "translate": (TEXT, TRANSLATION),
    "translate_nbest": (TEXT, NBEST),
    "translate_with_attention": (TEXT, {**TRANSLATION, **ATTENTION}),
    "translate_with_options": (
        {
            **TEXT,
            "prefix": ("string", "b"),
            **dict.fromkeys(["beam_size", "num_hypotheses", "min_length", "max_length"], ("int32", "")),
            **dict.fromkeys(["top_k", "seed", "no_repeat_ngram_size"], ("int32", "")),
            **dict.fromkeys(["alpha", "temperature", "top_p"], ("float32", "")),
            **dict.fromkeys(["replace_unknown", "protect"], ("bool", "")),
        },
        NBEST,
    ),
    "score": (
        {"source": ("string", "b"), "target": ("string", "b")},
        {
            "score": ("float32", "b"),
            "token_scores": ("float32", "b t"),
            "tokens": ("string", "b t"),
            "truncated": ("bool", "b"),
        },
    ),
    "tokenize": (TEXT, {"ids": ("int32", "b t"), "tokens": ("string", "b t")}),
    "detokenize": ({"ids": ("int32", "b t")}, {"text": ("string", "b")}),
    "attention": (
        {"source": ("string", "b"), "target": ("string", "b")},
        {"target_ids": ("int32", "b t"), "truncated": ("bool", "b"), **ATTENTION},
    ),
    "next_tokens": (
        {**TEXT, "prefix_ids": ("int32", "b p"), "count": ("int32", "")},
        {
            **dict.fromkeys(["token", "translation"], ("string", "b k")),
            "id": ("int32", "b k"),
            "probability": ("float32", "b k"),
            "truncated": ("bool", "b"),
        },
    ),
    "translate_with_search": (
        {
            **TEXT,
            "prefix": ("string", "b"),
            **dict.fromkeys(["beam_size", "num_hypotheses", "min_length", "max_length"], ("int32", "")),
            "alpha": ("float32", ""),
        },
        {
            **NBEST,
            **dict.fromkeys(["token", "fate"], ("string", "b steps beam")),
            "parent": ("int32", "b steps beam"),
            **dict.fromkeys(["log_probability", "token_score", "highest_score"], ("float32", "b steps beam")),
            "wins": ("bool", "b steps beam"),
        },
    ),
}


def call(loaded, signature, **inputs):
    """A signature's outputs as arrays."""
    types = SIGNATURES[signature][0]
    tensors = {name: tf.constant(value, types[name][0]) for name, value in inputs.items()}
    return {name: value.numpy() for name, value in loaded.signatures[signature](**tensors).items()}


def test_there_are_these_signatures_and_no_other(loaded):
    def form(specs):
        return {name: (spec.dtype.name, spec.shape.as_list()) for name, spec in specs.items()}

    def expected(specs):
        return {
            name: (dtype, [int(size) if size.isdecimal() else None for size in sizes.split()])
            for name, (dtype, sizes) in specs.items()
        }

    assert set(loaded.signatures) == set(SIGNATURES)
    for name, (inputs, outputs) in SIGNATURES.items():
        signature = loaded.signatures[name]
        assert form(signature.structured_input_signature[1]) == expected(inputs)
        assert form(signature.structured_outputs) == expected(outputs)


def inputs(name, size):
    """What a signature may be given, of so many texts."""
    strings = np.array(TEXTS[:size], object).reshape(size)
    given = {key: strings for key, (dtype, _) in SIGNATURES[name][0].items() if dtype == "string"}
    given |= {key: value for key, value in OPTIONS.items() if key in SIGNATURES[name][0]}
    if name == "detokenize":
        given = {"ids": np.full((size, 3), 300)}
    if name == "next_tokens":
        given |= {"prefix_ids": np.full((size, 3), 300), "count": 5}
    return given


@pytest.mark.parametrize("size", [0, pytest.param(1, marks=pytest.mark.thorough), 5])
@pytest.mark.parametrize("name", SIGNATURES)
def test_outputs_agree_with_each_other_on_their_shapes(loaded, name, size):
    output = call(loaded, name, **inputs(name, size))
    sizes = {"b": size}
    for key, (_, letters) in SIGNATURES[name][1].items():
        assert output[key].ndim == len(letters.split())
        for letter, found in zip(letters.split(), output[key].shape, strict=True):
            assert found == int(letter) if letter.isdecimal() else sizes.setdefault(letter, found) == found


@pytest.mark.thorough
def test_translating_is_the_same_by_every_name(loaded, translator, tmp_path_factory):
    extra = tiny_export(tmp_path_factory.getbasetemp()) / "assets.extra"
    exported = json.loads((extra / "decoding_options.json").read_text(encoding="utf-8"))
    assert exported == {**OPTIONS, "max_length": None, "extra_length": 10, "length_offset": 5.0}
    assert (extra / "tf_serving_warmup_requests").stat().st_size

    with eagerly():
        expected = {name: value.numpy() for name, value in translator.translate(TEXTS).items()}
    assert [text.decode() for text in expected["translation"][[0, 2, 6]]] == [TARGETS[1], TARGETS[0], TARGETS[23]]
    outputs = [call(loaded, name, text=TEXTS) for name in ("serving_default", "translate", "translate_with_attention")]
    nbest = [call(loaded, "translate_nbest", text=TEXTS), with_options(loaded, TEXTS)]
    outputs += [{**o, "translation": o["translation"][:, 0], "score": o["score"][:, 0]} for o in nbest]
    for output in outputs:
        assert output["translation"].tolist() == expected["translation"].tolist()
        np.testing.assert_allclose(output["score"], expected["score"], atol=1e-5)
        assert output["truncated"].tolist() == expected["truncated"].tolist() == [False] * len(TEXTS)


@pytest.mark.thorough
def test_each_signature_of_an_export_of_float16_weights_is_its_translator_s(translator, tmp_path):
    half = Translator(translator.model, translator.tokenizers, translator.options, half=True)
    exported = tf.saved_model.load(str(export_saved_model(half, tmp_path / "half")))
    for name, function in half.functions.items():
        types, given = SIGNATURES[name][0], inputs(name, 3)
        tensors = {key: tf.constant(value, types[key][0]) for key, value in given.items()}
        with eagerly():
            expected = function(*(tensors[spec.name] for spec in function.input_signature))
        for key, value in call(exported, name, **given).items():
            if value.dtype == np.float32:
                np.testing.assert_allclose(value, expected[key], rtol=1e-4, atol=1e-4, err_msg=f"{name}: {key}")
            else:
                assert value.tolist() == expected[key].numpy().tolist()


def test_hypotheses_come_best_first_with_the_score_of_the_definition(loaded, by_definition):
    output = call(loaded, "translate_nbest", text=SOURCES[:4])
    assert output["translation"].shape == output["score"].shape == (4, 4)
    for text, translations, scores in zip(SOURCES, output["translation"], output["score"], strict=False):
        assert len(set(translations)) == 4
        assert scores.tolist() == sorted(scores, reverse=True)
        expected = [by_definition.score(text, translation.decode(), 0.6) for translation in translations]
        np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.thorough
def test_alpha_ranks_hypotheses_by_the_paper_s_penalty(loaded, by_definition):
    for alpha in (0.0, 1.5):
        output = with_options(loaded, SOURCES[:2], alpha=alpha, num_hypotheses=3)
        for text, translations, scores in zip(SOURCES, output["translation"], output["score"], strict=False):
            expected = [by_definition.score(text, translation.decode(), alpha) for translation in translations]
            np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_options_are_the_translator_s(loaded, translator):
    changes = {"num_hypotheses": 2, "alpha": 1.0, "min_length": 8, "max_length": 10}
    prefix = ["Der", "", "Ein Mann", "", "", "Unser", ""]
    for more in ({"beam_size": 6}, {"temperature": 1.2, "top_k": 9, "top_p": 0.9, "seed": 5}):
        output = with_options(loaded, TEXTS, prefix, **changes, **more)
        with eagerly():
            expected = translator.translate(TEXTS, prefix, **changes, **more)
        assert output["translation"].tolist() == expected["translation"].numpy().tolist()
        np.testing.assert_allclose(output["score"], expected["score"], atol=1e-5)
        assert output["translation"][2][0].decode().startswith("Ein Mann")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beam_size": 0}, "beam_size must be >= 1"),
        ({"alpha": -1.0}, "alpha must be >= 0"),
        ({"num_hypotheses": 0}, "num_hypotheses must be >= 1"),
        ({"num_hypotheses": 5}, "num_hypotheses must be at most beam_size"),
        ({"min_length": -1}, "min_length must be >= 1"),
        ({"max_length": -1}, "max_length must be >= 0"),
        ({"min_length": 9, "max_length": 8}, "min_length must be at most max_length"),
        ({"temperature": -1.0}, "temperature must be >= 0"),
        ({"temperature": np.inf}, "temperature must be <= 1000000.0"),
        ({"temperature": np.nan}, "temperature must be >= 0"),
        ({"temperature": 1e-7}, "temperature must be 0, or >= 1e-06"),
        ({"alpha": np.inf}, "alpha must be <= 10"),
        ({"alpha": np.nan}, "alpha must be >= 0"),
        ({"alpha": 1000.0}, "alpha must be <= 10"),
        ({"min_length": MAX_LENGTH + 1}, "more than the model has positions"),
        ({"top_k": -1}, "top_k must be >= 0"),
        ({"top_p": 0.0}, "top_p must be >= 1e-06"),
        ({"top_p": np.nan}, "top_p must be >= 1e-06"),
        ({"top_p": 2.0}, "top_p must be <= 1"),
        ({"seed": -1}, "seed must be >= 0"),
        ({"prefix": ["Ein Mann sieht ein Haus."], "max_length": 3}, "a prefix has as many tokens"),
        ({"prefix": ["Mann " * MAX_LENGTH]}, "a prefix has as many tokens"),
        ({"prefix": ["Ein", "Ein"]}, "prefix must have one string for each text"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_by_name(loaded, changes, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
        with_options(loaded, [SOURCES[0]], **changes)


@pytest.fixture(scope="module")
def attention(loaded):
    return call(loaded, "translate_with_attention", text=TEXTS)


def test_attention_is_the_model_s_between_the_tokens_named(attention, by_definition):
    source_pieces, target_pieces = (
        tokenizer.pieces(range(tokenizer.vocab_size))
        for tokenizer in (by_definition.tokenizers.source, by_definition.tokenizers.target)
    )
    for row, text in enumerate(TEXTS):
        source = by_definition.source(text)
        tokens = [piece.decode() for piece in attention["target_tokens"][row]]
        target = [target_pieces.index(piece) for piece in tokens if piece]
        assert tokens == [target_pieces[token] for token in target] + [""] * (len(tokens) - len(target))
        names = [piece.decode() for piece in attention["source_tokens"][row]]
        assert names == [source_pieces[token] for token in source] + [""] * (len(names) - len(source))
        joined = by_definition.tokenizers.target.detokenize([target]).numpy()[0] if target else b""
        assert joined == attention["translation"][row]

        _, expected = by_definition.run(source, target)
        sizes = {"encoder": (len(source),) * 2, "decoder": (len(target),) * 2, "cross": (len(target), len(source))}
        for kind, (rows, columns) in sizes.items():
            weights = attention[f"{kind}_attention"][row]
            np.testing.assert_allclose(weights[..., :rows, :columns], expected[kind][:, :, :rows, :columns], atol=1e-5)
            np.testing.assert_allclose(weights[..., :rows, :].sum(axis=-1), 1.0, atol=1e-5)
            # The decoder's padding lies behind its tokens, where none of them looks.
            assert not weights[..., :rows, columns:].any()


def test_alignment_is_the_highest_of_the_mean_weights(attention):
    assert attention["alignment"].max() > 2
    for weights, source, target, alignment in zip(
        attention["cross_attention"].mean(axis=(1, 2)),
        attention["source_tokens"],
        attention["target_tokens"],
        attention["alignment"],
        strict=True,
    ):
        closing = source.tolist().index(b"</s>")
        for token, places, place in zip(target, weights, alignment, strict=True):
            if token == b"":
                assert place == -1
            else:
                assert place == (closing if token == b"</s>" else places[:closing].argmax())


def test_attention_does_not_depend_on_the_batch(loaded, attention):
    for row, text in enumerate(TEXTS):
        alone = call(loaded, "translate_with_attention", text=[text])
        for name, value in alone.items():
            there = attention[name][row : row + 1][(slice(None), *(slice(0, size) for size in value.shape[1:]))]
            if value.dtype == np.float32:
                np.testing.assert_allclose(there, value, atol=1e-5)
            else:
                assert there.tolist() == value.tolist()


def test_a_pair_s_score_is_the_sum_of_its_tokens_log_probabilities(loaded, by_definition):
    sources = [SOURCES[0], SOURCES[0], "Our dog", "", SOURCES[3]]
    targets = [TARGETS[0], TARGETS[9], "강 loves", "Ein Mann", ""]
    output = call(loaded, "score", source=sources, target=targets)
    np.testing.assert_allclose(output["score"], output["token_scores"].sum(axis=1), atol=1e-4)
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        ids = by_definition.target(target)
        expected = by_definition.token_scores(by_definition.source(source), ids)
        np.testing.assert_allclose(output["token_scores"][row, : len(ids)], expected, rtol=1e-4, atol=1e-4)
        assert not output["token_scores"][row, len(ids) :].any()
        tokens = [token.decode() for token in output["tokens"][row]]
        assert tokens == by_definition.tokenizers.target.pieces(ids) + [""] * (len(tokens) - len(ids))
    assert output["score"][0] > -1 > output["score"][1]


def test_a_pair_of_which_one_side_is_too_long_says_so(loaded):
    long = "house " * MAX_LENGTH
    output = call(loaded, "score", source=[long, "A", "A"], target=["Ein", long, "Ein"])
    assert output["truncated"].tolist() == [True, True, False]
    assert output["tokens"].shape[1] == MAX_LENGTH


def test_tokenize_is_the_tokenizer_s_and_detokenize_gives_the_text_back(loaded, translator):
    texts = [*SOURCES[:3], "", "  Zwei  Blanks 강 ", "a\x00b"]
    output = call(loaded, "tokenize", text=texts)
    tokenizer = translator.tokenizers.source
    for text, ids, tokens in zip(texts, output["ids"].tolist(), output["tokens"].tolist(), strict=True):
        expected = tokenizer.tokenize([text]).to_list()[0]
        padding = len(ids) - len(expected)
        assert ids == expected + [0] * padding
        assert [token.decode() for token in tokens] == tokenizer.pieces(expected) + [""] * padding
    back = call(loaded, "detokenize", ids=output["ids"])["text"]
    assert [text.decode() for text in back] == [*SOURCES[:3], "", "Zwei Blanks 강", "a\x00b"]


def test_eight_threads_get_what_one_gets(loaded):
    random = np.random.default_rng(0)
    texts = [*SOURCES, "", "🐕 강", "Our dog " * 30, "the the the", "\x00"]
    names = ["translate", "translate_nbest", "translate_with_attention", "tokenize"]
    jobs = [(names[i % 4], random.choice(texts, random.integers(1, 7)).tolist()) for i in range(48)]

    def work(job):
        name, batch = job
        return call(loaded, name, text=batch)

    serial = [work(job) for job in jobs]
    with ThreadPoolExecutor(8) as threads:
        parallel = list(threads.map(work, jobs))
    for alone, beside in zip(serial, parallel, strict=True):
        assert alone.keys() == beside.keys()
        for name, value in alone.items():
            if value.dtype == np.float32:
                np.testing.assert_allclose(beside[name], value, rtol=0, atol=1e-6)
            else:
                assert beside[name].tolist() == value.tolist()
