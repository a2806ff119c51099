"""The models of one run, or of several as an ensemble, with the tokenizers that they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_transformer.errors import UserError
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model

if TYPE_CHECKING:
    from tf_transformer.models.ensemble import Ensemble
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.tokenizers import TokenizerPair


def load_models(runs: Sequence[RunDirectory]) -> tuple[SequenceModel | Ensemble, TokenizerPair]:
    """Loads each run's model to work in float32: the model of a single run, or an `Ensemble` of several.

    Raises:
        UserError: a model is missing or damaged, or the runs have not the same tokenizers.
    """
    first, *others = runs
    checkpoints = [run.best_checkpoint() for run in runs]  # before all else: a training that has just begun has none
    tokenizers = first.load_tokenizers()
    for other in others:
        if not other.load_tokenizers().same_as(tokenizers):
            raise UserError(
                f"{other.path}: its tokenizer differs from that of {first.path}, but an ensemble needs one for all; "
                "give models that were trained with the same tokenizer settings on the same training text"
            )
    models = [load_model(checkpoint, "float32") for checkpoint in checkpoints]
    if not others:
        return models[0], tokenizers
    from tf_transformer.models.ensemble import Ensemble

    return Ensemble(models), tokenizers
