"""One experiment, read from YAML and checked."""

from tf_transformer.recipe.data_settings import DEMO_SPLITS, DataSettings
from tf_transformer.recipe.reading import load_recipe, save_recipe
from tf_transformer.recipe.settings import (
    EvaluationSettings,
    ModelSettings,
    Recipe,
    TokenizerSettings,
    TrainingSettings,
)

__all__ = [
    "DEMO_SPLITS",
    "DataSettings",
    "EvaluationSettings",
    "ModelSettings",
    "Recipe",
    "TokenizerSettings",
    "TrainingSettings",
    "load_recipe",
    "save_recipe",
]
