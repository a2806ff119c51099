"""A run: what lies where in its folder, and how it goes on after it was stopped."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"checkpoints": ["Checkpoints"], "directory": ["load_model"]},
)
