"""Rounds of the engines on PyTorch."""

from __future__ import annotations

from collections.abc import Callable

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
