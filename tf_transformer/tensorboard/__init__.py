"""Data for TensorBoard: metrics, sample translations, settings, and the tab Attention."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "board": ["AttentionBoard"],
        "page": ["show", "write_page"],
        "samples": ["SampleTranslations"],
        "summary": ["attention_summary"],
    },
)
