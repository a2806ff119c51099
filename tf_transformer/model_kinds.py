"""The models that a recipe can name."""

from __future__ import annotations

from tf_transformer.model import Transformer
from tf_transformer.recurrent_model import RecurrentModel
from tf_transformer.sequence_model import SequenceModel

# By `model.kind` of a recipe.
MODEL_KINDS: dict[str, type[SequenceModel]] = {"transformer": Transformer, "recurrent": RecurrentModel}
