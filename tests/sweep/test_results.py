"""What the rows of a sweep come to: means, deviations, differences, as text, table and picture."""

import csv
import io
import math

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.command import contents
from tests.sweep.small_sweep import write
from tf_transformer.commands.sweep import sweep
from tf_transformer.errors import UserError
from tf_transformer.sweep import running
from tf_transformer.sweep.picture import plot_rows
from tf_transformer.sweep.results import as_csv, check_results, compare, in_words

FIGURE = st.floats(0, 100).map(lambda x: round(x, 3))


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["base", "a", "b"]), st.integers(1, 4)),
        st.fixed_dictionaries({"bleu": FIGURE}, optional={"perplexity": FIGURE}),
    )
)
def test_means_deviations_and_paired_differences(scores):
    rows = compare(scores, ["base", "a", "b"])
    expected = {
        (row, figure) for figure in ("bleu", "perplexity") for row, seed in scores if figure in scores[row, seed]
    }
    assert {(row.row, row.figure) for row in rows} == expected
    for row in rows:
        values = [scores[row.row, seed][row.figure] for seed in row.values]
        np.testing.assert_allclose(row.mean, np.mean(values))
        pairs = [
            (scores[row.row, seed][row.figure], scores["base", seed][row.figure])
            for seed in range(1, 5)
            if row.figure in scores.get((row.row, seed), {}) and row.figure in scores.get(("base", seed), {})
        ]
        differences = np.array([one - base for one, base in pairs]) if row.row != "base" else np.array([])
        for told, among, of in (
            (row.deviation, values, lambda x: np.std(x, ddof=1)),
            (row.difference_deviation, differences, lambda x: np.std(x, ddof=1)),
        ):
            assert (told is None) == (len(among) < 2)
            if told is not None:
                np.testing.assert_allclose(told, of(among), atol=1e-9)
        assert (row.difference is None) == (len(differences) == 0)
        if row.difference is not None:
            np.testing.assert_allclose(row.difference, differences.mean(), atol=1e-9)


def test_an_infinite_perplexity_has_no_deviation_and_the_others_are_told(tmp_path):
    perplexities = {("base", 1): math.inf, ("base", 2): 4.0, ("wide", 1): 3.0, ("wide", 2): 5.0}
    base, wide = rows = compare({run: {"perplexity": each} for run, each in perplexities.items()}, ["base", "wide"])
    assert (base.mean, base.deviation) == (math.inf, None)
    assert (wide.mean, wide.difference, wide.difference_deviation) == (4.0, -math.inf, None)
    assert wide.deviation == pytest.approx(math.sqrt(2))
    assert "base,perplexity,inf,,,,inf,4\n" in as_csv(rows)
    assert plot_rows(rows, tmp_path / "rows.png").stat().st_size


def test_null_in_scores_json_counts_as_infinite():
    """It stands there for what is no finite number."""
    scores = {("base", 1): {"bleu": 1.0, "perplexity": None}, ("wide", 1): {"bleu": 2.0, "perplexity": 4.0}}
    found = [(row.row, row.mean, row.difference) for row in compare(scores, ["base", "wide"])]
    assert found[2:] == [("base", math.inf, None), ("wide", 4.0, -math.inf)]
    assert in_words(scores["base", 1]) == "bleu 1.00, perplexity inf"


@pytest.mark.parametrize("of_seeds", [[(math.inf, math.inf)], [(math.inf, 4.0), (4.0, math.inf)]])
def test_where_both_rows_are_infinite_there_is_no_difference(of_seeds):
    """Not NaN, which JSON does not have."""
    names = ["base", "wide"]
    scores = {
        (row, seed): {"perplexity": each}
        for seed, pair in enumerate(of_seeds)
        for row, each in zip(names, pair, strict=True)
    }
    _, wide = rows = compare(scores, names)
    assert (wide.mean, wide.difference, wide.difference_deviation) == (math.inf, None, None)
    assert "wide,perplexity,inf,,,," in as_csv(rows)


ROWS = compare(
    {("base", 1): {"bleu": 30.0}, ("base", 2): {"bleu": 32.0}, ("wide", 2): {"bleu": 33.5, "perplexity": 4.0}},
    ["base", "wide"],
)


def test_csv():
    rows = list(csv.DictReader(io.StringIO(as_csv(ROWS))))
    assert [row["row"] for row in rows] == ["base", "wide", "wide"]
    assert rows[1] == {
        "row": "wide", "figure": "bleu", "mean": "33.5", "deviation": "", "difference": "1.5",
        "difference_deviation": "", "seed1": "", "seed2": "33.5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("results.csv", as_csv(ROWS).encode(), ["base"]),
        ("results.csv", b"date,litres\n1 May,40\n", ["base", "wide"]),
        ("results.csv", b"\xff\xfe", ["base", "wide"]),
        ("results.png", b"a picture", ["base", "wide"]),
    ],
    ids=["another sweep", "another table", "no text", "a picture alone"],
)
def test_results_of_something_else_are_told(tmp_path, name, content, rows):
    check_results(tmp_path / "none", rows)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(
        UserError, match=rf"{name}: not from this sweep's rows, so it was not changed; move it away, or give another"
    ):
        check_results(tmp_path, rows)


def test_results_of_the_same_rows_or_fewer_may_be_replaced(tmp_path):
    (tmp_path / "results.csv").write_text(as_csv(ROWS), encoding="utf-8")
    (tmp_path / "results.png").touch()
    check_results(tmp_path, ["base", "wide", "deep"])


def test_a_picture(tmp_path):
    pixels = matplotlib.image.imread(plot_rows(ROWS, tmp_path / "results.png"))
    assert pixels.shape[1] > pixels.shape[0] > 100
    assert pixels[..., :3].std() > 0.05


def test_the_command_replaces_its_own_results_alone(tmp_path, monkeypatch):
    path, folder, begun = write(tmp_path), tmp_path / "runs", []
    folder.mkdir()
    monkeypatch.setattr(running, "run_sweep", lambda runs, *others: begun.append(runs) or {("base", 1): {"bleu": 30.0}})
    (folder / "results.csv").write_text("date,litres\n1 May,40\n")
    with pytest.raises(UserError, match="not from this sweep's rows"):
        sweep(path, run_dir=folder)
    assert contents(folder) == {"results.csv": b"date,litres\n1 May,40\n"} and not begun
    (folder / "results.csv").unlink()
    for _ in range(2):
        sweep(path, run_dir=folder)
        assert sorted(contents(folder)) == ["results.csv", "results.png"]
    assert len(begun) == 2


def test_other_sets_are_compared_too():
    """By their BLEU, which stands behind that of the test set."""
    rows = {"old": (30.0, 40.0), "new": (33.5, 38.0)}
    scores = {
        (row, 1): {"bleu": bleu, "perplexity": 5.0, "also": {"news": {"bleu": other}}}
        for row, (bleu, other) in rows.items()
    }
    found = [(row.figure, row.row, row.mean, row.difference) for row in compare(scores, ["old", "new"])]
    assert found[:4] == [
        ("bleu", "old", 30.0, None),
        ("bleu", "new", 33.5, 3.5),
        ("bleu on news", "old", 40.0, None),
        ("bleu on news", "new", 38.0, -2.0),
    ]
