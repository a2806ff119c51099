"""The tab HParams, as TensorBoard's own plugin makes it of what two trainings write."""

from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups

from tests.tiny_run import RECIPE
from tf_transformer.recipe import load_recipe
from tf_transformer.tensorboard.event_file import EventFile
from tf_transformer.tensorboard.hparams import SettingsTable, settings
from tf_transformer.tensorboard.scalars import Figures

OPENS_ON = ["batch_tokens", "d_model", "dropout_rate", "layers", "learning_rate"]


def write_training(folder, name, perplexities, *settings):
    """What the callbacks of a training write, its figures apart."""
    recipe = load_recipe(RECIPE, [f"name={name}", *settings])
    train, validation = EventFile(folder / name / "logs" / "train"), EventFile(folder / name / "logs" / "validation")
    figures, table = Figures(train, validation), SettingsTable(recipe, validation)
    model = SimpleNamespace(optimizer=SimpleNamespace(iterations=0))
    for callback in (figures, table):
        callback.set_model(model)
        callback.on_train_begin()
    for number, perplexity in enumerate(perplexities, start=1):
        model.optimizer.iterations = number * recipe.training.validate_every
        of_training = {"loss": 3.0, "perplexity": 20.0, "tokens": 1000, "learning_rate": 0.001}
        of_validation = {"val_loss": 2.0, "val_perplexity": perplexity, "val_tokens": 90, "val_bleu": 10.0 * number}
        figures.on_epoch_end(number - 1, {**of_training, **of_validation})


def tab_of(folder):
    """The settings and figures in the tab's order, and its lines: name, settings and figures."""
    events = EventMultiplexer().AddRunsFromDirectory(str(folder))
    context = backend_context.Context(TBContext(data_provider=MultiplexerDataProvider(events.Reload(), str(folder))))
    request = api_pb2.GetExperimentRequest(include_metrics=True)
    experiment = get_experiment.Handler(RequestContext(), context, "", request).run()
    wanted = api_pb2.ListSessionGroupsRequest(
        slice_size=99,
        allowed_statuses=[api_pb2.STATUS_UNKNOWN, api_pb2.STATUS_RUNNING, api_pb2.STATUS_SUCCESS],
        col_params=[api_pb2.ColParams(metric=metric.name) for metric in experiment.metric_infos],
        include_metrics=True,
    )
    groups = list_session_groups.Handler(RequestContext(), context, "", wanted).run().session_groups
    lines = {group.name: {each.name.tag: each.value for each in group.metric_values} for group in groups}
    settings = {info.name: info.differs for info in experiment.hparam_infos}
    return settings, [metric.name.tag for metric in experiment.metric_infos], lines


def test_a_training_has_its_name_its_settings_and_its_last_figures(tmp_path):
    write_training(tmp_path, "mine", [9.0, 4.5])
    settings, figures, lines = tab_of(tmp_path)
    assert list(settings)[:5] == OPENS_ON
    assert figures == ["quality/BLEU", "quality/loss", "quality/perplexity"]
    assert lines == {"mine/logs/validation": {"quality/BLEU": 20.0, "quality/loss": 2.0, "quality/perplexity": 4.5}}


def test_what_differs_between_trainings_comes_first(tmp_path):
    write_training(tmp_path, "narrow", [9.0])
    # Other pictures and another count of validations are no other training.
    other = ["tensorboard.attention=3", "training.validate_every=70", "training.label_smoothing=0.2"]
    write_training(tmp_path, "wide", [8.0, 4.0], "model.d_model=256", *other)
    settings, _, lines = tab_of(tmp_path)
    differ = [name for name, differs in settings.items() if differs]
    assert differ == ["d_model", "learning_rate", "training.label_smoothing"] == list(settings)[:3]
    assert [line["quality/perplexity"] for _, line in sorted(lines.items())] == [9.0, 4.0]


def test_trainings_of_two_sweeps_with_the_same_name_are_two_lines(tmp_path):
    write_training(tmp_path / "dropout", "base-seed1", [9.0])
    write_training(tmp_path / "width", "base-seed1", [8.0], "model.d_model=256")
    lines = tab_of(tmp_path)[2]
    perplexities = {name: line["quality/perplexity"] for name, line in lines.items()}
    assert perplexities == {"dropout/base-seed1/logs/validation": 9.0, "width/base-seed1/logs/validation": 8.0}


def test_what_decides_which_pairs_are_learned_is_there(tmp_path):
    write_training(tmp_path, "base", [9.0])
    write_training(tmp_path, "other", [8.0], "data.max_length=30", "data.placeholders=0.2", "data.max_ratio=2.0")
    settings, _, _ = tab_of(tmp_path)
    assert [name for name, differs in settings.items() if differs] == ["pairs.max_length", "pairs.placeholders"]
    assert {"pairs.max_ratio", "pairs.tags"} <= settings.keys()


def test_the_model_that_a_training_begins_with_is_there():
    recipe = load_recipe(RECIPE).model_copy(update={"init_from": "runs/origin"})
    assert settings(recipe)["model.init_from"] == "runs/origin"


@pytest.mark.parametrize("changes", [["training.clip_norm=1.0"], ["training.ema=0.9", "training.early_stopping=3"]])
def test_a_setting_that_is_null_in_one_training_is_there(tmp_path, changes):
    write_training(tmp_path, "without", [9.0])
    write_training(tmp_path, "with", [9.0], *changes)
    settings, _, lines = tab_of(tmp_path)
    assert {change.partition("=")[0] for change in changes} <= settings.keys() and len(lines) == 2
