"""The training benchmark runs engines on the same model and batches, and what it tells is what happened."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tf_transformer.recipe import load_recipe

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "train/recipes/demo.yaml"


@pytest.fixture
def benchmarks(monkeypatch):
    """Makes the benchmark's modules importable, as they are for its scripts."""
    for folder in "benchmarks", "benchmarks/engines":
        monkeypatch.syspath_prepend(ROOT / folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> SimpleNamespace:
    """One run of the driver with two engines: what it printed, its figures, its batches."""
    folder = tmp_path_factory.mktemp("bench")
    command = [sys.executable, ROOT / "benchmarks/train.py", RECIPE, "--size", "toy", "--batches", "2", "--rounds", "2"]
    command += [
        "--engines",
        "tf_transformer",
        "Keras stock layers",
        "--settings",
        "graph, oneDNN",
        "parts side by side",
    ]
    command += ["--own-python", sys.executable, "--folder", folder, "--output", folder / "figures.json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(folder / "batches.npz") as batches:
        arrays = dict(batches)
    figures = json.loads((folder / "figures.json").read_text())
    return SimpleNamespace(printed=done.stdout, figures=figures, arrays=arrays)


@pytest.mark.slow
def test_every_batch_holds_whole_pairs_within_the_limit(run):
    assert len(run.arrays) == 6
    for i in range(2):
        source, target, labels = (run.arrays[f"{name}_{i}"] for name in ("source", "target", "labels"))
        assert run.figures["batches"]["shapes"][i] == [*source.shape, target.shape[1]]
        assert max(source.size, labels.size) <= 256
        for start, said in zip(target, labels, strict=True):
            length = np.count_nonzero(said)
            assert start[0] == 2 and said[length - 1] == 3
            assert start[1:length].tolist() == said[: length - 1].tolist()


@pytest.mark.slow
def test_tokens_are_those_to_be_predicted(run):
    tokens = sum((run.arrays[f"labels_{i}"] != 0).sum() for i in range(2))
    positions = sum(run.arrays[f"labels_{i}"].size for i in range(2))
    assert run.figures["batches"]["tokens"] == tokens
    assert run.figures["batches"]["padding"] == pytest.approx(1 - tokens / positions)
    assert [result["tokens"] for result in run.figures["results"]] == [tokens, tokens]


@pytest.mark.slow
def test_engines_begin_with_the_same_model_and_learn(run):
    ours, keras = run.figures["results"]
    assert ours["parameters"] == keras["parameters"] == run.figures["sizes"]["parameters"]
    assert ours["first_loss"] == pytest.approx(keras["first_loss"], rel=1e-4)
    assert np.log(1000) < ours["first_loss"] < np.log(1000) + 1.5  # the first logits have a variance near 1
    for result in ours, keras:
        losses = [result["first_loss"], *(each["loss"] for each in result["rounds"])]
        assert losses == sorted(losses, reverse=True) and len(set(losses)) == 3
    # Dropout differs, the rest of the training does not.
    assert ours["rounds"][-1]["loss"] == pytest.approx(keras["rounds"][-1]["loss"], rel=5e-3)


@pytest.mark.slow
def test_the_table_has_the_rates_of_the_rounds(run):
    for result in run.figures["results"]:
        (line,) = re.findall(rf"^\| {result['engine']} \|.*$", run.printed, re.MULTILINE)
        rates = [result["tokens"] / each["seconds"] for each in result["rounds"]]
        assert f"| {np.median(rates):,.0f} ({min(rates):,.0f}–{max(rates):,.0f}) |" in line
        assert all(each["peak_mib"] > 100 for each in result["rounds"])


def test_a_tokenizer_larger_than_the_model_is_refused(benchmarks):
    from training_batches import sample_batches

    with pytest.raises(SystemExit, match=r"1000 tokens, the model 500: give --set tokenizer.vocab_size=500"):
        sample_batches(load_recipe(RECIPE), batch_tokens=256, vocab_size=500, count=1)


def test_the_floor_is_all_products_of_a_step(benchmarks):
    """The multiplications of a forward pass, from the number of weights that every token meets."""
    from train_products import forward_products, split_rows
    from training_worker import Batch

    rows, source, target, layers, width, dff, vocabulary = 3, 5, 7, 2, 8, 24, 50
    sizes = {"num_layers": layers, "d_model": width, "num_heads": 4, "dff": dff, "vocab_size": vocabulary}
    batch = Batch(np.ones((rows, source)), np.ones((rows, target)), np.ones((rows, target)))
    products, in_parts = (
        [np.prod(stack) * m * k * n for part in parts for stack, m, k, n in forward_products(part, sizes)]
        for parts in ([batch], split_rows(batch, 2))
    )
    attention, feed_forward = 4 * width**2, 2 * width * dff
    by_source = layers * (attention + feed_forward) + layers * 2 * width**2  # and the keys and values it is met with
    by_target = layers * (attention + 2 * width**2 + feed_forward) + width * vocabulary
    scores = layers * 2 * width * (source**2 + target**2 + source * target)
    assert sum(products) == sum(in_parts) == rows * (source * by_source + target * by_target + scores)


def test_processes_share_a_batch_so_that_their_mean_loss_is_that_of_all_tokens(benchmarks):
    from training_worker import Batch, Share

    generator = np.random.default_rng(0)
    labels = np.where(generator.random((7, 5)) < 0.6, generator.integers(1, 9, (7, 5)), 0)
    batch = Batch(labels, labels, labels)
    token_losses = generator.random(labels.shape)
    mean = token_losses[labels != 0].mean()

    shares = [Share(rank, 2) for rank in range(2)]
    rows = np.concatenate([share.rows(batch).labels for share in shares])
    assert sorted(map(tuple, rows)) == sorted(map(tuple, labels))
    means = []
    for share in shares:
        own = share.rows(Batch(token_losses, token_losses, token_losses)).labels
        means.append(share.weight(batch) * own[share.rows(batch).labels != 0].mean())
    # What DistributedDataParallel does with the gradients of its processes.
    assert np.mean(means) == pytest.approx(mean)


def test_the_table_has_medians_of_rounds_and_of_the_ratios_in_a_turn(benchmarks):
    from training_report import TrainingResult, settings_tried, training_table

    def result(engine: str, *seconds: float, loss: float | None = 9.0) -> TrainingResult:
        rounds = [{"seconds": each, "peak_mib": 1234.4, "loss": 8.5} for each in seconds]
        return TrainingResult(engine, "graph", tokens=1000, first_loss=loss, rounds=rounds, warm_up_seconds=3.0)

    peer = result("peer", 2, 5, 2.5)
    peer.tried = {"graph": 400.0, "XLA": "failed (no compiler)"}
    table = training_table(
        [result("ours", 1, 1.25, 2), peer, result("floor", 0.5, 0.5, 0.4, loss=None)], "ours", "floor"
    )
    assert "| ours | graph | 800 (500–1,000) | 1.00 | 0.40 | 1,234 | 3.0 | 9.000 / 8.500 |" in table
    assert "| peer | graph | 400 (200–500) | 2.00 | 0.16 | 1,234 | 3.0 | 9.000 / 8.500 |" in table
    assert "| floor | graph | 2,000 (2,000–2,500) | 0.40 | 1.00 |  | 3.0 |  |" in table
    assert settings_tried([peer]) == "- peer: graph 400; XLA failed (no compiler)"
