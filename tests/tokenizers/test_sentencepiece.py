"""SentencePiece: the round trip, and the same ids as SentencePiece's own library."""

import gc
import itertools
from itertools import product
from string import ascii_lowercase

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceNormalizer, SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from tests.memory_in_use import NEEDS_MALLINFO, memory_in_use
from tf_transformer.errors import UserError
from tf_transformer.tokenizers import SentencePieceTokenizer, train_tokenizers

# Every text but one: a lone surrogate is half a character, and UTF-8, hence a tf.string, cannot hold it.
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))

# (text, normal form): the normal form is NFKC, with runs of blanks made one and blanks at the ends gone.
NORMAL_FORMS = [
    ("강아지는 감자를 좋아해", "강아지는 감자를 좋아해"),
    ("👨‍👩‍👧 🇩🇪🇰🇷 👍🏽 ❤️", "👨‍👩‍👧 🇩🇪🇰🇷 👍🏽 ❤️"),
    ("e\u0301 a\u0323\u0302 u\u0308ber x\u0338", "é ậ über x\u0338"),
    ("שלום עולם, مرحبا بالعالم", "שלום עולם, مرحبا بالعالم"),
    ("नमस्ते ไทย 漢字 ᚠᛇᚻ", "नमस्ते ไทย 漢字 ᚠᛇᚻ"),
    ("", ""),
    (" \t\n\u00a0\u3000 ", ""),
    ("  two   blanks \n", "two blanks"),
    ("a\x00b", "a\x00b"),
    ("▁a▁▁b", "a b"),
    ("<s> </s> <pad> <unk> <0x41>", "<s> </s> <pad> <unk> <0x41>"),
    ("①…ﬁ", "1...fi"),
    ("x" * 10_000, "x" * 10_000),
    ("ein Hund " * 1_250, ("ein Hund " * 1_250).strip()),
    ("한" * 10_000, "한" * 10_000),
]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request, joint_pairs) -> SentencePieceTokenizer:
    return joint_pairs[request.param].source


@pytest.fixture(scope="module")
def library(tokenizer) -> SentencePieceProcessor:
    """SentencePiece's own library with the same model: a reference for ids."""
    return SentencePieceProcessor(model_proto=tokenizer.to_bytes())


@pytest.fixture(scope="module")
def normalizer(tokenizer) -> SentencePieceNormalizer:
    """The same for normal forms: blanks as they are, and no mark before the first word."""
    model = tokenizer.to_bytes()
    return SentencePieceNormalizer(model_proto=model, add_dummy_prefix=False, escape_whitespaces=False)


def round_trip(tokenizer, texts: list[str]) -> list[str]:
    return [text.decode() for text in tokenizer.detokenize(tokenizer.tokenize(texts)).numpy()]


@pytest.mark.parametrize(("text", "normal_form"), NORMAL_FORMS, ids=lambda text: ascii(text[:12]))
def test_round_trip_gives_the_normal_form(tokenizer, library, normalizer, text, normal_form):
    assert normalizer.normalize(text) == normal_form
    assert round_trip(tokenizer, [text]) == [normal_form]
    assert tokenizer.tokenize([text]).to_list() == [library.encode(text)]


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, max_size=6))
@example(["\u0000", "\ufffd", "\ufeff", "\u200b", "▁", "\u2585", "\u0300", "\U0010ffff"])
def test_any_texts_make_the_round_trip(tokenizer, library, normalizer, texts):
    ids = tokenizer.tokenize(tf.constant(texts, tf.string))
    assert ids.dtype == tf.int32
    assert ids.to_list() == [library.encode(text) for text in texts]
    assert round_trip(tokenizer, tf.constant(texts, tf.string)) == [normalizer.normalize(t) for t in texts]


def test_texts_of_the_corpus_are_not_spelled_in_bytes(tokenizer, pairs):
    for texts in zip(*pairs, strict=True):
        pieces = tokenizer.pieces(tokenizer.tokenize(texts).flat_values.numpy())
        assert not [piece for piece in pieces if piece.startswith("<0x")]


def test_pieces(tokenizer):
    assert tokenizer.pieces([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert tokenizer.pieces(range(4, 260)) == [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = tokenizer.pieces(tokenizer.tokenize(["The girl 강"])[0].numpy())
    assert pieces[-3:] == ["<0xEA>", "<0xB0>", "<0x95>"]
    assert "".join(pieces[:-3]) == "▁The▁girl▁"
    assert len(set(tokenizer.pieces(range(tokenizer.vocab_size)))) == tokenizer.vocab_size


@pytest.mark.parametrize("text", [b"\xff\xfe", b"Hund \xe2\x82", b"\xed\xa0\x80", b"\xc0\x80", b"\xf8"])
def test_bytes_that_are_not_utf8_become_replacement_characters(tokenizer, text):
    replaced = tokenizer.detokenize(tokenizer.tokenize([text])).numpy()[0].decode()
    assert set(replaced) - set("Hund ") == {"\ufffd"}


def test_half_a_character_of_bytes_is_still_text(tokenizer):
    ids = [tokenizer.pieces(range(260)).index(piece) for piece in ("<0xEA>", "<0xB0>")]
    assert set(tokenizer.detokenize([ids]).numpy()[0].decode()) == {"\ufffd"}


@pytest.mark.parametrize("damage", [lambda m: b"", lambda m: b"junk", lambda m: m[:100], lambda m: m[:-50]])
def test_bytes_that_are_no_model_are_refused(tokenizer, damage):
    with pytest.raises(UserError, match="not a SentencePiece model"):
        SentencePieceTokenizer(damage(tokenizer.to_bytes()))


def test_a_model_with_other_special_ids_is_refused(pairs):
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([source for source, _ in pairs]),
        model_writer=model,
        vocab_size=50,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    with pytest.raises(UserError, match=r"\(-1, 0, 1, 2\), not at \(0, 1, 2, 3\)"):
        SentencePieceTokenizer(model.getvalue())


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_real_sentences(shared_data, kind):
    def lines(name: str) -> list[str]:
        return (shared_data / "multi30k" / name).read_text(encoding="utf-8").split("\n")[:300]

    tokenizer = train_tokenizers(zip(lines("val.en"), lines("val.de"), strict=True), kind, 1000).target
    texts = lines("test_2016_flickr.de")
    assert tokenizer.vocab_size == 1000
    assert round_trip(tokenizer, texts) == [" ".join(text.split()) for text in texts]


def test_piece_texts_are_the_pieces(tokenizer):
    ids = tf.constant([range(tokenizer.vocab_size)] * 2)
    names = [name.decode() for name in tokenizer.piece_texts(ids).numpy()[1]]
    assert names == ["", *tokenizer.pieces(range(1, tokenizer.vocab_size))]
    assert tokenizer.piece_texts(tf.zeros([3, 0], tf.int32)).shape == (3, 0)


@pytest.mark.parametrize(
    "text",
    [
        "The girl sees a house.",
        "  two \t blanks\u00a0강 and\u3000more\n",
        "",
        " ",
        "강아지",
        "a b",
    ],
    ids=ascii,
)
def test_words_are_what_blanks_part(tokenizer, text):
    words, places = tokenizer.words(tf.constant([text, "one more text"]))
    expected = text.split()
    assert [word.decode() for word in words[0].numpy()] == expected
    tokens = tokenizer.tokenize([text]).to_list()[0]
    of_word = places.numpy()[0].tolist()[: len(tokens)]
    assert places.dtype == tf.int32
    # The tokens of each word make the word.
    for place, word in enumerate(expected):
        own = [token for token, other in zip(tokens, of_word, strict=True) if other == place]
        assert tokenizer.detokenize([own]).numpy()[0].decode() == word
    assert of_word == sorted(of_word)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=4))
@example(["a\u00b4b", "\u00a8 \u2581x", "x\x00 y\x85z", "\u037a"])  # blanks that only the normal form has
@example(["a\u00b4b \u00b4 The girl", "a \x01 The\x0b \ufffd girl"])  # words of two and of none
def test_every_token_is_of_the_word_that_it_is_made_of(tokenizer, normalizer, texts):
    words, places = tokenizer.words(tf.constant(texts))
    lengths = [len(tokens) for tokens in tokenizer.tokenize(texts).to_list()]
    assert places.shape == (len(texts), max(lengths))
    for row, length, count in zip(places.numpy(), lengths, words.row_lengths().numpy(), strict=True):
        assert (row[:length] < max(count, 1)).all() and (row >= 0).all()
        assert (np.diff(row[:length]) >= 0).all()
    for text, row, own_words in zip(texts, places.numpy(), words.to_list(), strict=True):
        tokens = tokenizer.tokenize([text]).to_list()[0]
        of_words = [
            [token for token, other in zip(tokens, row, strict=False) if other == place]
            for place in range(len(own_words))
        ]
        made = tokenizer.detokenize(tf.ragged.constant(of_words, tf.int32, ragged_rank=1)).numpy()
        assert [word.decode() for word in made] == [normalizer.normalize(word.decode()) for word in own_words]


@pytest.mark.parametrize("blank", "\u061c\u200b\u200c\u200e\u200f\u2581\ufeff\ufffd", ids=ascii)
def test_what_the_normal_form_makes_a_blank_parts_words(tokenizer, blank):
    words, places = tokenizer.words(tf.constant([f"a girl{blank}sees a house"]))
    assert words.to_list()[0] == b"a girl sees a house".split()
    assert places.numpy().max() == 4


@pytest.mark.thorough
@NEEDS_MALLINFO
def test_a_tokenizer_that_is_gone_gives_its_memory_back(joint_pairs):
    """A model of 10,000 pieces takes 1.3 MiB: 0.4 as bytes, 0.9 as TensorFlow Text's op has it."""
    model = ModelProto.FromString(joint_pairs["bpe"].source.to_bytes())
    words = ("".join(letters) for letters in product(ascii_lowercase, repeat=4))
    for word in itertools.islice(words, 10_000 - len(model.pieces)):
        model.pieces.add(piece=f"▁{word}", score=-100.0)

    def after_ten(first):
        for number in range(first, first + 10):
            model.pieces[-1].piece = f"▁{number}"  # a model of its own, or else all could be one
            other = SentencePieceTokenizer(model.SerializeToString())
            ids = other.tokenize(["zzzz"])
            other.detokenize(ids), other.piece_texts(ids.to_tensor())
        assert other.vocab_size == 10_000
        del other
        gc.collect()
        return memory_in_use() / 2**20

    before, *_, after = [after_ten(first) for first in range(0, 60, 10)]
    assert after - before < 10


def test_words_are_utf8_whatever_the_text_is(tokenizer):
    words, places = tokenizer.words(tf.constant([b"a\xff b\xed\xa0\x80 \xe2\x82 The"]))
    assert len([word.decode() for word in words[0].numpy()]) == 4
    assert words[0].numpy()[-1] == b"The"
    assert places.numpy()[0, -1] == 3


def test_unknown_tokens_give_way_to_words(tokenizer):
    dog, ends = (tokenizer.tokenize([text]).to_list()[0] for text in ("The girl", "today."))
    ids = tf.ragged.constant([[1, *dog], [*dog, 1, *ends, 3], [1, 1], [*dog, 3], [], [*dog, 1, 3, 0]]).to_tensor()
    words = tf.strings.join(["w", tf.strings.as_string(tf.range(ids.shape[1]))])
    words = tf.tile(words[None], [ids.shape[0], 1])
    joined = [text.decode() for text in tokenizer.detokenize_with(ids, words).numpy()]
    n = len(dog)
    assert joined == ["w0 The girl", f"The girl w{n} today.", "w0 w1", "The girl", "", f"The girl w{n}"]


def test_what_looks_like_an_unknown_token_is_left_alone(tokenizer):
    """The bytes of U+2047, by which SentencePiece shows an unknown token."""
    mark = [4 + byte for byte in "⁇".encode()]
    text = tokenizer.detokenize_with(tf.constant([[*mark, 1, *mark, 3]]), tf.constant([["word"] * 8]))
    assert text.numpy()[0].decode() == "⁇ word ⁇"
