"""MarianMT models, as OPUS-MT's come in the transformers library: read into a run's folder, and written from one."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "exporting": ["export_marian"],
        "importing": ["import_marian"],
    },
)
