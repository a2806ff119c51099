"""The benchmark of decoding: what it hands to other engines, and whose models it takes."""

import pytest
from decode import Benchmark
from exports import write_plain_weights

import tf_transformer as tt

SIZES = dict(num_layers=1, d_model=8, num_heads=2, dff=16, input_vocab_size=12, target_vocab_size=12, max_length=16)


@pytest.mark.parametrize(
    "change",
    [
        {"activation": "swish"},
        {"output_bias": True},
        {"position": "sinusoidal_halves"},
        {"scale_embeddings": False},
        {"window": 2},
        {"decoder_layers": 2},
        {"share_embeddings": "none"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_model_that_other_engines_have_no_form_for_is_refused(change, tmp_path):
    model = tt.Transformer(**{**SIZES, "share_embeddings": "all", **change})
    with pytest.raises(SystemExit, match=f"differs in {next(iter(change))}: leave these two out"):
        write_plain_weights(model, None, tmp_path)


def test_so_is_a_recurrent_model(tmp_path):
    model = tt.RecurrentModel(
        num_layers=1, d_model=8, input_vocab_size=12, target_vocab_size=12, max_length=16, share_embeddings="all"
    )
    with pytest.raises(SystemExit, match="this RecurrentModel differs: leave"):
        write_plain_weights(model, None, tmp_path)


def test_a_folder_of_another_runs_models_is_refused(tmp_path):
    """Their figures would stand under this run's name."""

    def benchmark(model):
        of_run = Benchmark.__new__(Benchmark)
        of_run.folder, of_run.model, of_run.sentences = tmp_path, model, [(["a", "b"], "ab", None)]
        of_run._check_models()

    one, another = (tt.Transformer(**SIZES, share_embeddings="all") for _ in range(2))
    for model in one, another:
        model.build(((None, None), (None, None)))
    benchmark(one)
    benchmark(one)
    with pytest.raises(SystemExit, match="holds the models of another run"):
        benchmark(another)
    (tmp_path / "made_of.json").rename(tmp_path / "weights.npz")  # as of an earlier version, which noted nothing
    with pytest.raises(SystemExit, match="holds the models of another run"):
        benchmark(one)
