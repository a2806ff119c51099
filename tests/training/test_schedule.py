"""The learning-rate schedules are what their equations say, and the optimizer uses them from step 1 on."""

import json
import math

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer import CosineSchedule, InverseSqrtSchedule, TransformerSchedule


def paper_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """Equation 3; steps count from 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@settings(deadline=None)
@given(
    d_model=st.integers(1, 4096),
    warmup_steps=st.integers(1, 100_000),
    scale=st.floats(1e-3, 1e3),
    step=st.integers(1, 10_000_000),
)
def test_the_rate_is_equation_3(d_model, warmup_steps, scale, step):
    rate = float(TransformerSchedule(d_model, warmup_steps, scale)(step - 1))
    assert rate == pytest.approx(scale * paper_rate(step, d_model, warmup_steps), rel=1e-5)


def test_the_base_model_s_rates():
    """By hand: 512 ** -0.5 / 4000 ** 1.5, the peak (512 * 4000) ** -0.5, and half of it at four times the step."""
    rate = TransformerSchedule(512)
    assert float(rate(0)) == pytest.approx(1.746928e-7, rel=1e-5)
    assert float(rate(3999)) == pytest.approx(6.987712e-4, rel=1e-5)
    assert float(rate(15_999)) == pytest.approx(6.987712e-4 / 2, rel=1e-5)


@pytest.mark.parametrize("warmup_steps", [1, 2, 7, 100])
def test_the_peak_is_at_the_end_of_the_warm_up(warmup_steps):
    rates = np.array(TransformerSchedule(64, warmup_steps)(np.arange(3 * warmup_steps)))
    assert np.argmax(rates) == warmup_steps - 1  # the step counted from 0
    np.testing.assert_allclose(rates[:warmup_steps], rates[0] * np.arange(1, warmup_steps + 1), rtol=1e-5)
    assert (np.diff(rates[warmup_steps - 1 :]) < 0).all()


@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD, keras.optimizers.Adam])
def test_the_optimizer_s_first_step_is_the_paper_s_first(optimizer):
    """Both optimizers move a weight whose gradient stays 1 by exactly the rate."""
    optimizer = optimizer(TransformerSchedule(16, 3, 0.5))
    weight = keras.Variable(np.zeros((), "float32"))
    for step in range(1, 6):
        before = float(weight)
        optimizer.apply([np.ones((), "float32")], [weight])
        assert before - float(weight) == pytest.approx(0.5 * paper_rate(step, 16, 3), rel=1e-4)


# -- The field's ----


@settings(deadline=None)
@given(
    learning_rate=st.floats(1e-6, 10),
    warmup_steps=st.integers(1, 100_000),
    step=st.integers(1, 10_000_000),
)
def test_the_inverse_square_root(learning_rate, warmup_steps, step):
    rate = float(InverseSqrtSchedule(learning_rate, warmup_steps)(step - 1))
    rising = step <= warmup_steps
    expected = step / warmup_steps if rising else math.sqrt(warmup_steps / step)
    assert rate == pytest.approx(learning_rate * expected, rel=1e-5)


def test_the_inverse_square_root_is_the_paper_s_by_another_number():
    peak = (512 * 4000) ** -0.5
    steps = np.array([0, 1999, 3999, 4000, 99_999])
    np.testing.assert_allclose(InverseSqrtSchedule(peak, 4000)(steps), TransformerSchedule(512, 4000)(steps), rtol=1e-5)


@settings(deadline=None)
@given(
    learning_rate=st.floats(1e-6, 10),
    warmup_steps=st.integers(1, 10_000),
    falling_steps=st.integers(1, 100_000),
    step=st.integers(1, 200_000),
)
def test_the_cosine(learning_rate, warmup_steps, falling_steps, step):
    rate = float(CosineSchedule(learning_rate, warmup_steps, warmup_steps + falling_steps)(step - 1))
    if step <= warmup_steps:
        expected = step / warmup_steps
    elif step < warmup_steps + falling_steps:
        # The half angle's: another way to write (1 + cos x) / 2.
        expected = math.cos(math.pi / 2 * (step - warmup_steps) / falling_steps) ** 2
    else:
        expected = 0
    assert rate == pytest.approx(learning_rate * expected, rel=1e-5, abs=1e-6 * learning_rate)


def test_the_cosine_is_at_half_its_height_half_way_and_never_negative():
    rates = np.array(CosineSchedule(0.8, 4, 12)(np.arange(30)))
    np.testing.assert_allclose(rates[[0, 1, 2, 3, 7, 11]], [0.2, 0.4, 0.6, 0.8, 0.4, 0], atol=1e-6)
    assert (np.diff(rates[3:12]) < 0).all()
    assert (rates[11:] == 0).all()


# -- All of them ----


@pytest.mark.parametrize(
    ("schedule", "config"),
    [
        (TransformerSchedule(24, 70, 0.25), {"d_model": 24, "warmup_steps": 70, "scale": 0.25}),
        (InverseSqrtSchedule(0.25, 70), {"learning_rate": 0.25, "warmup_steps": 70}),
        (CosineSchedule(0.25, 70, 400), {"learning_rate": 0.25, "warmup_steps": 70, "steps": 400}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_survives_being_written_down(schedule, config):
    original = keras.optimizers.Adam(schedule)
    written = json.loads(json.dumps(keras.optimizers.serialize(original)))
    copy = keras.optimizers.deserialize(written)._learning_rate
    assert type(copy) is type(schedule)
    assert copy.get_config() == config
    for step in (0, 69, 99, 399):
        assert float(copy(step)) == float(schedule(step))


def test_numbers_of_numpy_s_are_written_down_as_python_s():
    schedule = CosineSchedule(0.25, np.int64(70), np.int32(400))
    written = [json.dumps(each.get_config()) for each in (TransformerSchedule(np.int64(24), np.int32(70)), schedule)]
    assert written == [
        '{"d_model": 24, "warmup_steps": 70, "scale": 1.0}',
        '{"learning_rate": 0.25, "warmup_steps": 70, "steps": 400}',
    ]
    assert json.dumps(InverseSqrtSchedule(0.25, np.int64(70)).get_config()).endswith('"warmup_steps": 70}')


@pytest.mark.parametrize(
    "make",
    [
        lambda w: TransformerSchedule(512, w),
        lambda w: InverseSqrtSchedule(0.1, w),
        lambda w: CosineSchedule(0.1, w, 100),
    ],
    ids=["transformer", "inverse_sqrt", "cosine"],
)
@pytest.mark.parametrize("warmup_steps", [0, -4000])
def test_a_warm_up_must_have_a_step(make, warmup_steps):
    with pytest.raises(ValueError, match=f"warmup_steps must be .*, got {warmup_steps}"):
        make(warmup_steps)


@pytest.mark.parametrize("learning_rate", [0, -0.1, math.nan])
def test_a_peak_must_be_above_0(learning_rate):
    for make in (lambda: InverseSqrtSchedule(learning_rate, 10), lambda: CosineSchedule(learning_rate, 10, 100)):
        with pytest.raises(ValueError, match=f"learning_rate must be above 0, got {learning_rate}"):
            make()


@pytest.mark.parametrize("steps", [10, 3])
def test_a_cosine_must_have_a_step_to_fall_in(steps):
    with pytest.raises(ValueError, match=f"steps must be above warmup_steps, 10, got {steps}"):
        CosineSchedule(0.1, 10, steps)
