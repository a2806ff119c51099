"""The commands of `tf-transformer`, one module for each: a thin layer over the package.

Heavy modules are imported inside the commands, so that `--help` answers at once. The help lists the commands in the
order of the imports below.
"""

# isort: off
from tf_transformer.commands import train
from tf_transformer.commands import prepare
from tf_transformer.commands import filter
from tf_transformer.commands import sweep
from tf_transformer.commands import evaluate
from tf_transformer.commands import translate
from tf_transformer.commands import backtranslate
from tf_transformer.commands import parse
from tf_transformer.commands import score_trees
from tf_transformer.commands import average
from tf_transformer.commands import import_model
from tf_transformer.commands import export
from tf_transformer.commands import serve
from tf_transformer.commands import inspect
from tf_transformer.commands import card
from tf_transformer.commands import presets
from tf_transformer.commands import recipes
from tf_transformer.commands import demo
from tf_transformer.commands.app import app

__all__ = [
    "app",
    "average",
    "backtranslate",
    "card",
    "demo",
    "evaluate",
    "export",
    "filter",
    "import_model",
    "inspect",
    "parse",
    "prepare",
    "presets",
]
__all__ += ["recipes", "score_trees", "serve", "sweep", "train", "translate"]
