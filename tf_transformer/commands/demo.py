"""The command `demo`: train and use a small model."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from tf_transformer.commands.app import app
from tf_transformer.commands.recipes import OWN
from tf_transformer.terminal.process import quiet_tensorflow
from tf_transformer.training.freed_memory import keep_freed_memory


@app.command()
def demo() -> None:
    """Trains a small model on built-in data in minutes, then evaluates it, exports it and translates with it."""
    from tf_transformer.recipe import load_recipe

    recipe = load_recipe(OWN / "recipes" / "demo.yaml")
    keep_freed_memory()
    with quiet_tensorflow():
        from tf_transformer.demo import run_demo

    run_demo(recipe, Path("runs"), Path("savedmodels"), Console(highlight=False, markup=False, soft_wrap=True))
