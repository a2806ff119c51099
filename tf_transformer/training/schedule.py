"""The paper's learning-rate schedule (Vaswani et al., 2017, section 5.3)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tf_transformer")
class TransformerSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly for `warmup_steps` steps, then falls with the inverse square root of the step.

    `rate = scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)`, the paper's equation 3 times `scale`.
    The paper counts steps from 1 and Keras from 0: `schedule(0)` is the rate of the first step.

    Args:
        d_model: width of the model.
        warmup_steps: steps until the peak, `scale * (d_model * warmup_steps)^-0.5`.
        scale: factor on the paper's rate.

    Raises:
        ValueError: `d_model` or `warmup_steps` below 1.

    Example:
        >>> from tf_transformer import TransformerSchedule
        >>> round(float(TransformerSchedule(d_model=512)(3999)), 6)
        0.000699
    """

    def __init__(self, d_model: int, warmup_steps: int = 4000, scale: float = 1.0) -> None:
        super().__init__()
        for name, number in {"d_model": d_model, "warmup_steps": warmup_steps}.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number!r}")
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32") + 1.0
        rate = ops.minimum(step**-0.5, step * self.warmup_steps**-1.5)
        return self.scale * self.d_model**-0.5 * rate

    def get_config(self) -> dict[str, Any]:
        return {"d_model": self.d_model, "warmup_steps": self.warmup_steps, "scale": self.scale}
