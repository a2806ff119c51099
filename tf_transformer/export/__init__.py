"""Exports trained models, with their tokenizers, for serving: text in, text out."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "argos": ["export_argos"],
        "ctranslate2": ["export_ctranslate2"],
        "ctranslate2_engine": ["load_ctranslate2"],
        "destinations": ["version_folder"],
        "saved_model": ["export_saved_model", "used_ops"],
        "translator": ["Translator"],
    },
)
