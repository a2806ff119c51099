"""Long texts: where sentences end, that nothing between them is lost, and that translations take their places."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tf_transformer.errors import UserError
from tf_transformer.protection.glossary import Glossary
from tf_transformer.translation.paragraphs import (
    _needs_no_blank,
    join_sentences,
    split_sentences,
    split_text,
    translate_paragraphs,
)
from tf_transformer.translation.texts import Translation

# By hand: a bar stands where a sentence ends.
MARKED = [
    ("en", "Dr. Smith met Mr. Jones at 3.5 p.m. in the U.S.| He left."),
    ("en", "It weighs 3.5 kg.| That is a lot."),
    ("en", "She lives in the U.S. Army base near Washington D.C. with J. R. Smith."),
    ("en", '"Stop!" he said.| "Why?" she asked.'),
    ("en", 'He said: "I am here. You are not."| Then he left.'),
    ("en", "See https://example.com/a.b?c=d.| It is good!"),
    ("en", "Well ... I do not know...| Maybe.| Yes…"),
    ("en", "Use e.g. a hammer, i.e. a tool, etc. and go on.| Fig. 3 shows it (cf. No. 5).| Done?!| Yes."),
    ("en", "A man rides a bike.| a dog runs.| the end"),
    ("en", "Version 2.0.1 is out.| It runs."),
    ("en", "Mrs. Brown (b. 1950) died on Jan. 5 at St. Mary's.| She was 70."),
    ("de", "Dr. Müller kommt am 3. Mai, z. B. um 10 Uhr.| Er bringt 3,5 kg Obst mit."),
    ("de", "Das gilt u. a. für Prof. Dr. Meier, d. h. für alle.| Vgl. Nr. 5 bzw. Abs. 2."),
    ("de", "Am 24. Dezember ist der 1. Feiertag nicht.| Die 2. Auflage kommt."),
    ("de", "„Komm her!“, rief sie.| „Warum?“"),
    ("de", "Er lebte im 19. Jahrhundert.| Ludwig XIV. war König.| Das war's."),
    ("de", "Das kostet ca. 5 Mio. Euro usw. und mehr.| Gut?"),
    ("es", "¿Cómo estás?| ¡Muy bien!| El Sr. López llegó."),
    ("zh", "今天天气很好。|我们去公园吧！|你来吗？"),
    ("ja", "今日は天気がいい。|行こう！|本当？"),
    ("ar", "هل أنت بخير؟| نعم.| شكرا!"),
    ("hi", "यह एक वाक्य है।| यह दूसरा है।"),
]

LINE_BREAKS = ["\n", "\r\n", "\r", "\n\n\n", "\v", "\f", "\x85", "\u2028", "\u2029"]
BLANKS = [" ", "   ", "\t", "\u00a0", "\u202f", "\u3000", "\u200b", "\u2060", "\ufeff", " \u200b\u00a0"]

# What splitters stumble over, and any character at all, halves of surrogate pairs included.
TEXTS = st.lists(
    st.sampled_from([*LINE_BREAKS, *BLANKS, *" ab.!?1\"'„“”«»()[]-*•…。！？「」؟۔।", "Dr.", "z.", "\ud800", "é", "😀"])
    | st.characters(),
    max_size=40,
).map("".join)
LANGUAGES = st.sampled_from([None, "", "en", "de", "de-AT", "fr", "ru", "zh", "ja", "ar", "hi", "xx"])


def sentences(text, language="en"):
    return split_sentences(text, language)[1::2]


@pytest.mark.parametrize("mark", ["⟦Dr. Smith|Dr. Schmidt⟧", "⟦for example|z. B.⟧", "⟦Yahoo! Mail⟧", "⟦approx.|ca.⟧"])
def test_what_is_marked_for_protect_is_not_parted(mark):
    assert sentences(f"This is {mark} here. It runs.") == [f"This is {mark} here.", "It runs."]


@pytest.mark.parametrize(("language", "marked"), MARKED)
def test_where_sentences_end(language, marked):
    expected = [sentence.strip() for sentence in marked.split("|")]
    assert sentences(marked.replace("|", ""), language) == expected


@pytest.mark.parametrize("language", ["de", "DE", "de-AT", "de_CH", "deu", "ger"])
def test_a_region_or_capitals_do_not_change_the_language(language):
    assert sentences("Er kommt z. B. am 3. Mai. Gut.", language) == ["Er kommt z. B. am 3. Mai.", "Gut."]


def test_a_language_that_is_not_known_is_split_as_english():
    text = "Mrs. Li came. She left."
    assert sentences(text, None) == sentences(text, "xx") == ["Mrs. Li came.", "She left."]


@pytest.mark.parametrize("line_break", LINE_BREAKS)
def test_a_line_break_ends_a_sentence_and_stays(line_break):
    assert split_sentences(f"A man and{line_break}a dog") == ["", "A man and", line_break, "a dog", ""]


@pytest.mark.parametrize("blank", BLANKS)
def test_blanks_stay_outside_of_sentences(blank):
    text = f"{blank}A man. {blank}A dog.{blank}"
    assert split_sentences(text) == [blank, "A man.", f" {blank}", "A dog.", blank]


def test_blanks_within_a_sentence_stay_in_it():
    text = "Dr.\u00a0Li weighs 80\u202fkg.\tShe has 1\u200b000 books."
    assert sentences(text) == ["Dr.\u00a0Li weighs 80\u202fkg.", "She has 1\u200b000 books."]


@pytest.mark.parametrize("text", ["", " \n\t", "-----", "_____", "***\r\n", "…", "😀 👍🏽"])
def test_what_has_no_letter_and_no_digit_is_no_sentence(text):
    assert split_sentences(text) == [text]


def test_such_pieces_stand_between_sentences():
    assert split_sentences("Title\n=====\n\nA man.") == ["", "Title", "\n=====\n\n", "A man.", ""]


@given(TEXTS, LANGUAGES)
@example("S\xa0.", "en")  # sentencex 1.0.32 fails on it
@example("D\u2028.", "en")
@example("1. 2. 3.", "de")
def test_pieces_are_the_text(text, language):
    pieces = split_sentences(text, language)
    assert len(pieces) % 2 == 1
    assert "".join(pieces) == text
    # A space may come where sentences follow each other without a blank, and nowhere else.
    same = "".join(re.escape(piece) if piece else " ?" for piece in pieces)
    assert re.fullmatch(same, join_sentences(pieces, pieces[1::2]))
    for sentence in pieces[1::2]:
        assert sentence == sentence.strip() and len(sentence.splitlines()) == 1 and re.search(r"[^\W_]", sentence)


@given(TEXTS)
def test_what_stands_between_is_kept_whatever_the_translations_are(text):
    pieces = split_sentences(text)
    # A private character at each side; a full stop, after which Chinese needs no space.
    joined = join_sentences(pieces, [f"\uf8fe{number}\uf8ff。" for number in range(len(pieces) // 2)])
    assert re.split("\uf8fe\\d+\uf8ff。", joined) == pieces[::2]


def test_a_line_of_many_sentences():
    expected = [f"Dr. Smith has {number} dogs and Mrs. Li has none." for number in range(2_000)]
    assert split_sentences("  ".join(expected))[1::2] == expected


@pytest.mark.parametrize("end", ["", ". Then he left."])
def test_a_sentence_is_not_cut_however_long_it_is(end):
    long = "He saw " + ", ".join(f"a house of {number} rooms" for number in range(1_000))
    assert sentences(f"A man came. {long}{end}")[:2] == ["A man came.", long + end[:1]]


@pytest.mark.parametrize(
    "text",
    [
        "„" * 300_000 + "a",  # unclosed quotes, for which the library's time grows with the square of their number
        "a" + " \u200b" * 40_000 + "b",  # blanks inside of a sentence
    ],
    ids=["quotes", "blanks"],
)
def test_a_hostile_text_takes_seconds_at_most(text):
    began = time.thread_time()
    assert "".join(split_sentences(text, "de")) == text
    assert time.thread_time() - began < 20  # the library alone: more than 40


def test_joining():
    pieces = [" ", "A man.", "\r\n\t", "A dog.", "\u00a0", "A cat.", "\n"]
    assert join_sentences(pieces, ["Ein Mann.", "", "Eine\nKatze."]) == " Ein Mann.\r\n\t\u00a0Eine Katze.\n"
    for wrong in (["Ein Mann."], ["a", "b", "c", "d"]):
        with pytest.raises(ValueError):
            join_sentences(pieces, wrong)


def test_a_space_comes_between_sentences_of_a_script_without_spaces():
    pieces = split_sentences("他来了。再见！\n谢谢。", "zh")
    assert join_sentences(pieces, ["He came.", "Goodbye!", "Thanks."]) == "He came. Goodbye!\nThanks."
    assert join_sentences(pieces, ["来た。", "さようなら！", "ありがとう。"]) == "来た。さようなら！\nありがとう。"


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("zh", "他说：“你好。”她走了。再见！", "S0. S1. S2."),
        ("ja", "「こんにちは。」彼は言った。「はい。」さようなら。", "S0. S1. S2. S3."),
        ("zh", "你好…再见。走吧?好!行", "S0. S1. S2. S3."),
        ("zh", "他说OK!我走了。", "S0. S1."),
        ("my", "သူလာသည်။သူသွားသည်။", "S0. S1."),
        ("hi", "यह एक वाक्य है।यह दूसरा है।", "S0. S1."),
    ],
)
def test_so_it_does_behind_quotes_and_marks_of_half_width(language, text, expected):
    pieces = split_sentences(text, language)
    number = len(pieces) // 2
    assert join_sentences(pieces, [f"S{i}." for i in range(number)]) == expected
    assert join_sentences(pieces, ["好！”"] * number) == "好！”" * number


def test_none_comes_into_a_name_that_was_split():
    pieces = split_sentences("He uses ASP.NET here. So do I.", "en")
    assert pieces[1::2] == ["He uses ASP.", "NET here.", "So do I."]
    assert join_sentences(pieces, ["Er nutzt ASP.", "NET hier.", "Ich auch."]) == "Er nutzt ASP.NET hier. Ich auch."


def test_none_comes_behind_a_mark_of_repetition():
    assert join_sentences(["", "Some.", "", "再见。", ""], ["人々", "再见。"]) == "人々再见。"


@given(st.text("。！・あ文a .?»\n゛々", max_size=8))
def test_what_needs_no_blank(text):
    pattern = r"[。！？．｡\u3005-\u3007\u3040-\u30ff\u3400-\u9fff][^\w\s]*\Z"
    assert _needs_no_blank(text) == bool(re.search(pattern, text))


def test_hostile_sentences_are_joined_at_once():
    pieces = ["", "・" * 20_000 + "A.", "", "B is.", ""]
    began = time.thread_time()
    assert join_sentences(pieces, pieces[1::2]) == "".join(pieces)
    assert time.thread_time() - began < 1


def test_all_sentences_are_translated_together():
    asked = []

    def translate(given_sentences):
        asked.append(given_sentences)
        return (Translation(s.upper(), -1.0, s == "Three.") for s in given_sentences)

    texts = ["One.\tTwo.", "", "\n", "Three.\nfour", "five "]
    paragraphs = list(translate_paragraphs(translate, texts, "en"))
    assert asked == [["One.", "Two.", "Three.", "four", "five"]]
    assert [p.text for p in paragraphs] == [text.upper() for text in texts]
    assert [p.truncated for p in paragraphs] == [False, False, False, True, False]
    assert [p.sources for p in paragraphs] == [["One.", "Two."], [], [], ["Three.", "four"], ["five"]]
    assert [s.text for s in paragraphs[0].sentences] == ["ONE.", "TWO."]


TAGS = [">>deu<<", ">>nld<<"]


@pytest.mark.parametrize(
    ("text", "pieces", "read"),
    [
        (
            ">>deu<< A man. A dog.\nIt runs.",
            ["", "A man.", " ", "A dog.", "\n", "It runs.", ""],
            [">>deu<< A man.", ">>deu<< A dog.", ">>deu<< It runs."],
        ),
        # All of them, with whatever is between them, on a line of their own too.
        (">>deu<<>>nld<<\n--\nA man.\n", ["--\n", "A man.", "\n"], [">>deu<<>>nld<< A man."]),
        ("\t>>deu<<A man. A dog.", ["\t", "A man.", " ", "A dog.", ""], [">>deu<< A man.", ">>deu<< A dog."]),
        # A sentence may have another.
        (
            ">>deu<< A man.\n>>nld<< A dog.\nIt runs.",
            ["", "A man.", "\n", ">>nld<< A dog.", "\n", "It runs.", ""],
            [">>deu<< A man.", ">>nld<< A dog.", ">>deu<< It runs."],
        ),
        # What the vocabulary does not have is text, and so is what does not lead.
        (">>fra<< A man. A dog.", ["", ">>fra<< A man.", " ", "A dog.", ""], [">>fra<< A man.", "A dog."]),
        ("A man >>deu<< so. A dog.", ["", "A man >>deu<< so.", " ", "A dog.", ""], ["A man >>deu<< so.", "A dog."]),
        # Nothing but tags.
        (">>deu<< ", [""], []),
    ],
)
def test_each_sentence_is_read_with_the_tags_of_its_text(text, pieces, read):
    split = split_text(text, "en", tags=TAGS)
    assert (split.pieces, split.read) == (pieces, read)


@given(text=TEXTS, blank=st.sampled_from(BLANKS + LINE_BREAKS), language=LANGUAGES)
def test_behind_a_tag_a_text_is_split_as_without(text, blank, language):
    split = split_text(f">>deu<<{blank}{text}", language, tags=TAGS)
    plain = split_sentences(re.sub(r"\A[\s\u200b\u2060\ufeff]+", "", text), language)
    assert split.length + len("".join(split.pieces)) == len(f">>deu<<{blank}{text}")
    assert split.read == [f">>deu<< {sentence}" for sentence in split.pieces[1::2]]
    assert split.pieces[1::2] == plain[1::2]


def test_to_a_model_without_tags_they_are_text():
    text = ">>deu<< A man. A dog."
    split = split_text(text, "en")
    assert split.pieces == split_sentences(text, "en")
    assert split.read == split.pieces[1::2] and "".join(split.pieces) == text


def test_the_tags_are_in_no_translation():
    asked = []

    def translate(given_sentences):
        asked.extend(given_sentences)
        return [Translation(each.removeprefix(">>deu<< ").upper(), -1.0, False) for each in given_sentences]

    (first, second) = translate_paragraphs(translate, [">>deu<< One. Two.", "Three."], "en", tags=TAGS)
    assert asked == [">>deu<< One.", ">>deu<< Two.", "Three."]
    assert (first.text, first.sources, second.text) == ("ONE. TWO.", ["One.", "Two."], "THREE.")


def test_no_sentence_ends_in_a_term_of_a_glossary():
    glossary = Glossary(dict.fromkeys(["Who Cares?", "who cares? tour", "Jeopardy! Night", "a. b"], "-"))
    text = "Who Cares? He saw the Who Cares? Tour. It was Jeopardy! Night. Jeopardy! Ends a.\u2028b."
    sentences = ["Who Cares?", "He saw the Who Cares? Tour.", "It was Jeopardy! Night.", "Jeopardy!", "Ends a.", "b."]
    assert split_sentences(text, "en", glossary)[1::2] == sentences
    assert "".join(split_sentences(text, "en", glossary)) == text


def test_one_string_for_a_list_is_refused():
    with pytest.raises(UserError, match="texts is one string"):
        list(translate_paragraphs(lambda sentences: [], "One. Two."))
