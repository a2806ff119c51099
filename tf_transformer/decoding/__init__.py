"""Decoding word by word: a strategy over a step function."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"greedy": ["greedy_search"]})
