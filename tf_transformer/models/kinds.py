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
        make: makes one out of its arguments.
        without: the keys of a recipe's section `model` that are not its own, so that these say nothing of it, whatever
            recipe its own extends.
        even_width: whether its `d_model` must be even, however positions are told.
    """

    make: Callable[..., SequenceModel]
    without: tuple[str, ...] = ()
    even_width: bool = False


def _transformer(**arguments: Any) -> SequenceModel:
    from tf_transformer.models.transformer import Transformer

    return Transformer(**arguments)


def _recurrent(**arguments: Any) -> SequenceModel:
    from tf_transformer.models.recurrent import RecurrentModel

    return RecurrentModel(**arguments)


TRANSFORMER_ALONE = (
    "num_heads",
    "dff",
    "attention_dropout_rate",
    "activation_dropout_rate",
    "key_dim",
    "value_dim",
    "norm_first",
    "position",
    "window",
    "next_word",
)

# By `model.kind` of a recipe.
MODEL_KINDS = {
    "transformer": ModelKind(_transformer),
    "recurrent": ModelKind(_recurrent, without=TRANSFORMER_ALONE, even_width=True),
}
