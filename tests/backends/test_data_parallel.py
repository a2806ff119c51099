"""On JAX, Keras's `DataParallel` shares a batch among devices, and the steps are those of one."""

import numpy as np
import pytest

from tests.backends.program import LABELS
from tests.backends.test_backends import FIGURES


def part(found, prefix):
    chosen = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    assert chosen
    return chosen


@pytest.mark.thorough
def test_two_devices_train_as_one(found, found_on_one):
    """20 steps of SGD, on rows of unequal length of which one is padding alone."""
    one, two = (part(each, "weights/") for each in (found_on_one, found))
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=0, atol=1e-5, err_msg=name)
    figures = part(found, "figures/")
    assert figures.keys() == FIGURES
    assert figures == pytest.approx(part(found_on_one, "figures/"), rel=1e-5)
    assert figures["tokens"] == np.count_nonzero(LABELS)


@pytest.mark.thorough
def test_one_device_has_the_weights_of_one(found_on_one):
    assert set(part(found_on_one, "devices/").values()) == {1}


def test_both_devices_have_the_weights(found):
    assert set(part(found, "devices/").values()) == {2}


def test_a_layer_made_for_any_length_gives_each_token_its_position(found):
    """Beyond the last one no number, which JAX can't refuse."""
    np.testing.assert_allclose(found["positions/made"], found["positions/layer"], rtol=0, atol=1e-6)
    too_long = found["positions/too long"][0]
    assert np.isfinite(too_long[:7]).all() and np.isnan(too_long[7]).all()
