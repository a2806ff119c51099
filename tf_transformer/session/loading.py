"""Chooses how a SavedModel is loaded, and how many batches are worked on at once. Imports nothing that takes time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tf_transformer.cores import cores
from tf_transformer.files.model_formats import is_saved_model

if TYPE_CHECKING:
    from tf_transformer.session.signature import Signature
    from tf_transformer.translation.loading import LoadSignature
    from tf_transformer.translation.texts import Translate


def session_loader(
    models: Path | Sequence[Path], engine: str = "tensorflow", optimise: bool = False
) -> LoadSignature | None:
    """What loads a SavedModel's signatures without importing TensorFlow for Python, which takes seconds.

    Args:
        models: what the user gave as a model, or as models of an ensemble, none of which is a SavedModel.
        engine: what is to run it.
        optimise: whether its graph is made faster first, which pays where thousands of sentences are.

    Returns:
        What `tf_transformer.translation.loading.load_signature` takes; None for a model of another kind, and where
        TensorFlow was installed without its C library.
    """
    from tf_transformer.session.c_api import find_library

    model, *others = [models] if isinstance(models, Path) else models
    if engine != "tensorflow" or others or not is_saved_model(model) or find_library() is None:
        return None

    def load(path: Path, name: str) -> Signature | None:
        # Not before, since it imports NumPy: the commands import that while TensorFlow's library is loaded.
        from tf_transformer.session.signature import load_in_session

        return load_in_session(path, name, streams=cores(), optimise=optimise)

    return load


def streams_of(translate: Translate) -> int:
    """Number of batches to process at once: one on each core, unless what translates has a number of its own."""
    return getattr(translate, "streams", cores())
