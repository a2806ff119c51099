"""The models: the Transformer and the recurrent model, what both are written against, and a step of their training."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "recurrent": ["RecurrentModel"],
        "sequence_model": ["SequenceModel"],
        "transformer": ["Transformer"],
    },
)
