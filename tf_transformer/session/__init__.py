"""Runs a SavedModel's signature by TensorFlow's C API, in a process that never imports TensorFlow for Python."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "c_api": ["CApiError", "find_library", "library"],
        "signature": ["Signature", "load_in_session"],
    },
)
