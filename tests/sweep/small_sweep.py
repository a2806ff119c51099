"""The smallest sweep there is, for tests."""

import yaml

from tests.tiny_run import RECIPE

SMALLEST = {"name": "small", "recipe": str(RECIPE), "rows": {"base": None}, "seeds": [1]}


def write(folder, **changes):
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({**SMALLEST, **changes}, sort_keys=False))
    return path
