"""Recipes whose data is prepared elsewhere, and trainings for which nothing may be prepared."""

from tf_transformer.data.prepared import preparing
from tf_transformer.experiment import vocabulary


def with_data(recipe, **changes):
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=changes)})


def nothing_is_prepared(monkeypatch):
    """From now on it is an error to learn a vocabulary, or to tokenise for a training."""
    monkeypatch.setattr(vocabulary, "train_tokenizers", None)
    monkeypatch.setattr(preparing, "make_part", None)
