"""Where tokens stand in a text, of real tokenizers."""

import random
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eager import eagerly
from tests.tiny_run import PAIRS
from tf_transformer.tokenizers import train_tokenizers
from tf_transformer.tokenizers.spans import token_spans, words_of_tokens

TEXTS = [
    "A man sees a house.",
    "  Our   dog\tloves\n the green apple…",
    "日本語の文です。A man!",
    "强 🐕 dog 🐕‍🦺 naïve café",
    "ﬁne ½ Ⅷ",
    "اللغة العربية",
    "",
]


@pytest.fixture(scope="module")
def tokenizers():
    sizes = {"bpe": 320, "wordpiece": 90}
    return {kind: train_tokenizers(PAIRS, kind=kind, vocab_size=size).source for kind, size in sizes.items()}


def units(text):
    """The text as JavaScript counts it."""
    encoded = text.encode("utf-16-le")
    return lambda span: encoded[2 * span[0] : 2 * span[1]].decode("utf-16-le")


def letters(text):
    return "".join(unicodedata.normalize("NFKC", text).split())


@pytest.mark.parametrize("text", TEXTS)
def test_sentencepiece_s_tokens_are_their_own_characters(tokenizers, text):
    tokenizer = tokenizers["bpe"]
    with eagerly():
        ids = tokenizer.tokenize([text]).to_list()[0]
    tokens = tokenizer.pieces([*ids, 3])
    spans, at = token_spans(tokens, text), units(text)
    assert spans[-1] is None
    covered = set()
    for token, span in zip(tokens[:-1], spans, strict=False):
        if token == "▁":
            continue
        covered |= set(range(*span))
        if not token.startswith("<0x"):
            # A character such as "½" is several of the normal form, which may be several tokens'.
            assert letters(token.replace("▁", "")) in letters(at(span))
    # Each letter or digit is of some token.
    place = 0
    for character in text:
        width = len(character.encode("utf-16-le")) // 2
        assert not character.isalnum() or covered >= set(range(place, place + width)), character
        place += width


def test_words_and_bytes_one_by_one():
    assert token_spans(["▁A", "▁do", "g", ".", "</s>"], "A dog.") == [(0, 1), (2, 4), (4, 5), (5, 6), None]
    # Four bytes of one character, which is two units.
    spelled = ["▁a", "▁", "<0xF0>", "<0x9F>", "<0x90>", "<0x95>", "<0xC3>", "<0xA9>"]
    assert token_spans(spelled, "a 🐕é") == [(0, 1), None, (2, 4), (2, 4), (2, 4), (2, 4), (4, 5), (4, 5)]
    # What is unknown is what stands between what is known.
    assert token_spans(["a", "[UNK]", "dog", "##s", "."], "a 강아지 dogs .") == [
        (0, 1),
        (2, 5),
        (6, 9),
        (9, 10),
        (11, 12),
    ]
    assert token_spans(["a", "##"], "a ##") == [(0, 1), (2, 4)]
    assert token_spans(["▁…"], "...") == [(0, 3)]


@pytest.mark.parametrize(
    "text",
    ["개가 공원에서 빨리 달린다", "Tiếng Việt rất đẹp", "ｶﾞｷﾞ ﾊﾟ", "que\u0301 a\u0316\u0301 कि क\u093c"],
    ids=["Korean", "Vietnamese", "half width", "order"],
)
def test_letters_in_parts_are_those_of_their_tokens(text):
    text = f"… {unicodedata.normalize('NFD', text)}"
    tokens = [f"▁{unicodedata.normalize('NFKC', word)}" for word in text.split()]
    assert words_of_tokens([*tokens, "</s>"], text) == [*(range(i, i + 1) for i in range(len(tokens))), range(0)]
    at = units(text)
    assert [at(span) for span in token_spans(tokens, text)] == text.split()


def test_every_character_that_can_be_in_parts():
    letters = [letter for letter in map(chr, range(0x30000)) if unicodedata.is_normalized("NFKC", letter)]
    letters = [letter for letter in letters if not unicodedata.is_normalized("NFD", letter)]
    assert len(letters) > 12_000
    # A part may be a mark that needs a letter before it.
    text = unicodedata.normalize("NFD", " ".join(f"क{letter}" for letter in letters))
    words = words_of_tokens([f"▁क{letter}" for letter in letters], text)
    assert words == [range(i, i + 1) for i in range(len(letters))]


def test_wordpiece_s_tokens(tokenizers):
    tokenizer, text = tokenizers["wordpiece"], "Our dog  sees the   green house."
    with eagerly():
        tokens = tokenizer.pieces(tokenizer.tokenize([text]).to_list()[0])
    spans, at = token_spans(tokens, text), units(text)
    assert [at(span) for span in spans] == [token.removeprefix("##") for token in tokens]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30), st.lists(st.text(max_size=6), max_size=12))
def test_any_tokens_of_any_text_stand_within_it(text, tokens):
    length = len(text.encode("utf-16-le", "surrogatepass")) // 2
    for span in token_spans(tokens, text):
        assert span is None or 0 <= span[0] < span[1] <= length


@pytest.mark.parametrize("unknown", [(), (3,), range(3, 200, 20)], ids=["none", "one", "ten"])
def test_the_tokens_of_a_long_line_that_was_cut(unknown):
    letters = random.Random(0)
    words = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(2_000)]
    tokens = ["[UNK]" if number in unknown else f"▁{word}" for number, word in enumerate(words[:200])]
    assert token_spans(tokens, " ".join(words)) == [(8 * number, 8 * number + 7) for number in range(200)]


@pytest.mark.parametrize(
    ("tokens", "text", "first"),
    [
        (["▁aaaa"] * 2_000, "a" * 20_000, [(0, 4), (4, 8)]),
        (["▁aaaa"] * 2_000, "a" * 7_999 + "b", [(0, 4), (4, 8)]),
        (["▁ab", "[UNK]"] * 500, "ab\u0378 " * 5_000, [(0, 2)]),
        (["▁abd", "▁deg"] * 600, "abc def " * 600, []),
        (["▁aX"] * 500, "a" * 1_000, []),
        (["▁a"], "a" + "\u0301\u0316" * 50_000, []),
    ],
    ids=["cut", "last letter", "unknown", "likeness", "every other", "marks"],
)
def test_a_hostile_text_takes_seconds_at_most(tokens, text, first):
    began = time.thread_time()
    spans = token_spans(tokens, text)
    assert time.thread_time() - began < 5
    assert spans[: len(first)] == first and all(0 <= start < end <= len(text) for start, end in spans)
