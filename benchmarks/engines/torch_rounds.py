"""Rounds of the engines on PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from training_worker import ADAM, Options, Training


def set_up_device(options: Options) -> str:
    """Has the CPU use as many threads, and float32 products use what TensorFlow's use on a GPU.

    Returns:
        The device.
    """
    torch.set_num_threads(options["threads"])
    if not options["gpu"]:
        return "cpu"
    torch.set_float32_matmul_precision("high")
    return "cuda"


def in_precision(loss: Callable[..., torch.Tensor], options: Options) -> Callable[..., torch.Tensor]:
    """The loss, computed in the precision of the options."""
    if options["precision"] == "float32":
        return loss
    return torch.autocast("cuda" if options["gpu"] else "cpu", torch.bfloat16)(loss)


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

    on_gpu = next(model.parameters()).is_cuda

    def train() -> None:
        model.train()
        for batch in batches:
            optimizer.zero_grad()
            step(*batch).backward()
            optimizer.step()
        if on_gpu:
            torch.cuda.synchronize()

    @torch.no_grad()
    def of_checked() -> float:
        model.eval()
        return float(loss(*checked))

    def peak_mib() -> float:
        return torch.cuda.max_memory_allocated() / 2**20

    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Training(parameters, train, of_checked, peak_mib if on_gpu else None)
