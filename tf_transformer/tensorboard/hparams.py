"""The settings of a training for TensorBoard's tab HParams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tf_transformer.models.kinds import MODEL_KINDS
from tf_transformer.tensorboard.summary_callback import SummaryCallback

if TYPE_CHECKING:
    from tf_transformer.recipe import Recipe
    from tf_transformer.tensorboard.event_file import EventFile

# The tab opens on five settings: those that differ between trainings, then by the order of their names. So these have
# names that sort first; the others have their recipe's keys.
FIRST = {
    "data.batch_tokens": "batch_tokens",
    "model.d_model": "d_model",
    "model.dropout_rate": "dropout_rate",
    "model.num_layers": "layers",
}
PEAK = "learning_rate"
# What else decides how a model learns; where its text lies, and what is shown and kept of it, does not.
SECTIONS = "model.", "seed", "tokenizer.", "training."
# These under names that sort behind the five.
BEHIND = {
    "data.max_length": "pairs.max_length",
    "data.max_ratio": "pairs.max_ratio",
    "data.placeholders": "pairs.placeholders",
    "data.tags": "pairs.tags",
    "init_from": "model.init_from",
}
KEEPING = (
    "training.validate_every",
    "training.keep_checkpoints",
    "training.save_every_seconds",
    "training.sample_translations",
    "tokenizer.keep",  # of fine-tunings alone
)


class SettingsTable(SummaryCallback):
    """Writes the recipe's settings when a training begins, into the file of the figures to be shown beside them.

    With no description of the columns TensorBoard shows all figures of the file's folder, and puts settings that differ
    between trainings first.

    Args:
        recipe: whose settings they are.
        log_dir: the folder of one of TensorBoard's runs; or its event file, where other callbacks write to it too.
    """

    def __init__(self, recipe: Recipe, log_dir: EventFile) -> None:
        super().__init__(log_dir)
        self.settings = settings(recipe)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        from tensorboard.plugins.hparams import api

        with self.writing():
            # TensorBoard then names it by its folder, as in the other tabs; trainings of one name are one line.
            api.hparams(self.settings, trial_id="")


def settings(recipe: Recipe) -> dict[str, bool | float | str]:
    """The settings that decide how a model learns, by the names that they have in the tab; null has no value there."""
    unused = {f"model.{key}" for key in MODEL_KINDS[recipe.model.kind].without}
    flat = {key: value for key, value in recipe.flat().items() if value not in (None, ()) and key not in unused}
    first = {name: flat.pop(key) for key, name in FIRST.items() if key in flat}
    behind = {name: flat[key] for key, name in BEHIND.items() if key in flat}
    others = {key: _simple(value) for key, value in flat.items() if key.startswith(SECTIONS) and key not in KEEPING}
    return {**first, PEAK: _peak(recipe), **behind, **others}


def _peak(recipe: Recipe) -> float:
    """The highest learning rate, which the paper's schedule has of its own."""
    training = recipe.training
    own = training.learning_rate_scale * (recipe.model.d_model * training.warmup_steps) ** -0.5
    return own if training.schedule == "transformer" else training.learning_rate


def _simple(value: Any) -> bool | float | str:
    """A setting as the tab takes it: a number, a truth value or text."""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
