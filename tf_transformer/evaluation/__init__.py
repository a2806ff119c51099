"""Scores of translations, and what is odd in them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "oddities": ["share_of_oddities"],
        "perturbation": ["evaluate_perturbed"],
        "scores": ["Scores", "evaluate_translations", "score_translations"],
    },
)
