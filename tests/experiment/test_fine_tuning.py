"""A training that begins with another model's weights: what it takes, what it leaves, what it tells and remembers."""

import hashlib
import io
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml
from rich.console import Console
from sentencepiece import SentencePieceProcessor

from tests.cli.command import COMMAND
from tests.experiment.fine_tuned import OTHERS, weights, written
from tests.experiment.small_recipe import ctrl_c_after
from tests.marian.folders import spm, vocabulary_of
from tests.tiny_run import MAX_LENGTH, PAIRS
from tf_transformer import Transformer, UserError, experiment, load_model, load_recipe
from tf_transformer.experiment.fine_tuning import Origin, open_origin, take_weights
from tf_transformer.model_card.files import read_card
from tf_transformer.recipe import save_recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.terminal.printed_scores import show_scores
from tf_transformer.tokenizers import MarianTokenizer, TokenizerPair, map_tokens, train_tokenizers

pytestmark = pytest.mark.usefixtures("eager")

# -- what is taken ----


@pytest.fixture(scope="module")
def still(folder, origin, tmp_path_factory):
    """A fine-tuning that learns nothing, since its rate is 0 as far as float32 knows; and what it told."""
    told = Console(file=io.StringIO(), width=300)
    where = tmp_path_factory.mktemp("still")
    recipe = load_recipe(
        written(where / "recipe.yaml", folder, origin, training__steps=1, training__validate_every=1),
        ["training.learning_rate_scale=1.0e-30"],
    )
    return experiment.train(recipe, where / "run", told), told.file.getvalue()


def test_sizes_and_tokenizer_are_the_origins_where_the_recipe_is_silent(still, origin):
    ours, theirs = load_recipe(still[0].recipe), load_recipe(origin.recipe)
    assert (ours.model, ours.tokenizer) == (theirs.model, theirs.tokenizer)
    assert (still[0].tokenizer / "joint.model").read_bytes() == (origin.tokenizer / "joint.model").read_bytes()


def test_languages_are_the_origins_where_the_recipe_is_silent(folder, origin, tmp_path):
    french = RunDirectory(shutil.copytree(origin.path, tmp_path / "origin"))
    french.recipe.write_text(french.recipe.read_text().replace("target_language: de", "target_language: fr"))
    path = written(tmp_path / "r.yaml", folder, french)
    for given, expected in ((), ("en", "fr")), (("data.source_language=nl",), ("nl", "fr")):
        data = load_recipe(path, given).data
        assert (data.source_language, data.target_language) == expected


def test_the_origin_may_lie_below_the_home_folder(folder, origin, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(origin.path.parent))
    path = written(tmp_path / "r.yaml", folder, origin, init_from=f"~/{origin.path.name}")
    assert open_origin(load_recipe(path)).checkpoint == origin.best


def test_it_begins_where_the_origin_ended(still, origin):
    """Its loss on the origin's test set is the one that the origin's own training wrote down."""
    known, scores = (json.loads(run.scores.read_text()) for run in (origin, still[0]))
    assert scores["also"]["old"]["loss"] == pytest.approx(known["loss"], rel=1e-4)
    assert scores["also"]["old"]["perplexity"] == pytest.approx(known["perplexity"], rel=1e-4)
    ours, theirs = weights(still[0].best), weights(origin.best)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[path], theirs[path]) for path in ours)


def test_both_domains_are_scored_before_and_after(still, capsys):
    scores = json.loads(still[0].scores.read_text())
    assert scores["set"] == "test" and scores["before"].keys() == {"test", "old"} and scores["also"].keys() == {"old"}
    after = {"test": scores, **scores["also"]}
    for name, before in scores["before"].items():
        for figure in ("bleu", "chrf", "perplexity", "sentences"):
            assert before[figure] == pytest.approx(after[name][figure], rel=1e-5)  # nothing was learned
    assert scores["before"]["old"]["sentences"] == len(PAIRS) and scores["sentences"] == len(OTHERS)
    show_scores(scores, as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["old", "24", *[f"{scores['before']['old']['bleu']:.2f}"] * 2] in [line[:4] for line in lines]


def test_it_tells_and_remembers_where_it_comes_from(still, origin):
    run, told = still
    assert f"weights: from {origin.path}, best.keras; schedule and optimizer start again" in told
    assert "tokenizer: the same as that model's" in told and "before training, old: BLEU" in told
    page, facts = read_card(run.path)
    assert f"fine-tuned from `{origin.path}`" in page and "## Fine-tuned from" in page
    assert facts["fine_tuned_from"]["checkpoint"] == "best.keras" and facts["fine_tuned_from"]["tokenizer"] == "kept"
    assert "| old | 24 |" in page


def test_a_checkpoint_can_be_named(folder, origin, tmp_path):
    checkpoint = origin.step_checkpoints()[0]
    opened = open_origin(load_recipe(written(tmp_path / "r.yaml", folder, origin, init_from=str(checkpoint))))
    assert opened.record()["checkpoint"] == checkpoint.name
    assert opened.record()["sha256"] == hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    theirs = weights(checkpoint)
    assert all(np.array_equal(weight.numpy(), theirs[weight.path]) for weight in opened.model.weights)


def test_the_checksum_is_that_of_the_model_that_was_loaded(folder, origin, tmp_path):
    """Its run may write another into the file, or remove it, while the data is prepared."""
    run = RunDirectory(shutil.copytree(origin.path, tmp_path / "origin"))
    opened = open_origin(load_recipe(written(tmp_path / "r.yaml", folder, run)))
    run.best.unlink()
    assert opened.record()["sha256"] == hashlib.sha256(origin.best.read_bytes()).hexdigest()


# -- a new tokenizer ----


@pytest.mark.parametrize("share", ["all", "target", "none"])
def test_each_matrix_of_embeddings_is_mapped(share):
    joint = share == "all"
    old, new = (train_tokenizers(pairs, "bpe", size, joint) for pairs, size in ((PAIRS, 300), (OTHERS, 290)))
    there, here = (
        Transformer(1, 8, 2, 16, size, size, share_embeddings=share, max_length=9, position="learned")
        for size in (300, 290)
    )
    for model in there, here:
        model.build(((None, None), (None, None)))
    initial = {weight.path: weight.numpy() for weight in here.weights}
    theirs = {weight.path: weight.numpy() for weight in there.weights}
    counts = take_weights(here, new, Origin("there", None, there, old, ""))
    assert counts.keys() == ({"joint"} if joint else {"source", "target"})
    ours = {weight.path: weight.numpy() for weight in here.weights}
    of_source, of_target = (map_tokens(*each) for each in ((old.source, new.source), (old.target, new.target)))
    expected = {"encoder/embedding/embeddings": of_source}
    if share != "all":
        expected["decoder/embedding/embeddings"] = of_target
    if share == "none":
        expected["projection/kernel"] = of_target
    assert sum(value.shape != theirs[path].shape for path, value in ours.items()) == len(expected)
    for path, value in ours.items():
        mapping = expected.get(path.removeprefix("transformer/"))
        if mapping is None:
            np.testing.assert_array_equal(value, theirs[path])
            continue
        arrays = value, theirs[path], initial[path]
        value, before, first = (each.T for each in arrays) if path.endswith("kernel") else arrays
        for token in range(290):
            if token in mapping.kept:
                row = before[mapping.kept[token]]
            else:
                row = before[mapping.averaged[token]].mean(axis=0) if token in mapping.averaged else first[token]
            np.testing.assert_allclose(value[token], row, rtol=1e-5, atol=1e-7)


def test_one_matrix_of_two_sentencepiece_models():
    """As an imported MarianMT model has it: a token of either language is spelled by the model that knows it better."""
    models = [spm([pair[side] for pair in PAIRS]) for side in (0, 1)]
    vocabulary = list(vocabulary_of(*models))
    old = TokenizerPair(*(MarianTokenizer(model, vocabulary) for model in models), "marian")
    new = train_tokenizers([*PAIRS, *OTHERS], "bpe", 350)
    sizes = old.source.vocab_size, new.source.vocab_size
    there, here = (
        Transformer(1, 8, 2, 16, size, size, share_embeddings="all", max_length=9, output_bias=True) for size in sizes
    )
    for model in there, here:
        model.build(((None, None), (None, None)))
    there.bias.assign(np.arange(sizes[0]))
    rows, first = there.encoder.embedding.embeddings.numpy(), here.encoder.embedding.embeddings.numpy()
    counts = take_weights(here, new, Origin("there", None, there, old, ""))
    assert counts.keys() == {"joint"} and counts["joint"]["averaged"] > 20

    ids = {piece: i for i, piece in enumerate(old.source.pieces(range(sizes[0])))}
    processors = [SentencePieceProcessor(model_proto=model) for model in models]
    chosen = []
    for token, name in enumerate(new.source.pieces(range(sizes[1]))):
        if token < 4 or name in ids:
            pieces = [token if token < 4 else ids[name]]
        elif name.startswith("<0x"):
            pieces = []
        else:
            spellings = []
            for processor in processors:
                pieces = processor.encode(name.removeprefix("▁"), out_type=str)
                if not name.startswith("▁"):
                    start = pieces[0].removeprefix("▁")
                    pieces = ([start if start in ids else pieces[0]] if start else []) + pieces[1:]
                known = [ids[piece] for piece in pieces if piece in ids]
                spellings.append((len(pieces) - len(known), len(pieces), known))
            chosen.append(spellings.index(min(spellings, key=lambda each: (not each[2], *each[:2]))))
            pieces = spellings[chosen[-1]][2]
        ours, bias = here.encoder.embedding.embeddings[token], here.bias[token]
        np.testing.assert_allclose(ours, rows[pieces].mean(axis=0) if pieces else first[token], rtol=1e-5, atol=1e-7)
        assert float(bias) == pytest.approx(np.mean(pieces) if pieces else 0)
    assert {0, 1} == set(chosen)  # both languages


@pytest.fixture(scope="module")
def other(folder, tiny_run_directory, tmp_path_factory):
    """A fine-tuning with a tokenizer of its own, its recipe's file, its origin, and what it told.

    It is scored on the sentences that the origin knows.
    """
    where = tmp_path_factory.mktemp("other")
    origin = RunDirectory(shutil.copytree(tiny_run_directory.path, where / "origin"))
    changes = {"model__dropout_rate": 0.2, "tokenizer__keep": False, "tokenizer__vocab_size": 330}
    changes |= {"data__test": ["known.en", "known.de"], "evaluation__also": None}
    path = written(where / "r.yaml", folder, origin, **changes, training__steps=2)
    told = Console(file=io.StringIO(), width=300)
    return experiment.train(load_recipe(path), where / "run", told), path, origin, told.file.getvalue()


def test_a_run_with_another_vocabulary(other):
    run, *_, told = other
    assert run.load_tokenizers().source.vocab_size == load_model(run.path).input_vocab_size == 330
    counts = run.read_training()["fine_tuned_from"]["tokens"]["joint"]
    assert sum(counts.values()) == 330 and counts["averaged"] > 0
    kept, averaged = (f"{counts[name]:,}" for name in ("kept", "averaged"))
    assert f"joint vocabulary of 330 tokens: {kept} kept, {averaged} averaged from their pieces" in told
    before = json.loads(run.scores.read_text())["before"]["test"]
    assert before["bleu"] > 90  # the origin is scored with its own tokenizer


# -- frozen layers ----


@pytest.mark.thorough
def test_frozen_weights_keep_every_bit_on_two_devices(folder, origin, tmp_path):
    """Whatever else moves weights: decay, an average of the weights, an average of checkpoints."""
    told = Console(file=io.StringIO(), width=300)
    changes = {"ema": 0.5, "weight_decay": 0.1, "average_checkpoints": 2, "distribution": "mirrored"}
    changes |= {"freeze": ["encoder", "decoder/layer_0/self_attention"], "validate_every": 1, "steps": 2}
    changes = {f"training__{key}": value for key, value in changes.items()} | {"data__batch_tokens": 128}
    path = written(tmp_path / "r.yaml", folder, origin, **changes, evaluation__also=None)
    run = experiment.train(load_recipe(path), tmp_path / "run", told)
    theirs = weights(origin.best)
    for checkpoint in (run.average, run.best, *run.step_checkpoints()):
        for name, value in weights(checkpoint).items():
            frozen = "/encoder/" in name or "/decoder/layer_0/self_attention/" in name
            if frozen or not name.endswith("key/bias"):  # which has no gradient
                assert np.array_equal(value, theirs[name]) == frozen, name
    total = sum(value.size for value in theirs.values())
    assert f"of {total:,} parameters (encoder, decoder/layer_0/self_attention)" in told.file.getvalue()


# -- resuming ----


@pytest.mark.thorough
def test_killed_in_its_first_step_it_resumes_without_the_origin_to_the_same_bits(other, tmp_path):
    whole, path, origin, _ = other
    killed = RunDirectory(tmp_path / "killed")
    with ctrl_c_after(1):
        experiment.train(load_recipe(path), killed.path)
    assert {state.name for state in killed.training_state.glob("step-*")} == {"step-00000000", "step-00000001"}
    shutil.rmtree(killed.training_state / "step-00000001")
    shutil.rmtree(origin.path)
    with pytest.raises(UserError, match="init_from is"):
        load_recipe(path)
    experiment.train(load_recipe(path, run_path=killed.path), killed.path)
    ours, theirs = (weights(run.checkpoints / "step-00000002.keras") for run in (killed, whole))
    assert ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    ours, theirs = (json.loads(run.scores.read_text()) for run in (killed, whole))
    assert ours["bleu"] == theirs["bleu"] and ours["before"]["test"]["bleu"] == theirs["before"]["test"]["bleu"]
    assert load_recipe(killed.recipe).init_from == str(origin.path)  # a run's recipe needs nothing else


def test_an_interrupted_run_from_before_some_key_was_there_is_read(folder, origin, tmp_path):
    """Its own recipe lacks the key, which is then the origin's: not that of itself."""
    recipe = load_recipe(written(tmp_path / "r.yaml", folder, origin))
    run = RunDirectory(tmp_path / "run")
    run.training_state.mkdir(parents=True)
    save_recipe(recipe, run.recipe)
    raw = yaml.safe_load(run.recipe.read_text())
    del raw["model"]["window"]
    run.recipe.write_text(yaml.safe_dump(raw))
    assert load_recipe(run.recipe, run_path=run.path) == recipe


def test_prepared_with_the_origins_tokenizer(folder, origin, tmp_path):
    path = written(tmp_path / "r.yaml", folder, origin, evaluation__also=None)
    told = Console(file=io.StringIO(), width=300)
    experiment.prepare(load_recipe(path), tmp_path / "run", told)
    tokens = origin.load_tokenizers().source.encode([source for source, _ in OTHERS])[0].size + len(OTHERS)
    assert f"({tokens} source" in told.file.getvalue()


# -- on several workers ----


@pytest.mark.slow
def test_two_workers_begin_from_a_model_and_learn_as_two_devices_do(origin, folder, tmp_path):
    """The chief alone scores the origin and tells of it, and each worker has its weights."""
    changes = {"training__distribution": "mirrored", "data__batch_tokens": 2 * MAX_LENGTH}
    path = written(tmp_path / "recipe.yaml", folder, origin, **changes)
    command = [sys.executable, COMMAND, "train", path, "--run-dir", tmp_path / "workers", "--workers", "2"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("2 device(s)") == 1
    assert done.stderr.count("weights: from ") == done.stderr.count("before training, old: BLEU") == 1
    workers = RunDirectory.open(tmp_path / "workers")
    devices = experiment.train(load_recipe(path), tmp_path / "devices")
    (record, scores), (known, expected) = (
        (run.read_training()["fine_tuned_from"], json.loads(run.scores.read_text())) for run in (workers, devices)
    )
    assert record["sha256"] == known["sha256"] == hashlib.sha256(origin.best.read_bytes()).hexdigest()
    for ours, theirs in (
        (record["scores"]["test"], known["scores"]["test"]),
        (record["scores"]["old"], known["scores"]["old"]),
        (scores, expected),
        (scores["also"]["old"], expected["also"]["old"]),
    ):
        assert ours["bleu"] == pytest.approx(theirs["bleu"])
        assert ours["perplexity"] == pytest.approx(theirs["perplexity"], rel=1e-3)
    assert scores["perplexity"] < 0.9 * record["scores"]["test"]["perplexity"]  # it has learned
