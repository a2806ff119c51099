"""The signatures that look into a translation, of the tiny run's export, against the equations in NumPy."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.eager import eagerly
from tests.tiny_run import MAX_LENGTH, PAIRS, tiny_run
from tests.translation.conftest import OPTIONS, with_options
from tf_transformer.decoding import DecodingOptions
from tf_transformer.runs.loading import load_model
from tf_transformer.tokenizers.base import END_ID, PAD_ID
from tf_transformer.translation import Translator
from tf_transformer.translation.exploring import SEARCH_OPTIONS

SOURCES, TARGETS = zip(*PAIRS, strict=True)


def call(loaded, signature, **inputs):
    """A signature's outputs as arrays."""
    function = loaded.signatures[signature]
    types = function.structured_input_signature[1]
    tensors = {name: tf.constant(value, types[name].dtype) for name, value in inputs.items()}
    return {name: value.numpy() for name, value in function(**tensors).items()}


def searched(loaded, texts, prefix=None, **changes):
    options = {name: OPTIONS[name] for name in SEARCH_OPTIONS} | changes
    return call(loaded, "translate_with_search", text=texts, prefix=prefix or [""] * len(texts), **options)


# -- attention of a given translation ----


def test_a_translation_s_attention_is_that_of_translating(loaded):
    """The tiny run writes its translations as its tokenizer would split them."""
    texts = [SOURCES[1], "", SOURCES[20]]
    expected = call(loaded, "translate_with_attention", text=texts)
    got = call(loaded, "attention", source=texts, target=expected["translation"])
    for name in ("source_tokens", "alignment", *(f"{kind}_attention" for kind in ("encoder", "decoder", "cross"))):
        # Of an empty text there is the closing token here, and nothing there.
        np.testing.assert_allclose(*(x[name][[0, 2]] for x in (got, expected)), atol=1e-6) if got[
            name
        ].dtype == "float32" else np.testing.assert_array_equal(*(x[name][[0, 2]] for x in (got, expected)))
    assert got["target_tokens"][[0, 2]].tolist() == expected["target_tokens"][[0, 2]].tolist()


def test_any_translation_s_attention_is_the_equations(loaded, by_definition):
    source, target = SOURCES[3], "Das Haus liebt den Hund?"
    got = call(loaded, "attention", source=[source], target=[target])
    ids = by_definition.target(target)
    assert got["target_ids"].tolist() == [ids]
    _, expected = by_definition.run(by_definition.source(source), ids)
    for kind, weights in expected.items():
        np.testing.assert_allclose(got[f"{kind}_attention"][0], weights, atol=1e-5)


# -- what else was likely ----


def greedy_text(by_definition, source, ids, limit=MAX_LENGTH, min_length=1, repeats=True):
    """What greedy search by the equations writes behind `ids`."""
    ids = list(ids)
    while ids[-1] != END_ID and len(ids) < limit:
        log_probs = by_definition.run(source, ids)[0][-1].copy()
        log_probs[PAD_ID] = -np.inf
        if len(ids) + 1 < min_length:
            log_probs[END_ID] = -np.inf
        if not repeats:
            log_probs[ids] = -np.inf
        ids.append(int(log_probs.argmax()))
    return by_definition.tokenizers.target.detokenize([ids]).numpy()[0].decode()


def test_the_next_tokens_are_the_likeliest_by_the_equations(loaded, by_definition):
    """Behind no token, some, the middle of a word, and a whole sentence; in one batch."""
    whole = by_definition.target(TARGETS[0])[:-1]
    prefixes = [[], whole[:2], whole[: len(whole) - 2], whole]
    padded = np.array([prefix + [0] * (len(whole) - len(prefix)) for prefix in prefixes])
    got = call(loaded, "next_tokens", text=[SOURCES[0]] * 4, prefix_ids=padded, count=5)
    source = by_definition.source(SOURCES[0])
    pieces = by_definition.tokenizers.target.pieces(range(by_definition.tokenizers.target.vocab_size))
    for row, prefix in enumerate(prefixes):
        log_probs = by_definition.run(source, prefix)[0][-1]
        log_probs[PAD_ID] = -np.inf
        best = np.argsort(-log_probs, kind="stable")[:5]
        assert got["id"][row].tolist() == best.tolist()
        assert [token.decode() for token in got["token"][row]] == [pieces[token] for token in best]
        np.testing.assert_allclose(got["probability"][row], np.exp(log_probs[best]), rtol=1e-3, atol=1e-6)
        expected = [greedy_text(by_definition, source, [*prefix, int(token)]) for token in best]
        assert [text.decode() for text in got["translation"][row]] == expected
    assert got["token"][3, 0] == b"</s>" and got["translation"][3, 0].decode() == TARGETS[0]


def test_next_tokens_keep_to_the_translator_s_fewest_tokens_and_repeat_none(translator, by_definition):
    """Behind a whole sentence, and two tokens of it."""
    whole, source = by_definition.target(TARGETS[0])[:-1], by_definition.source(SOURCES[0])
    min_length, limit = len(whole) + 4, len(source) - 1 + 10
    options = DecodingOptions(extra_length=10, min_length=min_length, no_repeat_ngram_size=1)
    late = Translator(translator.model, translator.tokenizers, options)
    prefixes = [whole, whole[:2]]
    padded = tf.ragged.constant(prefixes, tf.int32).to_tensor()
    with eagerly():
        got = late.functions["next_tokens"](tf.constant(SOURCES[:1] * 2), padded, tf.constant(1))
    for row, prefix in enumerate(prefixes):
        log_probs = by_definition.run(source, prefix)[0][-1]
        assert (log_probs.argmax() == END_ID) == (row == 0)
        log_probs[[PAD_ID, END_ID]] = -np.inf
        best = int(log_probs.argmax())
        assert got["id"][row].numpy().tolist() == [best]
        assert got["probability"][row].numpy() == pytest.approx(np.exp(log_probs[[best]]), rel=1e-3)
        begun = by_definition, source, [*prefix, best], limit
        text = got["translation"][row, 0].numpy().decode()
        assert text == greedy_text(*begun, min_length, repeats=False)
        # Either option makes a difference.
        assert text not in (greedy_text(*begun, 1, repeats=False), greedy_text(*begun, min_length))


def test_no_text_has_no_next_token_and_a_small_vocabulary_has_no_more(loaded, by_definition):
    size = by_definition.tokenizers.target.vocab_size
    got = call(loaded, "next_tokens", text=["", SOURCES[0]], prefix_ids=np.zeros((2, 0)), count=10 * size)
    assert set(got["translation"][0]) == set(got["token"][0]) == {b""}
    assert not got["probability"][0].any()
    assert sorted(got["id"][1])[0] > PAD_ID and len(set(got["id"][1])) == size - 2
    assert got["probability"][1].sum() == pytest.approx(1, abs=0.01)


def test_a_token_that_is_the_last_there_is_room_for_ends_the_translation(loaded, by_definition):
    """Beside one with room for more, which goes on as without it."""
    full = [5] * (MAX_LENGTH - 1)
    got = call(loaded, "next_tokens", text=SOURCES[:2], prefix_ids=[full, [0] * len(full)], count=3)
    expected = by_definition.tokenizers.target.detokenize([[*full, token] for token in got["id"][0]])
    assert got["translation"][0].tolist() == expected.numpy().tolist()
    alone = call(loaded, "next_tokens", text=SOURCES[1:2], prefix_ids=np.zeros((1, 0)), count=3)
    assert got["translation"][1].tolist() == alone["translation"][0].tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, "count must be >= 1"),
        ({"prefix_ids": [[5], [5]]}, "prefix_ids must have one row for each text"),
        ({"prefix_ids": [[10_000]]}, "prefix_ids must be ids of target tokens"),
        ({"prefix_ids": [[-1]]}, "prefix_ids must be ids of target tokens"),
        ({"prefix_ids": [[5] * MAX_LENGTH]}, "a prefix has as many tokens"),
    ],
    ids=str,
)
def test_a_prefix_that_cannot_be_is_refused(loaded, changes, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
        call(loaded, "next_tokens", **{"text": [SOURCES[0]], "prefix_ids": np.zeros((1, 0)), "count": 3, **changes})


# -- the search ----


def paths(output, row):
    """The tokens of each hypothesis of a row's search, by its step and place, followed from parent to parent."""
    found = {}
    for step, (tokens, parents) in enumerate(zip(output["token"][row], output["parent"][row], strict=True)):
        for place, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
            if token:
                assert (parent == -1) == (step == 0)
                found[step, place] = [*found.get((step - 1, parent), []), token.decode()]
    return found


TEXTS = [SOURCES[0], "", "Our dog sees", SOURCES[13]]


@pytest.mark.parametrize("changes", [{}, {"beam_size": 6, "num_hypotheses": 4, "alpha": 1.1, "min_length": 9}], ids=str)
def test_the_search_is_that_of_translating(loaded, changes):
    prefix = ["", "", "Unser", "Das Kind"]
    got, expected = searched(loaded, TEXTS, prefix, **changes), with_options(loaded, TEXTS, prefix, **changes)
    assert got["translation"].tolist() == expected["translation"].tolist()
    np.testing.assert_allclose(got["score"], expected["score"], atol=1e-5)
    assert got["truncated"].tolist() == expected["truncated"].tolist()
    assert not (got["token"][1] != b"").any()


def test_each_hypothesis_has_the_log_probability_of_its_tokens(loaded, by_definition):
    got = searched(loaded, TEXTS, num_hypotheses=2)
    pieces = by_definition.tokenizers.target.pieces(range(by_definition.tokenizers.target.vocab_size))
    for row in (0, 2, 3):
        source = by_definition.source(TEXTS[row])
        limit = len(source) - 1 + 10
        for (step, place), path in paths(got, row).items():
            total = by_definition.token_scores(source, [pieces.index(piece) for piece in path]).sum()
            assert got["log_probability"][row, step, place] == pytest.approx(total, abs=1e-3)
            for name, length in (("token_score", step + 1), ("highest_score", limit)):
                expected = total / ((5 + length) / 6) ** 0.6
                assert got[name][row, step, place] == pytest.approx(expected, abs=1e-3)


def test_what_became_of_each_hypothesis(loaded, by_definition):
    """By the search's own rules and the equations."""
    got = searched(loaded, TEXTS)
    pieces = by_definition.tokenizers.target.pieces(range(by_definition.tokenizers.target.vocab_size))
    for row in (0, 2, 3):
        found = paths(got, row)
        fates = {at: got["fate"][row][at].decode() for at in found}
        best = got["score"][row, 0]
        last = max(step for step, _ in found)
        parents = {(step - 1, got["parent"][row, step, place]) for step, place in found if step}
        for (step, place), path in found.items():
            closed = path[-1] == "</s>"
            assert (fates[step, place] == "closed") == closed
            assert (fates[step, place] == "continued") == ((step, place) in parents)
            if fates[step, place] == "overtaken":
                assert step == last and got["highest_score"][row, step, place] <= best + 1e-6
            if fates[step, place] == "dropped":
                # All that stands in the next step is likelier than anything that goes on from it.
                tokens = [pieces.index(piece) for piece in path]
                gains = by_definition.run(by_definition.source(TEXTS[row]), tokens)[0][-1]
                likeliest = got["log_probability"][row, step, place] + gains[1:].max()
                assert likeliest <= got["log_probability"][row, step + 1].min() + 1e-3
        winner = [at for at in found if got["wins"][row][at]]
        ends = [at for at in winner if at not in parents]
        assert len(ends) == 1 and got["token_score"][row][ends[0]] == pytest.approx(best, abs=1e-5)
        assert len(winner) == ends[0][0] + 1
        scores = [got["token_score"][row][at] for at, fate in fates.items() if fate == "closed"]
        assert max(scores) == pytest.approx(best, abs=1e-5)


def test_what_may_not_come_twice_does_not_in_the_shown_search_either(tmp_path_factory):
    run = tiny_run(tmp_path_factory.getbasetemp())
    options = DecodingOptions(beam_size=2, no_repeat_ngram_size=1)
    translator = Translator(load_model(run.path), run.load_tokenizers(), options)
    values = (2, 1, 0.6, 14, 14)  # of `SEARCH_OPTIONS`: far beyond the end of what it knows by heart
    with eagerly():
        search = translator.functions["translate_with_search"]
        found = search(tf.constant(SOURCES[:1]), tf.constant([""]), *map(tf.constant, values))
    said = found["token"].numpy()[found["wins"].numpy()].tolist()
    assert len(said) == len(set(said)) == 14


def test_the_shown_search_is_ranked_by_the_translator_s_own_length_penalty(translator):
    """Without an offset log-probabilities are divided by the length alone."""
    options = DecodingOptions(extra_length=10, length_offset=0.0)
    own = Translator(translator.model, translator.tokenizers, options)
    values = (2, 1, 1.0, 1, 6)  # of `SEARCH_OPTIONS`
    with eagerly():
        found = own.functions["translate_with_search"](
            tf.constant(SOURCES[:1]), tf.constant([""]), *map(tf.constant, values)
        )
    log_probs, token_scores, highest = (
        found[name].numpy()[0] for name in ("log_probability", "token_score", "highest_score")
    )
    real = found["token"].numpy()[0] != b""
    assert real.shape == (6, 2) and real[1:].all()
    lengths = np.broadcast_to(np.arange(1, 7)[:, None], real.shape)
    np.testing.assert_allclose(token_scores[real], (log_probs / lengths)[real], rtol=1e-5)
    np.testing.assert_allclose(highest[real], log_probs[real] / 6, rtol=1e-5)


def test_a_search_that_meets_its_limit_says_so(loaded):
    got = searched(loaded, [SOURCES[0]], max_length=3)
    assert got["token"].shape == (1, 3, 4)
    assert set(got["fate"][0, 2]) <= {b"cut", b"closed"} and b"cut" in got["fate"][0, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beam_size": 0}, "beam_size must be >= 1"),
        ({"num_hypotheses": 5}, "num_hypotheses must be at most beam_size"),
        ({"alpha": -1.0}, "alpha must be >= 0"),
        ({"max_length": -1}, "max_length must be >= 0"),
        ({"prefix": ["Mann " * MAX_LENGTH]}, "a prefix has as many tokens"),
        ({"prefix": ["Ein", "Ein"]}, "prefix must have one string for each text"),
    ],
    ids=str,
)
def test_a_search_that_cannot_be_is_refused(loaded, changes, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
        searched(loaded, [SOURCES[0]], **changes)
