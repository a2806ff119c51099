"""A model's attention as it translates, and plots of it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "aligning": ["load_align"],
        "pictures": ["plot_attention"],
        "sentence": ["Inspection", "inspect", "load_attend"],
    },
)
