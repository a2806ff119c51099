import json
import math
from dataclasses import FrozenInstanceError, asdict

import numpy as np
import pytest

from tf_transformer.decoding import DecodingOptions, length_penalty
from tf_transformer.decoding.options import RANGES
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
        ("top_p", 0, 1e-6),
        ("top_p", -0.5, 1e-6),
        ("top_p", 1e-50, 1e-6),
        ("top_p", math.nan, 1e-6),
        ("seed", -1, 0),
        ("no_repeat_ngram_size", -1, 0),
    ],
)
def test_a_value_below_the_least_is_refused_and_the_least_is_not(name, value, least):
    with pytest.raises(UserError) as raised:
        DecodingOptions(**{name: value})
    assert str(raised.value) == f"{name} is {value}; it must be at least {least}"
    assert asdict(DecodingOptions(**{name: least}))[name] == least


@pytest.mark.parametrize(
    ("name", "value", "most"),
    [
        ("alpha", math.inf, 10),
        ("alpha", 1000.0, 10),
        ("temperature", math.inf, 1e6),
        ("temperature", 1e39, 1e6),  # in float32 it is infinite
        ("top_p", 1.01, 1),
        ("beam_size", 2**31, 2**31 - 1),
    ],
)
def test_a_value_above_the_most_is_refused_and_the_most_is_not(name, value, most):
    with pytest.raises(UserError) as raised:
        DecodingOptions(**{name: value})
    assert str(raised.value) == f"{name} is {value}; it must be at most {most}"
    assert asdict(DecodingOptions(**{name: most}))[name] == most


def test_a_temperature_that_float32_takes_for_none_is_refused():
    with pytest.raises(UserError) as raised:
        DecodingOptions(temperature=1e-50)
    assert str(raised.value) == "temperature is 1e-50; it must be 0, or at least 1e-06"
    assert DecodingOptions(temperature=1e-6).temperature == 1e-6


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("beam_size", 2.5, "a whole number"),
        ("beam_size", None, "a whole number"),
        ("max_length", "40", "a whole number"),
        ("top_k", True, "a whole number"),
        ("alpha", "0.6", "a number"),
        ("temperature", None, "a number"),
        ("protect", "false", "True or False"),
        ("protect", None, "True or False"),
        ("replace_unknown", 2.5, "True or False"),
        ("replace_unknown", 1, "True or False"),
    ],
)
def test_a_value_of_another_kind_is_refused(name, value, told):
    with pytest.raises(UserError) as raised:
        DecodingOptions(**{name: value})
    assert str(raised.value) == f"{name} is {value!r}; it must be {told}"


def test_what_is_numpy_s_is_python_s():
    options = DecodingOptions(beam_size=np.int64(2), alpha=np.float32(0.5), temperature=1, protect=np.bool_(True))
    assert (options.beam_size, options.alpha) == (2, 0.5)
    assert options.protect is True
    assert DecodingOptions(**json.loads(json.dumps(asdict(options)))) == options


def test_with_the_highest_alpha_scores_are_told_apart():
    """Of 6,000 tokens, the longest that the comment beside it names, and with the smallest step of a float32 at 1."""
    log_probs = np.array([-1e-6, -1.0, np.nextafter(np.float32(-1), np.float32(-2)), -40000.0], "float32")
    scores = log_probs / length_penalty(6000, RANGES["alpha"][1]).numpy()
    assert (scores < -np.finfo("float32").smallest_normal).all() and (np.diff(scores) < 0).all()


def test_an_option_that_is_not_there_is_refused():
    with pytest.raises(UserError, match=r"^unknown option beam; choose from beam_size, alpha, "):
        DecodingOptions().changed(beam=4)
    with pytest.raises(UserError, match=r"^num_hypotheses is '3'; it must be a whole number$"):
        DecodingOptions().changed(num_hypotheses="3")


def test_as_many_hypotheses_as_beams_but_for_those_that_are_drawn():
    assert DecodingOptions(beam_size=4, num_hypotheses=4).num_hypotheses == 4
    assert DecodingOptions(beam_size=4, num_hypotheses=9, temperature=1).num_hypotheses == 9
    with pytest.raises(UserError) as raised:
        DecodingOptions(beam_size=4, num_hypotheses=5)
    assert str(raised.value) == (
        "num_hypotheses is 5; it must be at most beam_size, 4, or give a temperature to sample any number"
    )


def test_the_longest_is_not_below_the_shortest():
    assert DecodingOptions(min_length=7, max_length=7).max_length == 7
    with pytest.raises(UserError) as raised:
        DecodingOptions(min_length=7, max_length=6)
    assert str(raised.value) == "max_length is 6; it must be at least min_length, 7"
