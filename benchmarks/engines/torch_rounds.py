"""What the engines on PyTorch share: their rounds, and how weights are carried over to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from training_worker import ADAM, Training


def torch_training(
    model: torch.nn.Module, step: Callable[..., torch.Tensor], loss: Callable[..., torch.Tensor], batches: list, checked
) -> Training:
    """Makes a round of one update with each batch.

    Args:
        model: what is trained.
        step: the loss of a batch's parts, as it is trained on.
        loss: the same, never compiled.
        batches: those of a round, a tuple of arguments each.
        checked: the rows whose loss is told.
    """
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=ADAM["learning_rate"],
        betas=(ADAM["beta_1"], ADAM["beta_2"]),
        eps=ADAM["epsilon"],
        fused=True,
    )

    def train() -> None:
        model.train()
        for batch in batches:
            optimizer.zero_grad()
            step(*batch).backward()
            optimizer.step()

    @torch.no_grad()
    def of_checked() -> float:
        model.eval()
        return float(loss(*checked))

    return Training(sum(parameter.numel() for parameter in model.parameters()), train, of_checked)


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
