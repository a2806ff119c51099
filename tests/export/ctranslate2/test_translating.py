"""CTranslate2 with our weights: against searches by the definition over the logits of the equations in NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.decoding.by_hand import padded
from tests.export.ctranslate2.conftest import (
    BEAM,
    GERMAN,
    GREEDY,
    MAX_LENGTH,
    TEXTS,
    projection_of,
    random_model,
    set_projection,
    translate,
)
from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.export.ctranslate2 import export_ctranslate2, transformer_spec
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID
from tf_transformer.translation.ctranslate2_engine import load_ctranslate2
from tf_transformer.translation.texts import translate_texts

pytest.importorskip("ctranslate2", reason="needs CTranslate2: pip install -e '.[ctranslate2]'")


CONFIGURATIONS = {
    "post-norm, sinusoids, one vocabulary, all shared": {"share_embeddings": "all"},
    "pre-norm, sinusoids, one vocabulary, all shared, gelu, unscaled": {
        "share_embeddings": "all",
        "norm_first": True,
        "decoder_layers": 1,
        "activation": "gelu",
        "scale_embeddings": False,
    },
    "post-norm, learned, two vocabularies, target shared, wide keys": {
        "share_embeddings": "target",
        "position": "learned",
        "key_dim": 5,
        "value_dim": 3,
    },
    "pre-norm, learned, two vocabularies, none shared, wide values, with a bias": {
        "position": "learned",
        "norm_first": True,
        "key_dim": 2,
        "value_dim": 6,
        "output_bias": True,
    },
    "as MarianMT, with the bias": {
        "share_embeddings": "all",
        "activation": "swish",
        "norm_epsilon": 1e-3,
        "position": "sinusoidal_halves",
        "output_bias": True,
    },
}


def repeated(target, size):
    """The tokens that would end an n-gram which is in the target already."""
    ngrams = [target[start : start + size] for start in range(len(target) - size + 1)] if size else []
    return [ngram[-1] for ngram in ngrams if ngram[:-1] == target[len(target) - size + 1 :]]


def equations_of(model):
    """The logits of the next token by the equations, (batch, vocabulary), of sources and targets."""
    weights = reference.weights_of(model)

    def logits(sources, targets):
        sources = padded(sources, max(map(len, sources)))
        return reference.transformer(
            weights,
            sources,
            np.array([[START_ID, *target] for target in targets]),
            num_layers=len(model.encoder.layers),
            decoder_layers=len(model.decoder.layers),
            num_heads=2,
            norm_first=model.norm_first,
            position=model.position,
            share_embeddings=model.share_embeddings,
            **reference.departures(model),
        )[0][:, -1]

    return logits


def next_log_probabilities(equations, sources, targets, min_length=1, size=0):
    """Of all that may be said next: not padding, no n-gram twice, no closing token before its time.

    The targets have one length.
    """
    logits = equations(sources, targets)
    logits[:, PAD_ID] = -np.inf
    if len(targets[0]) + 1 < min_length:
        logits[:, END_ID] = -np.inf
    for row, target in enumerate(targets):
        logits[row, repeated(target, size)] = -np.inf
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
    equations = equations_of(model)
    for length in range(max(limits)):
        rows = [row for row, limit in enumerate(limits) if length < limit and END_ID not in targets[row]]
        if not rows:
            break
        scores = next_log_probabilities(
            equations,
            [sources[row] for row in rows],
            [targets[row] for row in rows],
            options.min_length,
            options.no_repeat_ngram_size,
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
    finished, live, equations = {}, {(): 0.0}, equations_of(model)
    for length in range(1, limit + 1):
        scores = next_log_probabilities(equations, [source] * len(live), list(live))
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


@pytest.mark.parametrize("size", [2, *(pytest.param(size, marks=pytest.mark.thorough) for size in (1, 3))])
def test_no_n_gram_comes_twice(separate, size):
    model, tokenizers, path = separate
    options = replace(GREEDY, extra_length=8, no_repeat_ngram_size=size)
    if size == 1:  # the model has ten tokens, and the closing one
        options = replace(options, max_length=5)
    output = translate(path, TEXTS, options)
    translations, scores = search_slowly(model, tokenizers, TEXTS, options)
    assert output["translation"] == translations
    np.testing.assert_allclose(output["score"], scores, atol=1e-4)
    assert translations != search_slowly(model, tokenizers, TEXTS, replace(options, no_repeat_ngram_size=0))[0]


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
    scores = next_log_probabilities(equations_of(model), [source_and_limit(tokenizers, "dog", options)[0]], [[]])[0]
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


def test_a_search_has_a_worker_a_core_and_samples_have_one(separate, monkeypatch):
    """As a seed belongs to a worker. Called from several threads, it says what it says in one."""
    monkeypatch.setattr("tf_transformer.translation.ctranslate2_engine.cores", lambda: 3)
    assert load_ctranslate2(separate[2], vars(replace(GREEDY, temperature=1.0))).streams == 1
    engine = load_ctranslate2(separate[2], vars(BEAM))
    assert engine.streams == 3
    one, three = (list(translate_texts(engine, TEXTS * 10, batch_size=4, streams=streams)) for streams in (1, 3))
    assert one == three


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
