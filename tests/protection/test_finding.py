"""Terms and protected spans are found in one pass, as by one regular expression of all kinds."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tf_transformer.protection.finding import Finder
from tf_transformer.protection.patterns import EMOJI, KEPT, QUANTITY, WORD_WITH_DIGIT

TERMS = r"(?<!\w)(?:1|MP3|5 km|m|dog|x\.org|b@|a)(?!\w)|狗"
FINDER = Finder(TERMS)

PIECES = [*"0159 .,:'-+_@ab%$€°狗é\u00a0\ufe0f\u20e3😀{}<>⟦⟧&;/|", "km", "m", "MP3", "dog", "x.org", "a@b.org", "000"]
PIECES += ["{n}", "<b>", "&lt;", "%s", "https://", "www.", "⟦a|b⟧", " km", "1,", "1.", "_a"]


def plainly(text):
    """All kinds at each place, the first that fits; of a long number the rest is read again at each of its digits."""
    kinds = re.compile(f"{KEPT}|{QUANTITY}|{EMOJI}|(?P<term>{TERMS})|{WORD_WITH_DIGIT}")
    return [(found.span(), found.lastgroup) for found in kinds.finditer(text)]


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
@example("F16,5 km 1,5 000 km, 1,1,1 km and 12 0000 km")
@example("_a1b@x.org, 1.a.b@x.org, xhttps://x.org, 5.5.5@x.org")
@example("1,1\ufe0f\u20e3 $1,1 -1,1 dog")
def test_it_finds_what_one_regular_expression_finds(text):
    assert [(found.span(), found.lastgroup) for found in FINDER.find(text)] == plainly(text)


@pytest.mark.parametrize(
    "piece", ["1,", "1.", "1", "111 ", "a", "_", "a.", "a@", "1 km,", "{a", "<a", "www.", "⟦", "狗"]
)
def test_long_texts_take_no_longer_than_they_are(piece):
    text = f"5 km {piece * (20_000 // len(piece))} dog"
    began = time.thread_time()
    found = list(FINDER.find(text))
    assert time.thread_time() - began < 1
    assert (found[0][0], found[-1][0]) == ("5 km", "dog")
