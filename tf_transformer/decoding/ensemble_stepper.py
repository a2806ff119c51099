"""Runs several models one target position at a time, side by side, as if they were one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from tf_transformer.decoding.interface import Stepping, derived_from_weights
from tf_transformer.layers.masks import PAD_ID

LEAST = 1e-30  # which is not 0, so that it has a logarithm


class EnsembleStepper:
    """Steps through a target with several steppers, each with a cache of its own; see `Ensemble`.

    Args:
        steppers: the models' own.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> from tf_transformer.decoding import EnsembleStepper
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> source = np.array([[5, 6, 3]])
        >>> _ = model((source, source))
        >>> stepper = EnsembleStepper([model.stepper(), model.stepper()])
        >>> seen = np.ones((1, 1, 1), "bool")
        >>> log_probs, caches = stepper.step(np.array([2]), 0, stepper.start_cache(source), seen)
        >>> log_probs.shape
        TensorShape([1, 20])
    """

    def __init__(self, steppers: Sequence[Stepping]) -> None:
        self.steppers = list(steppers)

    @property
    def derived(self) -> list[Any]:
        """What is worked out from the models' weights, one model after the other; see `Stepper.derived`."""
        return [each for stepper in self.steppers for each in derived_from_weights(stepper)]

    @derived.setter
    def derived(self, tensors: list[Any]) -> None:
        start = 0
        for stepper in self.steppers:
            if number := len(derived_from_weights(stepper)):
                stepper.derived = tensors[start : start + number]
                start += number

    def start_cache(self, source_ids: Any, beams: Any = 1, steps: Any | None = None) -> list[Any]:
        """Encodes the source, int (batch, source_len), with each model; see `Stepper.start_cache`."""
        return [stepper.start_cache(source_ids, beams, steps) for stepper in self.steppers]

    def step(self, ids: Any, position: Any, cache: list[Any], history: Any) -> tuple[Any, list[Any]]:
        """Computes the mean of the models' log-probabilities at one target position; see `Stepper.step`.

        Returns:
            The next token's log-probabilities, float32 (batch * beams, target_vocab_size), and the new caches.
        """
        steps = [stepper.step(ids, position, part, history) for stepper, part in zip(self.steppers, cache, strict=True)]
        return mean_log_probabilities([logits for logits, _ in steps]), [part for _, part in steps]

    def settle(self, cache: list[Any], rows: Any | None, entries: Any) -> list[Any]:
        """Keeps some rows of each model's cache, and of each of them some entries; see `Stepper.settle`."""
        return [stepper.settle(part, rows, entries) for stepper, part in zip(self.steppers, cache, strict=True)]


def mean_log_probabilities(logits: Sequence[Any]) -> Any:
    """The mean of several models' log-probabilities, each token's on its own.

    Where models disagree, means add up to less than 1 as probabilities. The padding, which is never chosen, gets the
    rest: then they are the logits of a distribution, as of any model, and a softmax changes none of them.

    Args:
        logits: each model's, float (..., vocabulary).

    Returns:
        float32 (..., vocabulary).

    Example:
        >>> import numpy as np
        >>> from tf_transformer.decoding.ensemble_stepper import mean_log_probabilities
        >>> two = [np.log([[0.1, 0.1, 0.8]]), np.log([[0.1, 0.4, 0.5]])]
        >>> print(np.exp(mean_log_probabilities(two)).round(2))  # 0.2 is the root of 0.1 * 0.4
        [[0.17 0.2  0.63]]
    """
    log_probs = [ops.log_softmax(ops.cast(each, "float32"), axis=-1) for each in logits]
    mean = sum(log_probs) / len(log_probs)
    is_padding = ops.equal(ops.arange(mean.shape[-1]), PAD_ID)
    others = ops.sum(ops.where(is_padding, 0.0, ops.exp(mean)), axis=-1, keepdims=True)
    return ops.where(is_padding, ops.log(ops.maximum(1.0 - others, LEAST)), mean)
