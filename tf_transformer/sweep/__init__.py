"""Many trainings of one recipe, in which settings and seeds vary, and what they come to side by side."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "results": ["compare"],
        "running": ["run_sweep"],
        "settings": ["Sweep", "load_sweep"],
    },
)
