"""Writes SavedModels in the layout of TensorFlow Serving: `NAME/VERSION/`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tf_transformer.export.destinations import version_folder
from tf_transformer.export.warmup import warmup_requests, write_warmup
from tf_transformer.files.checksums import write_checksums
from tf_transformer.files.model_formats import OPTIONS_FILE
from tf_transformer.files.whole import folder_written_new
from tf_transformer.model_card.facts import Facts, facts_of_model
from tf_transformer.model_card.files import write_card

if TYPE_CHECKING:
    from tf_transformer.translation.translator import Translator


def export_saved_model(translator: Translator, destination: str | os.PathLike, facts: Facts | None = None) -> Path:
    """Writes a SavedModel with all of the translator's signatures.

    `serving_default` is `translate`; a `Parser`'s is `parse`.

    It needs only tensorflow and tensorflow_text to load: the tokenizers are inside. `assets.extra/` has the names
    of the operations that it uses (`ops.txt`), the options it was exported with, the model card, and requests that
    warm up TensorFlow Serving. `SHA256SUMS` has the files' checksums.

    Args:
        translator: the model with its tokenizers.
        destination: `NAME/VERSION`, or `NAME` for the next version; see `version_folder`.
        facts: of a run, for the model card; those of the translator itself unless given.

    Returns:
        The folder written.

    Raises:
        UserError: the version is there already, or the folder can't be written.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=280, target_vocab_size=280, max_length=64)
        >>> model.build(((None, None), (None, None)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     exported = tt.export_saved_model(tt.Translator(model, tokenizers), f"{folder}/small")
        ...     exported.name, sorted(path.name for path in exported.iterdir() if path.is_file())
        ('1', ['SHA256SUMS', 'fingerprint.pb', 'saved_model.pb'])
    """
    import tensorflow as tf

    folder = version_folder(destination)

    def next_version() -> Path:
        """Where another export has made this version meanwhile; refused if it was asked for by its number."""
        nonlocal folder
        folder = version_folder(destination)
        return folder

    errors = OSError, tf.errors.OpError
    # A server that watches the folder never sees half a version.
    with folder_written_new(folder, "the SavedModel", errors=errors, other=next_version) as partial:
        exported = tf.Module()
        exported.translator = translator
        for name, function in translator.functions.items():
            setattr(exported, name, function)
        default = "parse" if "parse" in translator.functions else "translate"
        signatures = {"serving_default": translator.functions[default], **translator.functions}
        with translator.as_new():
            tf.saved_model.save(exported, str(partial), signatures=signatures)
        extra = partial / "assets.extra"  # which TensorFlow leaves alone
        extra.mkdir()
        (extra / OPTIONS_FILE).write_text(json.dumps(asdict(translator.options), indent=2) + "\n", encoding="utf-8")
        (extra / "ops.txt").write_text("".join(f"{op}\n" for op in used_ops(partial)), encoding="utf-8")
        # All but the model card, which a person may add to, and the requests, which the user may write again.
        write_checksums(partial)
        task = "parsing" if default == "parse" else "translation"
        tags = translator.tokenizers.source.tags
        write_card(extra, facts or facts_of_model(translator.model, translator.options, task, tags))
        write_warmup(partial, warmup_requests(partial))
    return folder


def used_ops(folder: str | os.PathLike) -> list[str]:
    """Lists the operations that a SavedModel is made of, by name: what a server must have to run it.

    Args:
        folder: the SavedModel.

    Example:
        >>> import tempfile
        >>> import tensorflow as tf
        >>> module = tf.Module()
        >>> module.double = tf.function(lambda x: x + x, input_signature=[tf.TensorSpec([], tf.float32)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tf.saved_model.save(module, folder)
        ...     "AddV2" in used_ops(folder)
        True
    """
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    graph = SavedModel.FromString((Path(folder) / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    functions = {function.signature.name for function in graph.library.function}
    return sorted({node.op for node in nodes} - functions)
