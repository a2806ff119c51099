"""A run that learns in seconds to parse two dozen sentences by heart."""

from itertools import product
from pathlib import Path

from tests.tiny_run import RECIPE, one_at_a_time, settings
from tf_transformer.runs.directory import RunDirectory

_SUBJECTS = ["(NP-SBJ (DT A) (NN man))", "(NP-SBJ (PRP$ Our) (JJ old) (NN dog))", "(NP-SBJ (PRP She))"]
_VERBS = ["(VBZ sees)", "(VBZ loves)"]
_OBJECTS = ["(NP (DT a) (NN house))", "(NP (NP (DT the) (NN cat)) (PP (IN in) (NP (DT the) (NN park))))"]
_ENDS = ["", " (ADVP-TMP (RB today))"]

TREES = [
    f"( (S {subject} (VP {verb} {thing}{end}) (. .)) )"
    for subject, verb, thing, end in product(_SUBJECTS, _VERBS, _OBJECTS, _ENDS)
]


def parsing_settings(data: Path, **replaced) -> list[str]:
    """What makes the demo's recipe one for `trees.mrg` in a folder."""
    chosen = {
        "name": "tiny_parser",
        "task": "parsing",
        "data__kind": "trees",
        "data__train": "trees.mrg",
        "data__validation": "trees.mrg",
        "data__test": "trees.mrg",
        "tokenizer__joint": "false",
        "tokenizer__vocab_size": 320,
        "model__share_embeddings": "target",
        "tensorboard__bleu": 5,
        "training__steps": 120,
        "training__validate_every": 60,
        "evaluation__extra_length": 20,
    }
    return settings(data, **{**chosen, **replaced})


def write_trees(folder: Path, trees=TREES) -> Path:
    path = folder / "trees.mrg"
    path.write_text("".join(tree + "\n" for tree in trees), encoding="utf-8")
    return path


def tiny_parser(base: Path) -> RunDirectory:
    """Trains the run, unless that is done already; `base` is `tmp_path_factory.getbasetemp()`."""
    from tf_transformer.experiment import train
    from tf_transformer.recipe import load_recipe

    with one_at_a_time(base, "parser") as folder:
        path = folder / "runs" / "parser"
        if path.exists():
            return RunDirectory.open(path)
        write_trees(folder)
        return train(load_recipe(RECIPE, parsing_settings(folder)), path)


def tiny_parser_export(base: Path) -> Path:
    """Exports the run, unless that is done already."""
    from tf_transformer.experiment import export_run

    run = tiny_parser(base)
    with one_at_a_time(base, "parser_export") as folder:
        path = folder / "savedmodels" / "parser" / "1"
        return path if path.exists() else export_run(run, path)
