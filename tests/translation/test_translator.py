"""Text to text in one graph: against searches that run the whole model again for each token."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.decoding import by_hand
from tests.eager import eagerly
from tests.tiny_run import MAX_LENGTH, PAIRS
from tf_transformer.decoding import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.models import Transformer
from tf_transformer.tokenizers.base import END_ID
from tf_transformer.translation import Translator

# The last two it has never seen: there the hypotheses are near each other.
TEXTS = [PAIRS[5][0], "Our dog", "green! houses, love; a man's apple"]


def translate(translator, *texts, **changes):
    """What comes out, as lists."""
    output = translator.translate(tf.constant(texts, tf.string, shape=[len(texts)]), **changes)
    return {key: value.numpy().tolist() for key, value in output.items()}


@pytest.fixture(scope="module")
def next_log_probabilities(translator):
    """What may be said next by the Keras model itself, given a source and the translation so far."""
    return by_hand.whole_passes(translator.model)


def without_repeats(log_probabilities, target, size):
    """The same, but what would repeat an n-gram of a translation is impossible."""
    ngrams = {tuple(target[start : start + size]) for start in range(len(target) - size + 1)}
    last = target[len(target) - size + 1 :] if size > 1 else []
    return [-np.inf if (*last, token) in ngrams else each for token, each in enumerate(log_probabilities)]


def search(translator, next_log_probabilities, text, number=1, max_length=MAX_LENGTH, prefix="", **options):
    """Beam search by hand: the translations and their scores."""
    tokens = translator.tokenizers.source.tokenize([text]).to_list()[0]
    size = options.get("no_repeat_ngram_size", 0)

    def next_ones(target):
        found = next_log_probabilities([*tokens, END_ID], target)
        return without_repeats(found, target, size) if size else found

    found = by_hand.beam(
        next_ones,
        min(len(tokens) + 10, max_length),
        options.get("beam_size", max(4, number)),
        options.get("alpha", 0.6),
        number,
        options.get("min_length", 1),
        translator.tokenizers.target.tokenize([prefix]).to_list()[0],
    )
    scores, ids = zip(*found.hypotheses, strict=True)
    return translator.tokenizers.target.detokenize(tf.ragged.constant(ids)).numpy().tolist(), list(scores)


def test_it_knows_the_sentences_it_learned(translator):
    sources, targets = zip(*PAIRS, strict=True)
    assert [text.decode() for text in translate(translator, *sources)["translation"]] == list(targets)


CHANGES = [
    {},
    {"beam_size": 1},
    {"beam_size": 2, "alpha": 0.0},
    {"alpha": 2.0},
    {"min_length": 14},
    {"max_length": 4},
    {"min_length": 5, "max_length": 5},
    {"prefix": "Unser Kind"},
    {"min_length": 16, "no_repeat_ngram_size": 2},
    {"min_length": 16, "no_repeat_ngram_size": 1, "beam_size": 1},
]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        # Of a text that it knows the hypotheses are far from each other: what changes there is thorough.
        pytest.param(changes, text, marks=pytest.mark.thorough if changes and text == TEXTS[0] else [])
        for changes in CHANGES
        for text in TEXTS
    ],
    ids=str,
)
def test_search_and_score_are_those_of_the_definition(translator, next_log_probabilities, changes, text):
    given = {**changes, "prefix": [changes["prefix"]]} if "prefix" in changes else changes
    output = translate(translator, text, **given)
    translations, scores = search(translator, next_log_probabilities, text, **changes)
    assert output["translation"] == translations
    np.testing.assert_allclose(output["score"], scores, atol=1e-4)
    assert output["translation"][0].decode().startswith(changes.get("prefix", ""))


@pytest.mark.parametrize("number", [1, 3, 6])
def test_several_hypotheses_come_best_first(translator, next_log_probabilities, number):
    output = translate(translator, *TEXTS, num_hypotheses=number)
    assert np.shape(output["translation"]) == np.shape(output["score"]) == (3, number)
    for row, text in enumerate(TEXTS):
        translations, scores = search(translator, next_log_probabilities, text, number)
        assert output["translation"][row] == translations
        np.testing.assert_allclose(output["score"][row], scores, atol=1e-4)


def test_where_there_are_fewer_hypotheses_the_rest_is_empty(translator):
    output = translate(translator, "", PAIRS[0][0], num_hypotheses=2)
    assert output["translation"][0] == [b"", b""]
    assert output["score"][0] == [0.0, -np.inf]
    assert all(output["translation"][1])


def test_options_at_construction_are_the_same_as_in_a_call(translator):
    changes = {"beam_size": 2, "alpha": 1.0, "min_length": 9, "max_length": 12}
    other = Translator(translator.model, translator.tokenizers, DecodingOptions(extra_length=10, **changes))
    expected = translate(translator, *TEXTS, **changes)
    with eagerly():
        output = translate(other, *TEXTS)
    assert output["translation"] == expected["translation"]
    np.testing.assert_allclose(output["score"], expected["score"], atol=1e-5)
    assert expected["translation"] != translate(translator, *TEXTS)["translation"]


def test_samples_are_reproducible_and_their_own_whatever_the_batch(translator):
    options = {"temperature": 1.5, "num_hypotheses": 5, "seed": 3}
    together = translate(translator, *TEXTS, **options)
    assert together == translate(translator, *TEXTS, **options)
    for row, text in enumerate(TEXTS):
        alone = translate(translator, text, **options)
        assert alone["translation"] == [together["translation"][row]]
        np.testing.assert_allclose(alone["score"][0], together["score"][row], atol=1e-4)
        assert together["score"][row] == sorted(together["score"][row], reverse=True)
    assert all(len(set(texts)) > 1 for texts in together["translation"])
    assert translate(translator, *TEXTS, **{**options, "seed": 4})["translation"] != together["translation"]
    # More samples than the beam is wide: there is no beam.
    assert np.shape(translate(translator, "A man", temperature=1.0, beam_size=1, num_hypotheses=9)["score"]) == (1, 9)


@pytest.mark.thorough
def test_of_several_samples_that_a_translator_draws_one_is_told_whatever_else_is_asked_for(translator):
    """The first that is drawn, and not the likeliest."""
    options = DecodingOptions(extra_length=10, temperature=1.5, num_hypotheses=5, seed=3)
    sampling = Translator(translator.model, translator.tokenizers, options)
    with eagerly():
        drawn = translate(sampling, *TEXTS)
        assert translate(sampling, *TEXTS, prefix=[""] * len(TEXTS)) == drawn
        several = translate(sampling, *TEXTS, num_hypotheses=5)
    assert all(one in row for one, row in zip(drawn["translation"], several["translation"], strict=True))
    assert any(one != row[0] for one, row in zip(drawn["translation"], several["translation"], strict=True))


def test_a_translator_that_draws_gives_as_many_samples_as_it_was_made_for(translator):
    """More than the beam would be wide."""
    options = DecodingOptions(extra_length=10, max_length=4, temperature=1.5, num_hypotheses=6, seed=3)
    sampling = Translator(translator.model, translator.tokenizers, options)
    with eagerly():
        found = sampling.functions["translate_nbest"](tf.constant(TEXTS))
        expected = translate(sampling, *TEXTS, num_hypotheses=6)
    assert found["score"].shape == (3, 6)
    assert found["translation"].numpy().tolist() == expected["translation"]


def test_samples_are_ranked_by_the_translator_s_own_length_penalty(translator):
    """All have three tokens: 3 and 8 / 6 are what their log-probabilities are divided by."""
    options = {"temperature": 1.5, "num_hypotheses": 5, "seed": 3, "min_length": 3, "max_length": 3, "alpha": 1.0}
    outputs = []
    with eagerly():
        for offset in (0.0, 5.0):
            made_for = DecodingOptions(extra_length=10, length_offset=offset)
            outputs.append(translate(Translator(translator.model, translator.tokenizers, made_for), *TEXTS, **options))
    without, with_offset = outputs
    assert without["translation"] == with_offset["translation"]
    np.testing.assert_allclose(3 * np.array(without["score"]), 8 / 6 * np.array(with_offset["score"]), rtol=1e-5)


def test_float16_weights_are_what_all_answers_are_of(translator):
    """Whatever becomes of the model's own."""
    model = Transformer.from_config(translator.model.get_config())
    model.build(((None, None), (None, None)))
    model.set_weights(translator.model.get_weights())
    options = DecodingOptions(beam_size=1, extra_length=1)
    half = Translator(model, translator.tokenizers, options, half=True)
    source, target = tf.constant(["A"]), tf.constant(["Ein"])
    inputs = {
        "attention": (source, target),
        "score": (source, target),
        "next_tokens": (source, tf.zeros((1, 0), tf.int32), tf.constant(2)),
        "translate": (source,),
    }

    def answers():
        found = {name: half.functions[name](*given) for name, given in inputs.items()}
        return found | {"with options": half.translate(source, beam_size=2)}

    with eagerly():
        before = answers()
        model.set_weights([np.zeros(weight.shape) for weight in model.weights])
        after = answers()
    for name, outputs in before.items():
        for key, value in outputs.items():
            np.testing.assert_array_equal(after[name][key], value, err_msg=f"{name}: {key}")


@pytest.mark.parametrize("certain", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}], ids=str)
def test_what_leaves_one_choice_is_greedy_search(translator, certain):
    expected = translate(translator, *TEXTS, beam_size=1)
    output = translate(translator, *TEXTS, **{"temperature": 2.0, "seed": 1, **certain})
    assert output["translation"] == expected["translation"]
    np.testing.assert_allclose(output["score"], expected["score"], atol=1e-4)


def test_samples_keep_to_the_likeliest_and_to_their_lengths(translator, by_definition):
    options = DecodingOptions(extra_length=10, temperature=3.0, top_k=3, min_length=4, max_length=9, seed=2)
    sampling = Translator(translator.model, translator.tokenizers, options)
    sources = [source for source, _ in PAIRS]
    with eagerly():
        output = sampling.functions["translate_with_attention"](tf.constant(sources))
    places = {piece: token for token, piece in enumerate(by_definition.tokenizers.target.pieces(range(440)))}
    ranks, lengths = [], set()
    for text, row, score in zip(sources, output["target_tokens"].numpy(), output["score"].numpy(), strict=True):
        tokens = [places[piece.decode()] for piece in row if piece]
        log_probabilities, _ = by_definition.run(by_definition.source(text), tokens)
        log_probabilities = log_probabilities[: len(tokens)]
        chosen = log_probabilities[np.arange(len(tokens)), tokens]
        # The score is the model's own, whatever the temperature.
        assert score == pytest.approx(chosen.sum() / ((5 + len(tokens)) / 6) ** 0.6, abs=1e-3)
        log_probabilities[:, 0] = -np.inf
        log_probabilities[:3, END_ID] = -np.inf
        ranks += (log_probabilities > chosen[:, None]).sum(axis=-1).tolist()
        lengths.add(len(tokens))
        assert tokens[-1] == END_ID or len(tokens) == 9
    assert set(ranks) == {0, 1, 2}
    assert min(lengths) >= 4 and max(lengths) <= 9


def test_samples_begin_with_a_prefix(translator):
    prefixes = ["Ein", "", "Unser Hund"]
    output = translate(translator, *TEXTS, prefix=prefixes, temperature=2.0, num_hypotheses=4)
    for texts, prefix in zip(output["translation"], prefixes, strict=True):
        assert all(text.decode().startswith(prefix) for text in texts)


def test_an_empty_text_stays_empty_behind_a_prefix(translator):
    output = translate(translator, "", PAIRS[0][0], prefix=["Unser Hund", "Ein"])
    assert output["translation"] == [b"", PAIRS[0][1].encode()]
    assert output["score"][0] == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beam": 4}, "unknown option beam; choose from prefix, beam_size"),
        ({"extra_length": 4}, "unknown option extra_length"),
        ({"beam_size": 0}, "beam_size is 0; it must be at least 1"),
        ({"beam_size": -1}, "beam_size is -1"),
        ({"alpha": -0.5}, "alpha is -0.5"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"num_hypotheses": 0}, "num_hypotheses is 0"),
        ({"num_hypotheses": 3, "beam_size": 2}, "num_hypotheses is 3; it must be at most beam_size, 2"),
        ({"min_length": -1}, "min_length is -1"),
        ({"max_length": -5}, "max_length is -5"),
        ({"min_length": 8, "max_length": 7}, "max_length is 7; it must be at least min_length, 8"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0.0}, "top_p is 0.0; it must be at least 1e-06"),
        ({"alpha": 1000}, "alpha is 1000; it must be at most 10"),
        ({"temperature": 1e-50}, "temperature is 1e-50; it must be 0, or at least 1e-06"),
        ({"beam_size": "4"}, "beam_size is '4'; it must be a whole number"),
        ({"top_p": 2.0}, "top_p is 2.0"),
        ({"seed": -1}, "seed is -1"),
        ({"top_k": 5}, "top_k is 5, but it only applies to sampling; also give a temperature above 0"),
        ({"top_p": 0.9, "beam_size": 1}, "top_p is 0.9, but"),
        ({"seed": 7}, "seed is 7, but"),
        ({"prefix": ["Ein", "Ein"]}, "prefix must have one string for each text"),
        ({"prefix": ["Ein Mann sieht ein Haus."], "max_length": 3}, "a prefix has as many tokens"),
        ({"prefix": ["Mann " * MAX_LENGTH]}, "a prefix has as many tokens"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(translator, changes, message):
    with pytest.raises(UserError) as raised:
        translator.translate(["A man"], **changes)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ("A man", "texts is one string; give a list of strings, one for each sentence: ['A man', ...]"),
        (b"A man", "texts is one string; give a list"),
        (np.array("A man"), "texts has shape (); give one list of strings"),
        ([["A man"]], "texts has shape (1, 1); give one list of strings"),
        ([["A"], ["man", "sees"]], "texts must be strings ("),
        ([1, 2], "texts must be strings ("),
        (None, "texts must be strings ("),
    ],
    ids=str,
)
def test_what_is_no_list_of_strings_is_refused(translator, texts, told):
    for changes in {}, {"beam_size": 2}:
        with pytest.raises(UserError) as raised:
            translator.translate(texts, **changes)
        assert str(raised.value).startswith(told)
        assert "\n" not in str(raised.value)
    with pytest.raises(UserError, match=r"^prefix is one string; give a list of strings, one for each sentence"):
        translator.translate(["A man"], prefix="Ein")


def test_draws_options_are_taken_with_a_temperature_of_zero_that_is_given():
    assert DecodingOptions().changed(temperature=0.0, seed=7).seed == 7
    assert DecodingOptions(temperature=0.5).changed(seed=7).temperature == 0.5


def test_any_extra_length_is_no_more_than_the_positions(translator):
    options = [DecodingOptions(extra_length=extra) for extra in (2**31 - 1, MAX_LENGTH)]
    with eagerly():
        first, second = (
            translate(Translator(translator.model, translator.tokenizers, each), *TEXTS) for each in options
        )
    assert first == second


@pytest.mark.parametrize("option", ["min_length", "max_length"])
def test_a_length_beyond_the_model_is_refused_at_construction(translator, option):
    with pytest.raises(UserError, match=f"{option} is 41; the model has 40 positions"):
        Translator(translator.model, translator.tokenizers, DecodingOptions(**{option: 41}))


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        (0, 1, "the model has {} target tokens and the target tokenizer {}; give"),
        (0, -1, "the model has {} target tokens and the target tokenizer {}; give"),
        (-1, 0, "the model has {} source tokens and the source tokenizer {}; give"),
    ],
)
def test_tokenizers_of_other_sizes_are_refused_at_construction(translator, source, target, told):
    """TensorFlow fails at the first token that one of the two does not know, or the process ends there."""
    sizes = [getattr(translator.tokenizers, side).vocab_size for side in ("source", "target")]
    model = keras.Sequential()  # which is never looked into
    model.input_vocab_size, model.target_vocab_size, model.max_length = sizes[0] + source, sizes[1] + target, 40
    size = sizes[1] if target else sizes[0]
    with pytest.raises(UserError, match="^" + told.format(size + source + target, size)):
        Translator(model, translator.tokenizers)


def test_a_call_makes_only_the_branches_that_it_takes(translator):
    """Each branch costs seconds before the first translation: with all it is four times as large as a plain one."""

    def operations(function):
        graph = function.get_concrete_function().graph.as_graph_def()
        return len(graph.node) + sum(len(each.node_def) for each in graph.library.function)

    taken = operations(translator._graph_for(protect=False, replace_unknown=False, sampled=False))
    assert taken < 1.5 * operations(translator.functions["translate"])


def test_a_batch_gives_what_each_text_alone_gives(translator):
    texts = [PAIRS[0][0], "", "A", "Our dog " * 40, PAIRS[20][0], "🐕 강아지", "the the the"]
    together = translate(translator, *texts)
    for row, text in enumerate(texts):
        alone = translate(translator, text)
        assert alone["translation"] == [together["translation"][row]]
        assert alone["score"] == [pytest.approx(together["score"][row], abs=1e-4)]
        assert alone["truncated"] == [together["truncated"][row]]


@pytest.mark.parametrize("text", ["", " ", "\t \u3000"])
def test_nothing_is_translated_by_nothing(translator, text):
    assert translate(translator, text) == {"translation": [b""], "score": [0.0], "truncated": [False]}


@pytest.mark.thorough
def test_it_survives_what_drops_tensorflow_s_kernels(translator):
    before = translate(translator, *TEXTS)
    keras.utils.clear_session()
    assert translate(translator, *TEXTS) == before
    keras.utils.set_random_seed(1)
    assert translate(translator, *TEXTS) == before


def test_no_text_at_all(translator):
    assert translate(translator) == {"translation": [], "score": [], "truncated": []}


def test_a_text_is_cut_where_the_positions_end(translator):
    tokenize = translator.tokenizers.source.tokenize
    texts = [" ".join(["house"] * count) for count in range(1, MAX_LENGTH + 1)]
    lengths = tokenize(texts).row_lengths().numpy().tolist()
    assert {MAX_LENGTH - 1, MAX_LENGTH} <= set(lengths)  # both sides of the limit, with END or without room for it
    assert translate(translator, *texts)["truncated"] == [length >= MAX_LENGTH for length in lengths]

    longest = texts[lengths.index(MAX_LENGTH - 1)]
    cut, whole = translate(translator, longest + " a man loves"), translate(translator, longest)
    assert cut["translation"] == whole["translation"]
    assert cut["truncated"] == [True]
