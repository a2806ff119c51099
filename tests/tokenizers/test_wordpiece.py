"""WordPiece, against a plain Python reading of its definition."""

import unicodedata

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tf_transformer.errors import UserError
from tf_transformer.tokenizers import WordPieceTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[START]", "[END]"]
VOCABULARY = [
    *SPECIAL,
    "Ü",
    "##ber",
    "##b",
    "dog",
    "##s",
    "d",
    "##o",
    "##g",
    ".",
    ",",
    "Äpfel",
    "#",
    "[",
    "]",
]


@pytest.fixture(scope="module")
def tokenizer(joint_pairs) -> WordPieceTokenizer:
    return joint_pairs["wordpiece"].source


def split_words(text: str) -> list[str]:
    """The reference for words: blanks and controls part them; marks, symbols and ideographs stand alone."""
    spaced = ""
    for character in unicodedata.normalize("NFC", text):
        category = unicodedata.category(character)
        if category[0] in "PS" or "\u4e00" <= character <= "\u9fff":
            spaced += f" {character} "
        else:
            spaced += " " if category[0] == "Z" or category == "Cc" else character
    return [word for word in spaced.split(" ") if word]


def split_pieces(word: str, vocabulary: set[str]) -> list[str]:
    """The reference for pieces: the longest that fits, from the left; unknown if at some place none does."""
    pieces, rest = [], word
    while rest:
        prefix = "##" if pieces else ""
        fitting = [piece for piece in vocabulary if (prefix + rest).startswith(piece) and len(piece) > len(prefix)]
        if not fitting:
            return ["[UNK]"]
        pieces.append(max(fitting, key=len))
        rest = rest[len(pieces[-1]) - len(prefix) :]
    return pieces


def reference(text: str, vocabulary: list[str]) -> list[str]:
    return [piece for word in split_words(text) for piece in split_pieces(word, set(vocabulary))]


def tokenized(tokenizer, text: str) -> list[str]:
    return tokenizer.pieces(tokenizer.tokenize([text]).to_list()[0])


def round_trip(tokenizer, text: str) -> str:
    return tokenizer.detokenize(tokenizer.tokenize([text])).numpy()[0].decode()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Über dogs.", ["Ü", "##ber", "dog", "##s", "."]),
        ("U\u0308ber,dog", ["Ü", "##ber", ",", "dog"]),
        ("über DOGS", ["[UNK]", "[UNK]"]),
        ("dogx dog", ["[UNK]", "dog"]),
        ("[PAD] ##s", ["[", "[UNK]", "]", "#", "#", "[UNK]"]),
        ("dog\x00dog\u00a0dog\u2028dog\x0bdog", ["dog"] * 5),
        ("강아지는 👨‍👩‍👧", ["[UNK]"] * 6),
        ("", []),
        (" \t\n\x00 ", []),
        ("dog" + "og" * 1_000, ["dog", *["##o", "##g"] * 1_000]),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_worked_examples(text, pieces):
    tokenizer = WordPieceTokenizer(VOCABULARY)
    assert reference(text, VOCABULARY) == pieces
    assert tokenized(tokenizer, text) == pieces


def test_known_characters_make_the_round_trip_up_to_blanks(tokenizer, pairs):
    texts = [text for pair in pairs for text in pair]
    joined = [text.decode() for text in tokenizer.detokenize(tokenizer.tokenize(texts)).numpy()]
    assert joined == [" ".join(split_words(text)) for text in texts]
    assert [text.replace(" ", "") for text in joined] == [text.replace(" ", "") for text in texts]
    assert joined[0] == "The girl sees the green apples ."


# The characters of the corpus, blanks of all kinds, and some that are unknown.
@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="TheMädchn.,! güÄpflKartos\u00a0\n\x00漢é강", max_size=30))
@example("x\u0300 \ufeffa a\ufffdb")
def test_pieces_are_those_of_the_definition(tokenizer, text):
    vocabulary = tokenizer.pieces(range(tokenizer.vocab_size))
    expected = reference(text, vocabulary)
    assert tokenized(tokenizer, text) == expected
    if "[UNK]" not in expected:
        assert round_trip(tokenizer, text) == " ".join(split_words(text))


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))  # UTF-8 cannot hold half a character
def test_any_text_can_be_split(tokenizer, text):
    ids = tokenizer.tokenize([text])
    assert ids.dtype == tf.int32
    assert all(0 < i < tokenizer.vocab_size for i in ids.to_list()[0])


def test_ten_thousand_known_characters_in_one_word(tokenizer):
    assert round_trip(tokenizer, "Hund" * 2_500) == "Hund" * 2_500


@pytest.mark.parametrize("text", [b"\xff\xfe", b"dog\xe2\x82 dog", b"\xed\xa0\x80"])
def test_bytes_that_are_not_utf8_are_unknown(text):
    pieces = tokenized(WordPieceTokenizer(VOCABULARY), text)
    assert set(pieces) - {"dog"} == {"[UNK]"}


def test_the_learned_vocabulary_is_whole(tokenizer, pairs):
    vocabulary = tokenizer.pieces(range(tokenizer.vocab_size))
    characters = {character for pair in pairs for text in pair for character in text} - {" "}
    assert vocabulary[:4] == SPECIAL
    assert len(set(vocabulary)) == len(vocabulary)
    assert characters | {"##" + character for character in characters} <= set(vocabulary)


def test_an_id_outside_the_vocabulary_is_an_error(tokenizer):
    for outside in (-1, tokenizer.vocab_size):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tokenizer.detokenize([[outside]])


@pytest.mark.parametrize("data", [b"", b"a\nb\n", b"\xff\xfe", "\n".join([*SPECIAL, "a", "a"]).encode()])
def test_a_file_that_is_no_vocabulary_is_refused(data):
    with pytest.raises(UserError, match="WordPiece vocabulary"):
        WordPieceTokenizer.from_bytes(data)


def test_a_piece_may_hold_what_python_takes_for_a_line_end():
    vocabulary = [*SPECIAL, "a\x1cb", "c\u2028"]
    tokenizer = WordPieceTokenizer.from_bytes(WordPieceTokenizer(vocabulary).to_bytes())
    assert tokenizer.pieces(range(6)) == vocabulary


def test_piece_texts_are_the_pieces():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    ids = tf.constant([range(len(VOCABULARY))] * 2)
    assert [name.decode() for name in tokenizer.piece_texts(ids).numpy()[1]] == ["", *VOCABULARY[1:]]
    assert tokenizer.piece_texts(tf.zeros([3, 0], tf.int32)).shape == (3, 0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(alphabet="dogsÜber.,[ \u00a0\n\x00漢é", max_size=20), min_size=1, max_size=4))
@example(["Überdogs, dogx.", "", "漢字 dog"])
def test_words_are_those_that_were_split(texts):
    tokenizer = WordPieceTokenizer(VOCABULARY)
    words, places = tokenizer.words(tf.constant(texts))
    expected = [split_words(text) for text in texts]
    assert [[word.decode() for word in row] for row in words.to_list()] == expected
    of_tokens = [
        [place for place, word in enumerate(row) for _ in split_pieces(word, set(VOCABULARY))] for row in expected
    ]
    longest = max(map(len, of_tokens))
    assert places.dtype == tf.int32
    assert places.numpy().tolist() == [row + [0] * (longest - len(row)) for row in of_tokens]


def test_unknown_tokens_give_way_to_words():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    dog, ending, stop = (VOCABULARY.index(piece) for piece in ("dog", "##s", "."))
    ids = tf.constant([[1, dog, ending, 3], [dog, 1, stop, 3], [1, 1, 3, 0], [dog, 3, 0, 0], [0, 0, 0, 0]])
    words = tf.constant([["Katze", "b", "c", "d"]] * 5)
    joined = [text.decode() for text in tokenizer.detokenize_with(ids, words).numpy()]
    assert joined == ["Katze dogs", "dog b .", "Katze b", "dog", ""]


def test_a_word_in_an_unknown_token_s_place_stays_as_it_is():
    """Even one that looks like an unknown token, or like a pattern."""
    tokenizer = WordPieceTokenizer(VOCABULARY)
    words = tf.constant([["[UNK]", r"\0 a\1", ""]])
    assert tokenizer.detokenize_with(tf.constant([[1, 1, 1]]), words).numpy()[0] == rb"[UNK] \0 a\1"
