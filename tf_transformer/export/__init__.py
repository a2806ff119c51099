"""Exports trained models, with their tokenizers, for serving: text in, text out."""

from typing import Any

import lazy_loader

_of_this_folder, _, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "argos": ["export_argos"],
        "ctranslate2": ["export_ctranslate2"],
        "destinations": ["version_folder"],
        "saved_model": ["export_saved_model", "used_ops"],
    },
)
__all__ += ["Translator", "load_ctranslate2"]  # which lay here once


def __getattr__(name: str) -> Any:
    if name == "Translator":
        from tf_transformer.translation import Translator

        return Translator
    if name == "load_ctranslate2":
        from tf_transformer.translation.ctranslate2_engine import load_ctranslate2

        return load_ctranslate2
    return _of_this_folder(name)


def __dir__() -> list[str]:
    return __all__
