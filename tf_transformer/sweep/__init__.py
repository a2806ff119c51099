"""Trains one recipe with several settings and seeds, and compares the results."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "results": ["compare"],
        "running": ["run_sweep"],
        "settings": ["Sweep", "load_sweep"],
    },
)
