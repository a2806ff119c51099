"""Runs: the files in their folders, the states that they resume from, and their interruption."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"checkpoints": ["Checkpoints"], "loading": ["load_model"]},
)
