import math
from dataclasses import FrozenInstanceError, asdict

import pytest

from tf_transformer.decoding import DecodingOptions
from tf_transformer.errors import UserError


def test_the_defaults_are_the_paper_s():
    options = DecodingOptions()
    assert (options.beam_size, options.alpha, options.extra_length) == (4, 0.6, 50)
    assert (options.temperature, options.num_hypotheses, options.max_length) == (0, 1, None)
    with pytest.raises(FrozenInstanceError):
        options.beam_size = 5


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("beam_size", 0, 1),
        ("alpha", -0.1, 0),
        ("alpha", math.nan, 0),
        ("num_hypotheses", 0, 1),
        ("min_length", 0, 1),
        ("extra_length", -1, 0),
        ("max_length", 0, 1),
        ("temperature", -1.0, 0),
        ("temperature", math.nan, 0),
        ("top_k", -1, 0),
        ("seed", -1, 0),
    ],
)
def test_a_value_below_the_least_is_refused_and_the_least_is_not(name, value, least):
    with pytest.raises(UserError) as raised:
        DecodingOptions(**{name: value})
    assert str(raised.value) == f"{name} is {value}; it must be at least {least}"
    assert asdict(DecodingOptions(**{name: least}))[name] == least


@pytest.mark.parametrize("name", ["alpha", "temperature"])
def test_what_has_no_end_is_refused(name):
    with pytest.raises(UserError) as raised:
        DecodingOptions(**{name: math.inf})
    assert str(raised.value) == f"{name} is inf; it must be finite"


@pytest.mark.parametrize("top_p", [0, -0.5, 1.01, math.nan])
def test_a_nucleus_of_nothing_or_of_more_than_all_is_refused(top_p):
    with pytest.raises(UserError) as raised:
        DecodingOptions(top_p=top_p)
    assert str(raised.value) == f"top_p is {top_p}; it must be above 0 and at most 1"


def test_as_many_hypotheses_as_beams_but_for_those_that_are_drawn():
    assert DecodingOptions(beam_size=4, num_hypotheses=4).num_hypotheses == 4
    assert DecodingOptions(beam_size=4, num_hypotheses=9, temperature=1).num_hypotheses == 9
    with pytest.raises(UserError) as raised:
        DecodingOptions(beam_size=4, num_hypotheses=5)
    assert str(raised.value) == (
        "num_hypotheses is 5; it must be at most beam_size, 4, or give a temperature to draw as many as you like"
    )


def test_the_longest_is_not_below_the_shortest():
    assert DecodingOptions(min_length=7, max_length=7).max_length == 7
    with pytest.raises(UserError) as raised:
        DecodingOptions(min_length=7, max_length=6)
    assert str(raised.value) == "max_length is 6; it must be at least min_length, 7"
