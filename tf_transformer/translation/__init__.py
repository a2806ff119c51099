"""Translating texts: the `Translator`, and the same with a SavedModel or another engine's model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "loading": ["load_translate", "load_translator"],
        "paragraphs": ["Paragraph", "translate_paragraphs"],
        "texts": ["Translation", "translate_texts"],
        "translator": ["Translator"],
    },
)
