"""How this package's weights are carried over to PyTorch."""

from __future__ import annotations

import numpy as np
import torch


class Weights:
    """This package's weights, to be given to PyTorch's modules.

    Args:
        arrays: by the paths in this package's model.
    """

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self._arrays = arrays

    def assign(self, parameter: torch.nn.Parameter, value: np.ndarray) -> None:
        """Replaces a parameter's values by others of the same shape."""
        assert parameter.shape == value.shape, (parameter.shape, value.shape)
        with torch.no_grad():
            parameter.copy_(torch.tensor(value))

    def linear(self, module: torch.nn.Linear, name: str) -> None:
        self.assign(module.weight, self._arrays[f"{name}/kernel"].T)
        self.assign(module.bias, self._arrays[f"{name}/bias"])

    def joined(self, attention: torch.nn.MultiheadAttention, name: str) -> None:
        """An attention whose queries, keys and values come from one matrix."""
        kinds = [f"{name}/{kind}" for kind in ("query", "key", "value")]
        self.assign(attention.in_proj_weight, np.concatenate([self._arrays[f"{kind}/kernel"].T for kind in kinds]))
        self.assign(attention.in_proj_bias, np.concatenate([self._arrays[f"{kind}/bias"] for kind in kinds]))
        self.linear(attention.out_proj, f"{name}/output")

    def norm(self, module: torch.nn.LayerNorm, name: str) -> None:
        self.assign(module.weight, self._arrays[f"{name}/norm/gamma"])
        self.assign(module.bias, self._arrays[f"{name}/norm/beta"])
