"""What commands print for programs is JSON that strict readers take."""

import contextlib
import io
import json

import hypothesis.strategies as st
from hypothesis import given

from tf_transformer.terminal.json_output import print_json

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
