"""What a decoder is told of the next word, against its definition, one position at a time; and what it makes of it."""

import keras
import numpy as np
import pytest

from tests import reference
from tf_transformer import NextWord, Transformer
from tf_transformer.parsing.next_word import next_word_tokens
from tf_transformer.tokenizers import train_parsing_tokenizers

PAIRS = [
    ("The dogs bark .", "(S (NP XX XX )NP (VP XX )VP XX )S"),
    ("Naïve dogs in Zürich sleep .", "(S (NP (NP XX XX )NP (PP XX (NP XX )NP )PP )NP (VP XX )VP XX )S"),
]


@pytest.fixture(scope="module")
def tokenizers():
    return train_parsing_tokenizers(PAIRS, vocab_size=300)


def ids_of(tokenizers):
    """Both pairs: sources with their closing token, targets behind the start token."""
    sources, targets = zip(*PAIRS, strict=True)
    source = [[*ids, 3] for ids in tokenizers.source.tokenize(list(sources)).to_list()]
    target = [[2, *ids] for ids in tokenizers.target.tokenize(list(targets)).to_list()]
    return tuple(keras.utils.pad_sequences(rows, padding="post") for rows in (source, target))


def test_it_is_its_definition(tokenizers):
    """An `XX`, and each bracket before it, is told the first piece of the word that comes next; the end the end."""
    source, target = ids_of(tokenizers)
    context = np.random.default_rng(0).standard_normal((*source.shape, 6)).astype("float32")
    sizes = 300, tokenizers.target.vocab_size
    told = NextWord(*sizes, *next_word_tokens(tokenizers))(source, target, context)
    for row, (sentence, tree) in enumerate(PAIRS):
        # Where each word begins, found by cutting each word alone; the closing token comes behind them all.
        places = [0]
        for word in sentence.split():
            places.append(places[-1] + len(tokenizers.source.tokenize([word]).to_list()[0]))
        written = tree.split()
        for position in range(len(written) + 1):
            place = places[written[:position].count("XX")]
            np.testing.assert_allclose(told[row, position], context[row, place], rtol=0, atol=1e-6)


def test_behind_the_end_it_is_nothing():
    layer = NextWord(10, 10, opening=[3, 5], writing=[4])
    context = np.ones((1, 2, 1), "float32")
    assert layer(np.array([[5, 3]]), np.array([[4, 4, 4]]), context).numpy().ravel().tolist() == [1, 0, 0]


def model_of(next_word, **changes):
    sizes = {"num_layers": 1, "d_model": 16, "num_heads": 2, "dff": 24, "max_length": 32, "share_embeddings": "none"}
    model = Transformer(**sizes, input_vocab_size=20, target_vocab_size=20, next_word=next_word, **changes)
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


def batch():
    random = np.random.default_rng(1)
    source, target = random.integers(3, 20, (3, 7)).astype("int32"), random.integers(3, 20, (3, 9)).astype("int32")
    source[1, 4:] = 0
    return source, target


WORDS = [[3, 5, 6, 7, 8, 9, 10], [4, 9, 10, 11, 12]]


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_decoder_reads_it_with_the_embeddings(norm_first):
    """Against the NumPy reference, whose target embeddings get it added."""
    model, (source, target) = model_of(WORDS, norm_first=norm_first), batch()
    context = model.encoder(source).numpy().astype("float64")
    added = np.zeros((*target.shape, 16))
    for row in range(3):
        opening = [place for place, token in enumerate(source[row]) if token in WORDS[0]]
        for position in range(target.shape[1]):
            word = sum(token in WORDS[1] for token in target[row, : position + 1])
            if word < len(opening):
                added[row, position] = context[row, opening[word]]
    assert np.any(added) and not np.all(np.any(added, axis=2))
    expected, _ = reference.transformer(
        reference.weights_of(model), source, target, 1, 2, norm_first, "sinusoidal", "none", added
    )
    np.testing.assert_allclose(model((source, target)), expected, rtol=0, atol=2e-5)


def test_its_steps_are_the_whole():
    model, (source, target) = model_of(WORDS), batch()
    stepper, expected = model.stepper(), model((source, target))
    cache = stepper.start_cache(source)
    for position in range(target.shape[1]):
        logits, cache = stepper.step(target[:, position], position, cache, np.ones((1, 1, position + 1), bool))
        np.testing.assert_allclose(logits, expected[:, position], rtol=0, atol=1e-5)


def test_with_no_words_it_is_the_paper_s_model():
    model, usual = model_of([[], []]), model_of(None)
    np.testing.assert_array_equal(model(batch()), usual(batch()))


@pytest.mark.parametrize(
    ("next_word", "told"),
    [([[20], [4]], "opening must be tokens from 0 to 19, got 20"), ([[3], ["XX"]], "writing must be .*, got 'XX'")],
)
def test_what_is_no_token_is_refused(next_word, told):
    with pytest.raises(ValueError, match=told):
        Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20, next_word=next_word)
