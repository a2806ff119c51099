"""A run that trains in seconds: a small Transformer that knows 24 sentences by heart."""

from itertools import product
from pathlib import Path

from tf_transformer.run_directory import RunDirectory

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


def tiny_run(folder: Path) -> RunDirectory:
    """Trains the run in `folder`, unless it is there already."""
    from tf_transformer.experiment import train
    from tf_transformer.recipe import load_recipe

    path = folder / "runs" / "tiny"
    if path.exists():
        return RunDirectory.open(path)
    data = folder / "data"
    data.mkdir()
    write_pairs(data)
    return train(load_recipe(RECIPE, settings(data)), path)


def tiny_export(folder: Path) -> Path:
    """Exports `tiny_run(folder)`, unless that is done already."""
    from tf_transformer.experiment import export_run

    path = folder / "savedmodels" / "tiny" / "1"
    return path if path.exists() else export_run(tiny_run(folder), path)
