"""An experiment from recipe to scores: what it leaves, and what it leaves alone."""

import io
import json
import math

import keras
import numpy as np
import pytest
import sacrebleu
from google.protobuf import text_format
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.plugins.projector import ProjectorConfig

from tests import reference
from tests.cli.command import contents
from tests.eager import eagerly
from tests.experiment.looked_at import figures, first_batches
from tests.experiment.small_recipe import STEPS, on, recipe
from tests.tiny_run import PAIRS
from tf_transformer import DemoSource, TransformerSchedule, UserError, experiment, load_model, load_recipe
from tf_transformer.experiment.scoring import evaluate_sets
from tf_transformer.tensorboard.events import Index
from tf_transformer.tensorboard.hparams import settings
from tf_transformer.terminal.printed_scores import show_scores
from tf_transformer.training import make_optimizer
from tf_transformer.translation.loading import load_translate
from tf_transformer.translation.texts import translate_texts

EVERYTHING = {
    "tensorboard": {
        "attention": 2,
        "bleu": 6,
        "histograms": True,
        "graph": True,
        "embeddings": True,
        "profile": 5,
    },
    "clip_norm": 100.0,  # without one, two devices don't know how long the gradient is
}


@pytest.fixture(scope="module")
def console():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture(scope="module")
def run(tmp_path_factory, console):
    """A training on two devices, with dropout."""
    return experiment.train(recipe(**EVERYTHING), tmp_path_factory.mktemp("runs") / "tiny", console)


# -- what a run leaves ----


def test_a_run_holds_its_recipe_and_nothing_unexpected(run):
    assert load_recipe(run.recipe) == recipe(**EVERYTHING)
    names = {path.name for path in run.path.iterdir()}
    cards = {"training.json", "model_card.md"}
    assert names == {"recipe.yaml", "tokenizer", "checkpoints", "logs", "scores.json"} | cards
    assert run.load_tokenizers().joint and run.load_tokenizers().source.vocab_size == 500


def test_it_says_what_it_does(run, console):
    said = console.file.getvalue()
    assert "train: 300 of 300 pairs kept" in said and "0 dropped" in said
    assert "padding: " in said
    assert [line.split()[:2] for line in said.splitlines() if line.startswith("step")] == [["step", "4"], ["step", "6"]]


def test_a_corpus_that_looks_like_a_mistake_is_warned_of(tmp_path):
    told = Console(file=io.StringIO(), width=200)
    made = on(tmp_path, [("the dog sleeps", "the dog sleeps")] * 9, 64)
    tokenizer = made.tokenizer.model_copy(update={"vocab_size": 290})
    experiment.prepare(made.model_copy(update={"tokenizer": tokenizer}), tmp_path / "run", told)
    assert [line for line in told.file.getvalue().splitlines() if "train: warning" in line] == [
        "train: warning: 9 of 9 pairs have the same text as source and target; check data.train",
        "train: warning: 8 of 9 pairs repeat an earlier one; check data.train",
    ]


def test_checkpoints_are_those_of_the_validations(run):
    names = {path.name for path in run.checkpoints.iterdir()}
    assert names == {"best.keras", "step-00000004.keras", "step-00000006.keras"}
    perplexities = [value for _, value in figures(run.logs / "validation")["quality/perplexity"]]
    best = ("step-00000004.keras", "step-00000006.keras")[int(np.argmin(perplexities))]
    assert (run.checkpoints / "best.keras").read_bytes() == (run.checkpoints / best).read_bytes()
    for step in (4, 6):
        model = keras.saving.load_model(run.checkpoints / f"step-{step:08d}.keras")
        assert int(model.optimizer.iterations) == step


def test_two_devices_train_with_dropout(run, console):
    assert "2 device(s)" in console.file.getvalue()
    model = load_model(run.path)
    assert model.dropout_rate == 0.1
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    losses = [value for _, value in figures(run.logs / "train")["quality/loss"]]
    assert losses[0] > losses[1] > 0


def test_early_stopping_ends_a_training_that_does_not_improve(eager, tmp_path):
    """With a rate of nothing each validation is like the first, the best one."""
    options = {"validate_every": 1, "early_stopping": 2, "keep_checkpoints": 9, "learning_rate_scale": 1e-30}
    still = on(tmp_path, PAIRS, 512, **options)
    stopped = experiment.train(still, tmp_path / "run")
    assert [path.stem for path in stopped.step_checkpoints()] == [f"step-{step:08d}" for step in (1, 2, 3)]
    assert stopped.scores.is_file() and not stopped.training_state.exists()


def test_tensorboard_has_the_figures_under_the_number_of_updates(run):
    """In groups, of which those that tell how good the model is come first."""
    tags = {part: figures(run.logs / part) for part in ("train", "validation")}
    scalars = {tag: values for tag, values in tags["train"].items() if not tag.startswith("weights/")}
    quality = [f"quality/{name}" for name in ("accuracy", "loss", "perplexity")]
    speed = [f"speed/{name}" for name in ("data_wait", "padding", "tokens_per_second")]
    training = [f"training/{name}" for name in ("gradient_norm", "learning_rate", "tokens")]
    assert sorted(scalars) == [*quality, *speed, *training]
    first_page = []
    for part in tags:
        events = EventAccumulator(str(run.logs / part)).Reload()
        plugins = {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags[part]}
        first_page += [tag for tag, plugin in plugins.items() if plugin in ("scalars", "images", "histograms")]
    assert min(first_page) == "quality/BLEU" and max(first_page).startswith("weights/")
    validation = {tag: values for tag, values in tags["validation"].items() if tag.startswith("quality/")}
    assert sorted(validation) == ["quality/BLEU", *quality]
    for values in (*scalars.values(), *validation.values()):
        assert [step for step, _ in values] == [4, 6] and all(math.isfinite(value) for _, value in values)
    assert all(value > 0 for _, value in scalars["training/gradient_norm"])
    # Of the first 4 batches and the next 2, counted again.
    batches = first_batches(run, 6, row_multiple=2)
    for (_, padding), few in zip(scalars["speed/padding"], (batches[:4], batches[4:]), strict=True):
        both = np.concatenate([np.concatenate([source.ravel(), labels.ravel()]) for (source, _), labels in few])
        assert padding == pytest.approx((both == 0).mean(), abs=1e-6)
    rate = TransformerSchedule(16, 5)
    rates = [value for _, value in scalars["training/learning_rate"]]
    assert rates == pytest.approx([float(rate(4)), float(rate(6))], rel=1e-5)
    assert all(value > 0 for _, value in scalars["speed/tokens_per_second"])


def test_a_training_is_two_runs_of_tensorboard(run):
    """With one file each: what is added to a file after the next has begun, TensorBoard does not show."""
    found = sorted(path.parent.relative_to(run.logs).as_posix() for path in run.logs.rglob("*tfevents*"))
    assert found == ["train", "validation"]


def test_tensorboard_has_the_recipe_as_hparams(run):
    """As TensorBoard's own plugin reads them, beside the run's figures."""
    events = EventAccumulator(str(run.logs / "validation")).Reload()
    (tag,) = events.PluginTagToContent("hparams")
    start = plugin_data_pb2.HParamsPluginData.FromString(events.SummaryMetadata(tag).plugin_data.content)
    session = start.session_start_info.hparams
    assert session["d_model"].number_value == 16 and session["batch_tokens"].number_value == 512
    assert session["training.schedule"].string_value == "transformer"
    assert session["model.norm_first"].bool_value is False
    assert session["tokenizer.vocab_size"].number_value == 500
    # The names that TensorBoard opens on where nothing differs.
    assert sorted(session)[:5] == ["batch_tokens", "d_model", "dropout_rate", "layers", "learning_rate"]
    # Nothing that is null, and nothing of where the text lies or what is shown of the training.
    flat = recipe(**EVERYTHING).flat()
    assert all(flat.get(name, "another name") is not None for name in session)
    assert not [name for name in session if name.startswith(("data.", "tensorboard.", "evaluation.", "name"))]


@pytest.mark.parametrize(
    ("schedule", "changes"),
    [
        ("transformer", {"learning_rate_scale": 0.5}),
        ("inverse_sqrt", {"learning_rate": 0.003}),
        ("cosine", {"learning_rate": 0.002}),
    ],
)
def test_the_learning_rate_among_the_hparams_is_the_highest(schedule, changes):
    wanted = recipe(schedule=schedule, warmup_steps=3, **changes)
    optimizer = make_optimizer(wanted.training, wanted.model.d_model)
    rates = []
    for step in range(STEPS):
        optimizer.iterations.assign(step)
        rates.append(float(optimizer.learning_rate))
    assert settings(wanted)["learning_rate"] == pytest.approx(max(rates), rel=1e-6)


def test_tensorboard_has_attention_and_pictures_of_it(run):
    index = Index(run.logs)
    index.refresh()
    sources = [source for source, _ in list(DemoSource("validation"))[:2]]
    tags = [f"{number} {source}" for number, source in enumerate(sources, start=1)]
    assert {tag: list(steps) for tag, steps in index.places["validation"].items()} == {tag: [4, 6] for tag in tags}
    header = index.header("validation", tags[0], 6)
    assert header.sizes == {"encoder": [1, 2], "decoder": [1, 2], "cross": [1, 2]}
    assert header.reference == next(iter(DemoSource("validation")))[1]
    pictures = figures(run.logs / "validation")
    for tag in tags:
        for _, picture in pictures[f"translations/attention: {tag}"]:
            assert picture[2].startswith(b"\x89PNG")


def test_tensorboard_has_graph_and_histograms_when_asked(run):
    graph = EventAccumulator(str(run.logs / "train")).Reload().Graph()
    assert any("cross_attention" in node.name for node in graph.node)
    weights = [variable.path for variable in load_model(run.path).trainable_variables]
    histograms = {tag: values for tag, values in figures(run.logs / "train").items() if tag.startswith("weights/")}
    assert histograms.keys() == {f"weights/{path}" for path in weights}
    assert all([step for step, _ in values] == [4, 6] for values in histograms.values())


def test_the_profiler_watches_when_asked(run):
    (trace,) = (run.logs / "train" / "plugins" / "profile").glob("*/*.xplane.pb")
    assert trace.stat().st_size > 10_000


def test_the_projector_has_every_token_and_its_name(run):
    folder = run.logs / "train"
    config = text_format.Parse((folder / "projector_config.pbtxt").read_text(), ProjectorConfig())
    (embedding,) = config.embeddings  # one matrix for both sides
    names = (folder / embedding.metadata_path).read_text(encoding="utf-8").split("\n")[:-1]
    assert len(names) == 500 == embedding.tensor_shape[0]
    assert names[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    table = np.frombuffer((folder / embedding.tensor_path).read_bytes(), "<f4").reshape(embedding.tensor_shape)
    newest = keras.saving.load_model(run.step_checkpoints()[-1])
    np.testing.assert_array_equal(table, newest.encoder.embedding.embeddings)


def test_tensorboard_has_sample_translations(run):
    texts = figures(run.logs / "validation")["translations"]
    assert [step for step, _ in texts] == [4, 6]
    samples = list(DemoSource("validation"))[:2]
    for _, text in texts:
        rows = text.decode().splitlines()[2:]
        assert [
            row.startswith(f"| {source} | {target} | ") for row, (source, target) in zip(rows, samples, strict=True)
        ]


# -- its scores ----


def test_the_perplexity_is_that_of_the_test_set(run):
    """Worked out again from the logits of the independent forward pass, a float64 number a token."""
    scores = json.loads(run.scores.read_text())
    model, tokenizers = load_model(run.path), run.load_tokenizers()
    pairs = list(DemoSource("test"))
    tokens = [
        side.tokenize(texts).to_list()
        for side, texts in zip((tokenizers.source, tokenizers.target), zip(*pairs, strict=True), strict=True)
    ]
    source_ids, target_ids, labels = (
        keras.utils.pad_sequences([[*start, *row, *end] for row in rows], padding="post")
        for rows, start, end in ((tokens[0], [], [3]), (tokens[1], [2], []), (tokens[1], [], [3]))
    )
    logits, _ = reference.transformer(
        reference.weights_of(model),
        source_ids,
        target_ids,
        num_layers=1,
        num_heads=2,
        norm_first=False,
        position="sinusoidal",
        share_embeddings="all",
    )
    log_probabilities = np.log(reference.softmax(logits))
    of_labels = np.take_along_axis(log_probabilities, labels[..., None], axis=-1)[..., 0]
    assert scores["perplexity"] == pytest.approx(math.exp(-of_labels[labels != 0].mean()), rel=1e-4)
    right = (logits.argmax(axis=-1) == labels)[labels != 0].mean()
    assert scores["accuracy"] == pytest.approx(right, abs=1e-3)


def test_the_scores_are_those_of_its_translations(run):
    scores = json.loads(run.scores.read_text())
    sources, references = zip(*DemoSource("test"), strict=True)
    with eagerly():
        translations = [one.text for one in translate_texts(load_translate(run.path), sources, batch_size=300)]
    bleu = sacrebleu.metrics.BLEU()
    assert scores["bleu"] == pytest.approx(bleu.corpus_score(translations, [references]).score, abs=0.01)
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(translations, [references]).score, abs=0.01)
    assert scores["signature"] == str(bleu.get_signature())
    assert (scores["set"], scores["sentences"]) == ("test", 300)
    assert scores["training_seconds"] > 0 and scores["loss"] > 0


@pytest.mark.thorough
def test_a_perplexity_tells_of_how_many_sentences_it_is(run, capsys):
    (source, reference), *_ = DemoSource("test")
    whole, short = (source, reference), {"max_length": 4}
    with eagerly():
        pairs = [whole, (source, ""), ("", reference), ("word " * 100, reference)]
        scores = experiment.evaluate(run, pairs, changes=short)
        alone = experiment.evaluate(run, [whole], changes=short)
        without = experiment.evaluate(run, [(source, " ")], changes=short)
    assert (scores["sentences"], scores["perplexity_sentences"]) == (4, 1)
    assert scores["perplexity"] == pytest.approx(alone["perplexity"])
    show_scores(scores, as_json=False)
    assert "the perplexity leaves out 3 of 4 sentences" in capsys.readouterr().err
    assert "perplexity" not in without and without["perplexity_sentences"] == 0
    show_scores(without, as_json=False)
    assert "perplexity" not in capsys.readouterr().out


def test_a_model_trained_with_xla_is_scored_without(run):
    """With the figures that it has without: the loss too, in which rows of padding would weigh."""
    sets, found = {"few": list(DemoSource("test"))[:8]}, []
    for training in ({"jit_compile": True, "steps_per_execution": 2, "distribution": "single"}, {}):
        model = load_model(run.best_checkpoint(), "float32")
        with eagerly():
            scores = evaluate_sets(model, run.load_tokenizers(), recipe(**training), sets)["few"]
        found.append([scores[name] for name in ("perplexity", "accuracy", "loss")])
        assert not model.jit_compile
        assert model.steps_per_execution == 1
    assert found[0] == pytest.approx(found[1])


@pytest.mark.thorough
def test_another_search_is_scored_by_its_own_translations(run):
    """With options in place of the recipe's; in any number of streams."""
    pairs = list(DemoSource("test"))[:8]
    changes = {"beam_size": 2, "max_length": 3}
    sources, references = zip(*pairs, strict=True)
    with eagerly():
        scores = experiment.evaluate(run, pairs, batch_size=2, changes=changes, streams=2)
        translations = [one.text for one in translate_texts(load_translate(run.path, changes), sources)]
    expected = sacrebleu.corpus_chrf(translations, [references]).score
    assert scores["chrf"] == pytest.approx(expected)
    assert scores["sentences"] == 8


# -- what it leaves alone ----


def test_another_run_is_not_written_over(run):
    before = contents(run.path)
    with pytest.raises(
        UserError, match=r"tiny: contains a finished training run, with its scores in .*; .*--run-dir"
    ) as error:
        experiment.train(recipe(seed=2), run.path)
    assert "\n" not in str(error.value)
    assert contents(run.path) == before


def test_where_no_pair_is_left_one_line_says_so(tmp_path):
    """And nothing is in the way of the next try."""
    with pytest.raises(
        UserError, match=r"data\.train: no pair is left .*300 too long.*raise data\.max_length"
    ) as error:
        experiment.train(recipe(data={"max_length": 2}), tmp_path / "none")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "none").exists()
