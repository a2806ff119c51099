"""Attention in TensorBoard: a summary to write it, a callback, the tab that shows it, and the same as a page."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "board": ["AttentionBoard"],
        "page": ["show", "write_page"],
        "summary": ["attention_summary"],
    },
)
