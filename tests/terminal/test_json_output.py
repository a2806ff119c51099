"""What commands print for programs is JSON that strict readers take."""

import contextlib
import io
import json

import hypothesis.strategies as st
from hypothesis import given

from tf_transformer.terminal.json_output import print_json
from tf_transformer.terminal.lines import paragraph_line, translation_line
from tf_transformer.translation.paragraphs import Paragraph
from tf_transformer.translation.texts import Translation

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=8,
)


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


@given(content=VALUES)
def test_what_json_lacks_is_null_and_all_else_is_kept(content):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_json(content)
    expected = json.loads(json.dumps(content), parse_constant=lambda constant: None)
    assert json.loads(out.getvalue(), parse_constant=refuse) == expected


def test_of_a_path_that_is_not_utf_8_the_bytes_come_back(capsysbinary):
    content = {"größe": "T\udcfcr.en"}
    print_json(content)
    printed = capsysbinary.readouterr().out.decode("utf-8")
    assert json.loads(printed) == content and "größe" in printed


def test_a_score_that_is_no_number_is_null():
    found = Translation("Ein Hund.", float("nan"), False, (("Ein", -float("inf")),))
    line = json.loads(translation_line(1, found, as_json=True, nbest=True), parse_constant=refuse)
    assert [line["score"], *(each["score"] for each in line["nbest"])] == [None] * 3
    paragraph = Paragraph("Ein Hund.", ["A dog."], [found])
    (sentence,) = json.loads(paragraph_line(paragraph, as_json=True), parse_constant=refuse)["sentences"]
    assert sentence == {"source": "A dog.", "translation": "Ein Hund.", "score": None, "truncated": False}
