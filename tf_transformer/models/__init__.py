"""The models: the Transformer, the recurrent model and ensembles; what they are written against."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "ensemble": ["Ensemble"],
        "recurrent": ["RecurrentModel"],
        "sequence_model": ["SequenceModel"],
        "transformer": ["Transformer"],
    },
)
