"""Training one model on several devices and machines."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"strategy": ["make_strategy"]})
