"""Out again: the folder that is written is the one that was read."""

import json

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from tests.cli.command import assert_mistake
from tests.marian.folders import write_folder
from tests.marian.reference import Marian
from tests.tiny_run import PAIRS
from tf_transformer import DecodingOptions, Transformer
from tf_transformer.errors import UserError
from tf_transformer.experiment import export_run_marian
from tf_transformer.marian import export_marian, import_marian
from tf_transformer.recipe import load_recipe
from tf_transformer.tokenizers import train_tokenizers
from tf_transformer.tokenizers.base import END_ID, START_ID


@pytest.fixture(scope="module", params=["joint", "separate"])
def imported(request):
    return request.getfixturevalue(request.param)


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_there_and_back_again_the_bytes_are_the_same(imported, tmp_path):
    folder = export_run_marian(imported.run, tmp_path / "out")
    for name in ("source.spm", "target.spm"):
        assert (folder / name).read_bytes() == (imported.folder / name).read_bytes()
    for name in ("vocab.json", "target_vocab.json"):
        assert (folder / name).exists() == (imported.folder / name).exists()
        if (folder / name).exists():
            assert read_json(folder / name) == read_json(imported.folder / name)
    before, after = (load_file(path / "model.safetensors") for path in (imported.folder, folder))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert tensor.tobytes() == after[name].tobytes() and tensor.shape == after[name].shape, name
    config = read_json(folder / "config.json")
    assert {key: imported.config.get(key, value) for key, value in config.items()} == config
    generation = read_json(folder / "generation_config.json")
    assert (generation["num_beams"], generation["length_penalty"]) == (4, 0.0)
    assert generation["bad_words_ids"] == imported.config["bad_words_ids"]
    again = import_marian(folder, tmp_path / "again")
    assert again.load_tokenizers().source.to_bytes() == imported.run.load_tokenizers().source.to_bytes()


def test_half_the_embeddings_of_the_pair_may_be_tied(tmp_path):
    """The third way to share: the target's embeddings and the projection alone."""
    _, weights = write_folder(tmp_path / "in", separate=True)
    folder = export_run_marian(import_marian(tmp_path / "in", tmp_path / "run"), tmp_path / "out")
    after = load_file(folder / "model.safetensors")
    assert after.keys() == weights.keys() and "lm_head.weight" not in after
    for name, tensor in weights.items():
        np.testing.assert_array_equal(after[name], tensor)


@pytest.mark.parametrize(
    ("share", "options"),
    [
        ("all", {}),
        ("target", {"norm_epsilon": 1e-5, "activation": "gelu"}),
        ("none", {"position": "sinusoidal_halves"}),
    ],
    ids=["all", "target", "none"],
)
def test_a_model_of_ones_own_computes_the_same_there(tmp_path, share, options):
    """Its sines and cosines alternate; its tokenizer is one SentencePiece model, or two. Its search is told too."""
    tokenizers = train_tokenizers(PAIRS, vocab_size=310, joint=share == "all")
    source, target = tokenizers.source, tokenizers.target
    model = Transformer(
        1, 16, 2, 24, input_vocab_size=310, target_vocab_size=310, max_length=40, share_embeddings=share, **options
    )
    model.build(((None, None), (None, None)))
    random = np.random.default_rng(4)
    around = [float(variable.path.endswith("gamma")) for variable in model.weights]
    model.set_weights([a + 0.5 * random.normal(size=w.shape) for a, w in zip(around, model.get_weights(), strict=True)])
    search = DecodingOptions(beam_size=3, alpha=0.7, no_repeat_ngram_size=2)
    folder = export_marian(model, tokenizers, tmp_path / "out", search, languages=("en", "de"))
    tensors, config = load_file(folder / "model.safetensors"), read_json(folder / "config.json")
    by_equations = Marian(tensors, config)
    run = import_marian(folder, tmp_path / "run")
    evaluation = load_recipe(run.recipe).evaluation
    assert (evaluation.beam_size, evaluation.alpha, evaluation.no_repeat_ngram_size) == (3, 0.7, 2)
    again = run.load_tokenizers()
    # Its tokens have the ids that they had, all but those of the special ones.
    theirs, padding = again.target.marian_ids, config["pad_token_id"]
    columns = range(END_ID, target.vocab_size)
    for text, translation in PAIRS[::6]:
        ids, targets = source.tokenize([text]).to_list()[0], target.tokenize([translation]).to_list()[0]
        assert again.source.tokenize([text]).to_list()[0] == ids
        assert again.target.detokenize(tf.constant([targets])).numpy()[0].decode() == translation
        logits = model((np.array([[*ids, END_ID]]), np.array([[START_ID, *targets]]))).numpy()[0]
        given = [again.source.marian_ids[i] for i in [*ids, END_ID]], [padding, *(theirs[i] for i in targets)]
        expected = by_equations.logits(*given)
        assert np.ptp(expected[:, theirs[END_ID]]) > 0.01  # what comes before matters, beyond the tolerance
        np.testing.assert_allclose(logits[:, columns], expected[:, [theirs[i] for i in columns]], rtol=0, atol=1e-4)
        assert expected[:, padding].max() < -500  # it is never said


def test_every_reason_why_a_model_does_not_fit_is_told(tmp_path):
    tokenizers = train_tokenizers([("a dog", "ein Hund"), ("a cat", "eine Katze")], kind="wordpiece", vocab_size=30)
    sizes = {"input_vocab_size": 30, "target_vocab_size": 30}
    model = Transformer(1, 8, 2, 16, norm_first=True, window=3, position="learned", norm_epsilon=1e-3, **sizes)
    with pytest.raises(UserError) as caught:
        export_marian(model, tokenizers, tmp_path / "out")
    told = str(caught.value)
    for reason in (
        "kind wordpiece",
        "model.norm_first is True",
        "position is learned, not sinusoidal_halves or sinusoidal",
        "norm_epsilon",
        "window",
    ):
        assert reason in told
    assert "\n" not in told and not (tmp_path / "out").exists()


def test_the_command_writes_the_folder_and_overwrites_nothing(joint, tmp_path, command):
    out = tmp_path / "out"
    told = f"exporting {joint.run.best}\n"
    assert command("export", joint.run.path, out, "--format", "marian") == (0, f"{out}\n".encode(), told)
    assert_mistake(command("export", joint.run.path, out, "--format", "marian"), "not empty and was not changed")
    assert_mistake(
        command("export", joint.run.path, tmp_path / "o", "--format", "marian", "--beam-size", 2), "--beam-size"
    )
