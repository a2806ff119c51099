"""Recipes of fine-tunings that train within seconds, and what is in their models."""

import yaml

from tests.tiny_run import MAX_LENGTH, PAIRS
from tf_transformer import load_model

OTHERS = [
    ("A woman eats the apple pies.", "Eine Frau isst die Apfelkuchen."),
    ("Our dogs bark.", "Unsere Hunde bellen."),
]
OTHERS += PAIRS[:2]


def written(path, folder, origin, **changes):
    """Writes a fine-tuning recipe, without any size; a keyword's `__` stands for the key's point."""
    pairs = ["pairs.en", "pairs.de"]
    raw = {
        "name": "tuned",
        "init_from": str(origin.path),
        "data": {"kind": "files", "root": str(folder), "train": pairs, "validation": pairs, "test": pairs},
        "training": {"steps": 4, "validate_every": 2, "warmup_steps": 1, "distribution": "single"},
        "tensorboard": {"attention": 0},
        "evaluation": {"also": {"old": ["known.en", "known.de"]}, "beam_size": 1, "extra_length": 0},
    }
    raw["data"] |= {"max_length": MAX_LENGTH, "batch_tokens": 256}
    raw["training"] |= {"sample_translations": 0, "label_smoothing": 0.0}
    for key, value in changes.items():
        *sections, leaf = key.split("__")
        (raw.setdefault(sections[0], {}) if sections else raw)[leaf] = value
    path.write_text(yaml.safe_dump(raw))
    return path


def weights(path):
    return {weight.path: weight.numpy() for weight in load_model(path).weights}
