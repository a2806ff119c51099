"""Learning-rate schedules: the paper's (Vaswani et al., 2017, section 5.3), inverse square root and cosine.

All rise linearly at first. The paper counts steps from 1 and Keras from 0: `schedule(0)` is the rate of the first step.
"""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from tf_transformer.layers.arguments import check_sizes


@keras.saving.register_keras_serializable(package="tf_transformer")
class TransformerSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly for `warmup_steps` steps, then falls with the inverse square root of the step.

    `rate = scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)`, the paper's equation 3 times `scale`.

    Args:
        d_model: width of the model.
        warmup_steps: steps until the peak, `scale * (d_model * warmup_steps)^-0.5`.
        scale: factor on the paper's rate.

    Raises:
        ValueError: `d_model` or `warmup_steps` that is no positive integer.

    Example:
        >>> from tf_transformer import TransformerSchedule
        >>> round(float(TransformerSchedule(d_model=512)(3999)), 6)
        0.000699
    """

    def __init__(self, d_model: int, warmup_steps: int = 4000, scale: float = 1.0) -> None:
        super().__init__()
        self.d_model, self.warmup_steps = check_sizes(d_model=d_model, warmup_steps=warmup_steps)
        self.scale = scale

    def __call__(self, step: Any) -> Any:
        step = _from_one(step)
        rate = ops.minimum(step**-0.5, step * self.warmup_steps**-1.5)
        return self.scale * self.d_model**-0.5 * rate

    def get_config(self) -> dict[str, Any]:
        return {"d_model": self.d_model, "warmup_steps": self.warmup_steps, "scale": self.scale}


@keras.saving.register_keras_serializable(package="tf_transformer")
class InverseSqrtSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The paper's schedule by its peak: `rate = learning_rate * min(step / warmup_steps, sqrt(warmup_steps / step))`.

    Args:
        learning_rate: the peak.
        warmup_steps: steps until the peak.

    Raises:
        ValueError: `learning_rate` not above 0, or `warmup_steps` that is no positive integer.

    Example:
        >>> from tf_transformer import InverseSqrtSchedule
        >>> schedule = InverseSqrtSchedule(learning_rate=0.001, warmup_steps=4000)
        >>> [round(float(schedule(step - 1)), 6) for step in (2000, 4000, 16_000)]
        [0.0005, 0.001, 0.0005]
    """

    def __init__(self, learning_rate: float, warmup_steps: int = 4000) -> None:
        super().__init__()
        _check_learning_rate(learning_rate)
        self.learning_rate = learning_rate
        (self.warmup_steps,) = check_sizes(warmup_steps=warmup_steps)

    def __call__(self, step: Any) -> Any:
        step = _from_one(step)
        return self.learning_rate * ops.minimum(step / self.warmup_steps, (step / self.warmup_steps) ** -0.5)

    def get_config(self) -> dict[str, Any]:
        return {"learning_rate": self.learning_rate, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable(package="tf_transformer")
class CosineSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly for `warmup_steps` steps, then falls to 0 at `steps` as half a cosine (Loshchilov & Hutter, 2017).

    `rate = learning_rate * (1 + cos(pi * (step - warmup_steps) / (steps - warmup_steps))) / 2` after the peak.

    Args:
        learning_rate: the peak.
        warmup_steps: steps until the peak.
        steps: steps of the whole training run; the rate stays 0 after it.

    Raises:
        ValueError: `learning_rate` not above 0, `warmup_steps` that is no positive integer, or `steps` not above
            `warmup_steps`.

    Example:
        >>> from tf_transformer import CosineSchedule
        >>> schedule = CosineSchedule(learning_rate=0.001, warmup_steps=1000, steps=9000)
        >>> [round(float(schedule(step - 1)), 6) for step in (500, 1000, 5000, 9000)]
        [0.0005, 0.001, 0.0005, 0.0]
    """

    def __init__(self, learning_rate: float, warmup_steps: int, steps: int) -> None:
        super().__init__()
        _check_learning_rate(learning_rate)
        self.learning_rate = learning_rate
        self.warmup_steps, self.steps = check_sizes(warmup_steps=warmup_steps, steps=steps)
        if self.steps <= self.warmup_steps:
            raise ValueError(f"steps must be above warmup_steps, {warmup_steps}, got {steps!r}")

    def __call__(self, step: Any) -> Any:
        step = _from_one(step)
        fallen = ops.clip((step - self.warmup_steps) / (self.steps - self.warmup_steps), 0.0, 1.0)
        return self.learning_rate * ops.minimum(step / self.warmup_steps, (1 + ops.cos(math.pi * fallen)) / 2)

    def get_config(self) -> dict[str, Any]:
        return {"learning_rate": self.learning_rate, "warmup_steps": self.warmup_steps, "steps": self.steps}


def _from_one(step: Any) -> Any:
    """The step as the paper counts it, float32."""
    return ops.cast(step, "float32") + 1.0


def _check_learning_rate(learning_rate: float) -> None:
    if not learning_rate > 0:
        raise ValueError(f"learning_rate must be above 0, got {learning_rate!r}")
