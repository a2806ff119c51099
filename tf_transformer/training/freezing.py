"""Layers whose weights stay as they are while the others learn."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from tf_transformer.errors import UserError


def freeze(model: keras.Model, layers: Sequence[str]) -> int:
    """Keeps weights from being trained. To be called before the optimizer is built.

    A matrix that several layers share is frozen for all of them. What is frozen stays so in a file to which the model
    is saved; a weight with `weight.trainable = True` learns again, once the model is compiled again.

    Args:
        model: a built model.
        layers: the paths of layers, such as "encoder" or "decoder/layer_0/self_attention"; all that is in them is
            frozen.

    Returns:
        How many parameters are frozen.

    Raises:
        UserError: the model is not built or has no such layer, nothing would be left to train, or `layers` is not a
            list; nothing is frozen then.

    Example:
        >>> import tf_transformer as tt
        >>> from tf_transformer.training import freeze
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> model.build(((None, None), (None, None)))
        >>> freeze(model, ["encoder/embedding", "projection"])  # two matrices of 20 rows of 8
        320
    """
    if isinstance(layers, str):
        raise UserError(f"layers is a string; give a list: [{layers!r}]")
    if not model.built:
        raise UserError("layers: the model is not built, so it has no weights yet; build it, or call it once")
    # Those that are frozen already too: a model may have been loaded with them.
    paths = {path_in_model(variable): variable for variable in model.weights}
    for name in layers:
        if not any(_is_in(path, name) for path in paths):
            raise UserError(f"layers: the model has no {name}; choose from {', '.join(_nearest(paths, name))}")
    frozen = [variable for path, variable in paths.items() if any(_is_in(path, name) for name in layers)]
    if all(any(variable is each for each in frozen) for variable in model.trainable_variables):
        raise UserError(f"layers: freezing {', '.join(layers)} leaves nothing to train; leave some out")
    for variable in frozen:
        variable.trainable = False
    return sum(variable.shape.num_elements() for variable in frozen)


def path_in_model(variable: keras.Variable) -> str:
    """The path of a weight in its model, without the model's own name."""
    return variable.path.partition("/")[2]


def _is_in(path: str, layer: str) -> bool:
    return f"{path}/".startswith(f"{layer.strip('/')}/")


def _nearest(paths: Sequence[str], name: str) -> list[str]:
    """The layers to choose from: those in the part of the name that is right."""
    within = ""
    for part in name.strip("/").split("/"):
        if not any(_is_in(path, within + part) for path in paths):
            break
        within += f"{part}/"
    inner = (path.removeprefix(within).split("/") for path in paths if path.startswith(within))
    return list(dict.fromkeys(within + parts[0] for parts in inner))
