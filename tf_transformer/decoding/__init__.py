"""Decoding token by token: searches and samplers over a model's step."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "alignment": ["align"],
        "beam": ["beam_search"],
        "candidates": ["length_penalty"],
        "ensemble_stepper": ["EnsembleStepper"],
        "options": ["DecodingOptions"],
        "samplers": ["RandomSampler", "row_keys"],
        "scoring": ["score_tokens", "shift_right"],
        "recurrent_stepper": ["RecurrentStepper"],
        "stepper": ["Stepper"],
        "single": ["greedy_search", "sample"],
    },
)
