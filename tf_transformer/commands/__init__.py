"""What the command `tf-transformer` does: a thin face over the package, a file for each command.

Everything heavy is imported inside the commands, so that `--help` answers at once. It lists them in the order in which
they are imported here.
"""

# isort: off
from tf_transformer.commands import train
from tf_transformer.commands import sweep
from tf_transformer.commands import evaluate
from tf_transformer.commands import translate
from tf_transformer.commands import parse
from tf_transformer.commands import score_trees
from tf_transformer.commands import average
from tf_transformer.commands import export
from tf_transformer.commands import inspect
from tf_transformer.commands import card
from tf_transformer.commands import presets
from tf_transformer.commands import recipes
from tf_transformer.commands import demo
from tf_transformer.commands.app import app

__all__ = ["app", "average", "card", "demo", "evaluate", "export", "inspect", "parse", "presets", "recipes"]
__all__ += ["score_trees", "sweep", "train", "translate"]
