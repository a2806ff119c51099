"""Recipes that train within seconds, and what breaks such a training off."""

import signal
from contextlib import contextmanager

import pytest

from tests.tiny_run import write_pairs
from tf_transformer.experiment import fitting
from tf_transformer.recipe import Recipe
from tf_transformer.training import EpochEnds
from tf_transformer.training.step_count import steps_taken

STEPS = 6
QUICK = {"warmup_steps": 1, "distribution": "single", "save_every_seconds": 0, "sample_translations": 0}


def recipe(seed=1, data=None, tensorboard=None, **training) -> Recipe:
    """A tiny recipe on the demo's smaller splits, whose last validation comes before its time, at the last step."""
    return Recipe.model_validate(
        {
            "name": "tiny",
            "seed": seed,
            "data": {"kind": "demo", "train": "validation", "max_length": 64, "batch_tokens": 512, **(data or {})},
            "tokenizer": {"vocab_size": 500},
            "model": {"num_layers": 1, "d_model": 16, "num_heads": 2, "dff": 32, "max_length": 64},
            "training": {
                "steps": STEPS,
                "validate_every": 4,
                "warmup_steps": 5,
                "sample_translations": 2,
                **training,
            },
            "tensorboard": {"attention": 0, **(tensorboard or {})},
            "evaluation": {"extra_length": 0, "batch_size": 300, "beam_size": 1},
        }
    )


def on(folder, pairs, batch_tokens, max_length=64, **training):
    """A recipe that trains on the pairs, and looks at the first four of them in validations and for its scores."""
    for path in write_pairs(folder, pairs[:4]):
        path.rename(path.with_stem("few"))
    write_pairs(folder, pairs)
    files = {"kind": "files", "root": str(folder)}
    files |= {"train": ["pairs.en", "pairs.de"], "validation": ["few.en", "few.de"]}
    made = recipe(data=files, **{**QUICK, **training})
    changes = {
        "data": {"max_length": max_length, "batch_tokens": batch_tokens},
        "model": {"max_length": max_length},
        "tokenizer": {"vocab_size": 440},
    }
    sections = {name: getattr(made, name).model_copy(update=values) for name, values in changes.items()}
    return made.model_copy(update=sections)


@contextmanager
def ctrl_c_after(step=None):
    """Within it, Ctrl-C ends a training after a step; without one, after the last validation.

    A shell turns it off for what it starts in the background, and so perhaps for these tests.
    """

    class ControlC(EpochEnds):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if steps_taken(self.model) == step:
                signal.raise_signal(signal.SIGINT)

        def on_train_end(self, logs=None):
            if step is None:
                signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(fitting, "EpochEnds", ControlC)
        yield
    signal.signal(signal.SIGINT, before)
