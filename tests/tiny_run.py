"""A run that trains in seconds: a small Transformer that knows 24 sentences by heart."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from tf_transformer.runs.directory import RunDirectory

RECIPE = Path(__file__).parents[1] / "train" / "recipes" / "demo.yaml"

_SUBJECTS = [("A man", "Ein Mann"), ("A woman", "Eine Frau"), ("The child", "Das Kind"), ("Our dog", "Unser Hund")]
_VERBS = [("sees", "sieht"), ("loves", "liebt"), ("finds", "findet")]
_OBJECTS = [("a house", "ein Haus"), ("the green apple", "den grünen Apfel")]

PAIRS = [
    tuple(" ".join(words) + "." for words in zip(*parts, strict=True)) for parts in product(_SUBJECTS, _VERBS, _OBJECTS)
]

# The most tokens that the model takes, the closing one counted.
MAX_LENGTH = 40


def write_pairs(folder: Path, pairs=PAIRS) -> tuple[Path, Path]:
    """Writes `pairs.en` and `pairs.de`."""
    paths = folder / "pairs.en", folder / "pairs.de"
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return paths


def settings(data: Path, **replaced) -> list[str]:
    """What makes the demo's recipe one for `write_pairs(data)`; a keyword's `__` stands for the key's point."""
    both = "[pairs.en, pairs.de]"
    chosen = {
        "name": "tiny",
        "data__kind": "files",
        "data__root": data,
        "data__train": both,
        "data__validation": both,
        "data__test": both,
        "data__max_length": MAX_LENGTH,
        "data__batch_tokens": 256,
        "tokenizer__vocab_size": 440,
        "model__num_layers": 1,
        "model__d_model": 32,
        "model__num_heads": 2,
        "model__dff": 64,
        "model__dropout_rate": 0.0,
        "model__max_length": MAX_LENGTH,
        "training__steps": 100,
        "training__warmup_steps": 40,
        "training__validate_every": 50,
        "training__label_smoothing": 0.0,
        "training__distribution": "single",
        "training__sample_translations": 0,
        "tensorboard__attention": 0,
        "tensorboard__bleu": 0,
        "evaluation__extra_length": 10,
    }
    return [f"{key.replace('__', '.')}={value}" for key, value in {**chosen, **replaced}.items()]


def tiny_run(base: Path) -> RunDirectory:
    """Trains the run, unless that is done already; `base` is `tmp_path_factory.getbasetemp()`."""
    from tf_transformer.experiment import train
    from tf_transformer.recipe import load_recipe

    with one_at_a_time(base, "run") as folder:
        path = folder / "runs" / "tiny"
        if path.exists():
            return RunDirectory.open(path)
        data = folder / "data"
        data.mkdir()
        write_pairs(data)
        return train(load_recipe(RECIPE, settings(data)), path)


def tiny_export(base: Path) -> Path:
    """Exports the run without a compiled search, unless that is done already."""
    from tf_transformer.experiment import export_run

    run = tiny_run(base)
    with one_at_a_time(base, "export") as folder:
        path = folder / "savedmodels" / "tiny" / "1"
        # What loads it compiles nothing, which takes seconds a shape; test_compiled.py does.
        return path if path.exists() else export_run(run, path, compiled=False)


@contextmanager
def one_at_a_time(base: Path, what: str) -> Iterator[Path]:
    """Gives the folder that all test processes of a session have in common; the second waits for the first."""
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with open(folder / f"{what}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        yield folder
