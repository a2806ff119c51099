"""Text to text in one graph: against a search that runs the whole model anew for each token."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tiny_run import MAX_LENGTH, PAIRS, tiny_run
from tf_transformer.export import Translator
from tf_transformer.run_directory import load_model
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID

EXTRA_LENGTH = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def translator(run):
    return Translator(load_model(run.path), run.load_tokenizers(), EXTRA_LENGTH)


def translate(translator, *texts):
    """What comes out, as lists."""
    output = translator.translate(tf.constant(texts, tf.string, shape=[len(texts)]))
    return {key: value.numpy().tolist() for key, value in output.items()}


def search_slowly(model, tokenizers, text):
    """Greedy search by the definition. Returns the translation and its log-probability."""
    tokens = tokenizers.source.tokenize([text]).to_list()[0]
    source, target, score = np.array([[*tokens, END_ID]]), [START_ID], 0.0
    for _ in range(len(tokens) + EXTRA_LENGTH):
        logits = model((source, np.array([target]))).numpy()[0, -1].astype("float64")
        probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        ranking = np.argsort(-probabilities)
        chosen = next(int(token) for token in ranking if token != PAD_ID)
        score += np.log(probabilities[chosen])
        target.append(chosen)
        if chosen == END_ID:
            break
    return tokenizers.target.detokenize(tf.constant([target])).numpy()[0], score


def test_it_knows_the_sentences_it_learned(translator):
    sources, targets = zip(*PAIRS, strict=True)
    assert [text.decode() for text in translate(translator, *sources)["translation"]] == list(targets)


# The last two it has never seen: one of these runs into its limit, which is a fifth of its positions away.
@pytest.mark.parametrize("text", [PAIRS[5][0], "Our dog", "green! houses, love; a man's apple"])
def test_search_and_score_are_those_of_the_definition(translator, text):
    expected, score = search_slowly(translator.model, translator.tokenizers, text)
    output = translate(translator, text)
    assert output["translation"] == [expected]
    assert output["score"] == [pytest.approx(score, abs=1e-4)]


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


def test_types(translator):
    output = translator.translate(["A man", "A woman"])
    assert {key: (value.dtype, value.shape.as_list()) for key, value in output.items()} == {
        "translation": (tf.string, [2]),
        "score": (tf.float32, [2]),
        "truncated": (tf.bool, [2]),
    }
