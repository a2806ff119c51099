"""The models that a recipe can name."""

from __future__ import annotations

from tf_transformer.models.recurrent import RecurrentModel
from tf_transformer.models.sequence_model import SequenceModel
from tf_transformer.models.transformer import Transformer

# By `model.kind` of a recipe.
MODEL_KINDS: dict[str, type[SequenceModel]] = {"transformer": Transformer, "recurrent": RecurrentModel}
