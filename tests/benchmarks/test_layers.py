"""Table 1's benchmark: paths as theory has them, slopes and crossings of known curves, a report of made-up times."""

import math

import pytest
from layers import LAYERS, WINDOW, _path
from layers_report import TABLE, crossing, draw, report, slope

NS, DS = [16, 32, 64, 128, 256, 512, 1024], [64, 256]


@pytest.mark.parametrize("length", [2, 9])
def test_paths_are_those_of_theory(length):
    """A contiguous kernel of 3 reaches one position further with each layer; of dilated ones each twice as far."""
    assert {name: _path(name, length) for name in LAYERS} == {
        "self-attention": 1,
        "restricted self-attention": 1,
        "LSTM": length - 1,
        "GRU": length - 1,
        "convolution": length - 1,
        "dilated convolution": math.ceil(math.log2(length)),
    }


def test_the_path_of_a_band_is_so_many_windows():
    assert [_path("restricted self-attention", length) for length in (WINDOW + 1, WINDOW + 2)] == [1, 2]


def test_a_slope_is_the_exponent():
    assert slope(NS, [3e-6 * n**1.7 for n in NS]) == pytest.approx(1.7)


def test_two_curves_cross_where_they_are_equal():
    """n^2 and 100 n do at 100, between two measured lengths; n and 2 n nowhere."""
    assert crossing(NS, [n**2 for n in NS], [100 * n for n in NS]) == pytest.approx(100)
    assert crossing(NS, NS, [2 * n for n in NS]) is None


def made_up() -> dict:
    """Times that are the operations of each layer, a nanosecond each, times the batch."""
    times = [
        {"what": what, "layer": name, "n": n, "d": d, "seconds": [1e-9 * batch * operations(n, d, 3, 2 * WINDOW + 1)]}
        for name, (_, operations) in TABLE.items()
        for n in NS
        for d in DS
        for what, batch in (("fixed batch", 2), ("fixed tokens", 4096 / n))
    ]
    paths = dict.fromkeys(TABLE, 1)
    return {"machine": {"cpu": "none", "threads": 1}, "window": WINDOW, "times": times, "paths": paths}


def test_by_its_operations_alone_self_attention_takes_longer_from_2d_on():
    """Than an LSTM from n = 2d, than a GRU from n = d."""
    rows = [row.split("|")[1:-1] for row in report(made_up()).splitlines() if row.startswith(("| 64 |", "| 256 |"))]
    crossings = {int(row[0]): [float(cell.replace(",", "")) for cell in row[1:]] for row in rows if len(row) == 7}
    for d, (lstm, lstm_tokens, lstm_reckoned, gru, gru_tokens, gru_reckoned) in crossings.items():
        assert (lstm_reckoned, gru_reckoned) == (2 * d, d)
        assert lstm == lstm_tokens == pytest.approx(2 * d)
        assert gru == gru_tokens == pytest.approx(d)
    assert set(crossings) == set(DS)


def test_the_picture_shows_every_layer():
    figure = draw(made_up())
    assert [len(panel.lines) for panel in figure.axes] == [len(TABLE)] * 2 * len(DS)
    assert {text.get_text() for text in figure.legends[0].get_texts()} == set(TABLE)
