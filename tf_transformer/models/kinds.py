"""The kinds of model that a recipe can name: what makes each, and which of a recipe's keys are not its own.

A recipe's settings read them, so Keras is imported where a model is made, and not here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tf_transformer.models.sequence_model import SequenceModel


@dataclass(frozen=True)
class ModelKind:
    """One kind of model.

    Attributes:
        model_class: imports its class, and gives it.
        without: the keys of a recipe's section `model` that are not its own, so that these say nothing of it, whatever
            recipe its own extends.
        even_width: whether its `d_model` must be even, however positions are told.
    """

    model_class: Callable[[], type[SequenceModel]]
    without: tuple[str, ...] = ()
    even_width: bool = False

    def make(self, **arguments: Any) -> SequenceModel:
        """Makes a model out of its class's arguments."""
        return self.model_class()(**arguments)


def _transformer() -> type[SequenceModel]:
    from tf_transformer.models.transformer import Transformer

    return Transformer


def _recurrent() -> type[SequenceModel]:
    from tf_transformer.models.recurrent import RecurrentModel

    return RecurrentModel


TRANSFORMER_ALONE = (
    "decoder_layers",
    "alignment_head",
    "num_heads",
    "dff",
    "attention_dropout_rate",
    "activation_dropout_rate",
    "key_dim",
    "value_dim",
    "norm_first",
    "norm_epsilon",
    "activation",
    "position",
    "scale_embeddings",
    "window",
    "next_word",
    "tree_state",
    "tree_loss",
)

# By `model.kind` of a recipe.
MODEL_KINDS = {
    "transformer": ModelKind(_transformer),
    "recurrent": ModelKind(_recurrent, without=TRANSFORMER_ALONE, even_width=True),
}
