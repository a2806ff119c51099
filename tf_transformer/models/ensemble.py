"""Several models that choose each word together, by the mean of their log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tf_transformer.decoding.ensemble_stepper import EnsembleStepper, mean_log_probabilities
from tf_transformer.errors import UserError
from tf_transformer.models.pair_reading import PairReading
from tf_transformer.models.sequence_model import SequenceModel


@keras.saving.register_keras_serializable(package="tf_transformer")
class Ensemble(PairReading, keras.Model):
    """Trained models as one: the log-probability of a token is the mean of theirs.

    So a translation's log-probability is the mean of those that the models give it, and what one of them considers
    impossible the others can't make likely. The models may differ in size and kind, but not in their vocabularies. A
    search, a `Translator` and an export take an ensemble wherever they take a model; it is not for training.

    What it gives as attention is one layer a model, of one head: the mean of all that model's layers and heads. From
    target to source it is a model's `alignment_head` instead, if there is one.

    Args:
        models: two or more, of the same vocabularies and the same precision.

    Raises:
        UserError: there are fewer than two, or their vocabulary sizes or precisions differ.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> small = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> other = tt.RecurrentModel(2, 8, input_vocab_size=20, target_vocab_size=20)
        >>> ensemble = tt.Ensemble([small, other])
        >>> ensemble((np.array([[5, 6, 3]]), np.array([[2, 7]]))).shape
        TensorShape([1, 2, 20])
    """

    alignment_head = None  # the mean over its models
    told = None  # each of its models may have its own

    def __init__(self, models: Sequence[SequenceModel], **kwargs: Any) -> None:
        models = list(models)
        if len(models) < 2:
            raise UserError(f"an ensemble of {len(models)} models; give two or more")
        for name in ("input_vocab_size", "target_vocab_size", "dtype_policy"):
            values = [getattr(model, name) for model in models]
            for number, value in enumerate(values):
                if value != values[0]:
                    told = [getattr(each, "name", each) for each in (value, values[0])]
                    raise UserError(
                        f"{name} is {told[0]} for models[{number}], but {told[1]} for models[0]; all models of an "
                        "ensemble need the same"
                    )
        super().__init__(**{"dtype": models[0].dtype_policy, **kwargs})
        self.models = models
        self.input_vocab_size, self.target_vocab_size = models[0].input_vocab_size, models[0].target_vocab_size
        self.max_length = min(model.max_length for model in models)
        self.built = all(model.built for model in models)  # else Keras would export none, and warn as it saves one

    def build(self, input_shape: tuple) -> None:
        for model in self.models:
            if not model.built:
                model.build(input_shape)

    def call(self, inputs: Any, return_attention_scores: bool = False, training: bool | None = None) -> Any:
        """Computes the mean of the models' log-probabilities at every target position.

        Args:
            inputs: a pair of source and target ids, as the models take it.
            return_attention_scores: whether to return the weights too.
            training: whether dropout is on.

        Returns:
            Log-probabilities, float32 (batch, target_len, target_vocab_size), where padding has what the others leave;
            with `return_attention_scores` a pair of them and the weights that all models have, by their names, as lists
            over models, each (batch, 1, rows, columns).
        """
        inputs = tuple(inputs)
        outputs = [model(inputs, return_attention_scores=True, training=training) for model in self.models]
        log_probs = mean_log_probabilities([logits for logits, _ in outputs])
        if not return_attention_scores:
            return log_probs
        weights = [scores for _, scores in outputs]
        common = [kind for kind in weights[0] if all(kind in scores for scores in weights)]
        of_models = list(zip(self.models, weights, strict=True))
        return log_probs, {
            kind: [_one_head(model, kind, scores[kind]) for model, scores in of_models] for kind in common
        }

    def stepper(self) -> EnsembleStepper:
        """Reads the models' weights for one search."""
        return EnsembleStepper([model.stepper() for model in self.models])

    def share_constants(self) -> None:
        """Makes one tensor of each table that is no weight, where every graph of an export would hold a copy."""
        for model in self.models:
            model.share_constants()

    def get_config(self) -> dict[str, Any]:
        models = [_uncompiled(keras.saving.serialize_keras_object(model)) for model in self.models]
        return {**super().get_config(), "models": models}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Ensemble:
        # A file written by an earlier version may tell how its models were compiled.
        models = [keras.saving.deserialize_keras_object(_uncompiled(model)) for model in config["models"]]
        return cls(**{**config, "models": models})


def _uncompiled(config: dict[str, Any]) -> dict[str, Any]:
    """A model's config without what it was compiled with, whose classes `load_model` does not import."""
    return {key: value for key, value in config.items() if key != "compile_config"}


def _one_head(model: SequenceModel, kind: str, layers: list[Any]) -> Any:
    """A model's weights, (batch, heads, rows, columns) a layer, as one head's: float32 (batch, 1, rows, columns).

    They are the mean over layers and heads, or from target to source those of the model's `alignment_head`.
    """
    if kind == "cross" and model.alignment_head:
        return ops.cast(model.head_of(layers)[:, None], "float32")
    heads = ops.concatenate([ops.cast(layer, "float32") for layer in layers], axis=1)
    return ops.mean(heads, axis=1, keepdims=True)
