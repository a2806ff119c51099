"""Two steps of fine-tuning of an imported run."""

from pathlib import Path
from typing import Any

import yaml

from tests.eager import eagerly
from tests.tiny_run import write_pairs
from tf_transformer.experiment import train
from tf_transformer.recipe import load_recipe
from tf_transformer.runs.directory import RunDirectory


def tune(origin: RunDirectory, folder: Path, validate_every: int, **tensorboard: Any) -> RunDirectory:
    """Trains in a folder, with the origin's tokenizer, and its sizes, which the recipe need not say."""
    write_pairs(folder)
    both = ["pairs.en", "pairs.de"]
    recipe = {
        "name": "tuned",
        "init_from": str(origin.path),
        "data": {"kind": "files", "root": str(folder), "train": both, "validation": both, "max_length": 40},
        "training": {"steps": 2, "validate_every": validate_every, "distribution": "single", "sample_translations": 0},
        "tensorboard": {"attention": 0, **tensorboard},
        "evaluation": {"beam_size": 1, "extra_length": 2},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    with eagerly():
        return train(load_recipe(folder / "recipe.yaml"), folder / "run")
