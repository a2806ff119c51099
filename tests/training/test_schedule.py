"""The learning-rate schedule is the paper's equation 3, and the optimizer uses it from step 1 on."""

import json

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer import TransformerSchedule


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


def test_it_survives_being_written_down():
    original = keras.optimizers.Adam(TransformerSchedule(24, 70, 0.25))
    config = json.loads(json.dumps(keras.optimizers.serialize(original)))
    copy = keras.optimizers.deserialize(config)._learning_rate
    assert isinstance(copy, TransformerSchedule)
    assert copy.get_config() == {"d_model": 24, "warmup_steps": 70, "scale": 0.25}
    assert float(copy(99)) == pytest.approx(0.25 * paper_rate(100, 24, 70), rel=1e-5)


@pytest.mark.parametrize("warmup_steps", [0, -4000])
def test_a_warm_up_must_have_a_step(warmup_steps):
    with pytest.raises(ValueError, match=f"warmup_steps must be .*, got {warmup_steps}"):
        TransformerSchedule(512, warmup_steps)
