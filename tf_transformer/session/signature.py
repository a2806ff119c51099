"""A SavedModel's signature as a function of NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ctypes import c_void_p
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.compat.proto.config_pb2 import ConfigProto
from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef

from tf_transformer.session.c_api import CApiError, Output, checked, library
from tf_transformer.session.graph import INIT, graph_for, operation, read_meta_graph
from tf_transformer.session.tensors import STRING, delete_tensor, new_tensor, to_array


class Signature:
    """Calls a signature in a session of its own. Several threads may call it at once.

    Attributes:
        inputs: the names of the inputs, each with TensorFlow's number of its type.

    Args:
        folder: the SavedModel's folder.
        meta: its graph, as `read_meta_graph` gives it.
        name: the signature's name.
        streams: how many calls there are at once, each in one thread.
        optimise: whether the graph is made faster before it runs. That takes a second or more, and saves a tenth of the
            time of each call: it pays where there are thousands of sentences.

    Raises:
        CApiError: the graph can't be loaded.
    """

    def __init__(self, folder: Path, meta: MetaGraphDef, name: str, streams: int, optimise: bool) -> None:
        signature = meta.signature_def[name]
        self.inputs = {key: info.dtype for key, info in signature.inputs.items()}
        self._fed = {key: info.name for key, info in signature.inputs.items()}
        self._fetched = {key: info.name for key, info in signature.outputs.items()}
        config = _config(streams, optimise)
        self._api = library()
        self._graph = self._api.TF_NewGraph()
        self._import(graph_for(meta, name, config).SerializeToString())
        self._session = self._new_session(config)
        self._set_up(folder, meta)

    def __call__(self, **inputs: Any) -> dict[str, np.ndarray]:
        """Calls it.

        Args:
            **inputs: one for each of `inputs`; strings are str or bytes.

        Returns:
            Its outputs, strings as bytes.

        Raises:
            CApiError: the call failed.
        """
        fed = [(self._fed[name], value, self.inputs[name]) for name, value in inputs.items()]
        return dict(zip(self._fetched, self._run(fed, list(self._fetched.values())), strict=True))

    def __del__(self) -> None:
        if getattr(self, "_session", None):
            checked(self._api.TF_DeleteSession, self._session)
        if getattr(self, "_graph", None):
            self._api.TF_DeleteGraph(self._graph)

    def _import(self, graph: bytes) -> None:
        options, buffer = self._api.TF_NewImportGraphDefOptions(), self._api.TF_NewBufferFromString(graph, len(graph))
        try:
            checked(self._api.TF_GraphImportGraphDef, self._graph, buffer, options)
        finally:
            self._api.TF_DeleteBuffer(buffer)
            self._api.TF_DeleteImportGraphDefOptions(options)

    def _new_session(self, config: bytes) -> int:
        options = self._api.TF_NewSessionOptions()
        try:
            checked(self._api.TF_SetConfig, options, config, len(config))
            return checked(self._api.TF_NewSession, self._graph, options)
        finally:
            self._api.TF_DeleteSessionOptions(options)

    def _set_up(self, folder: Path, meta: MetaGraphDef) -> None:
        """Restores the variables and fills the tables, in this order, as TensorFlow's own loader does."""
        saver = meta.saver_def
        if (folder / "variables" / "variables.index").is_file():
            prefix = os.fspath(folder / "variables" / "variables")
            self._run([(saver.filename_tensor_name, prefix, STRING)], [], [saver.restore_op_name])
        if INIT in meta.signature_def:
            files = [
                (asset.tensor_info.name, os.fspath(folder / "assets" / asset.filename), STRING)
                for asset in meta.asset_file_def
            ]
            self._run(files, [], [operation(info.name) for info in meta.signature_def[INIT].outputs.values()])

    def _run(
        self, fed: Sequence[tuple[str, Any, int]], fetched: Sequence[str], besides: Sequence[str] = ()
    ) -> list[np.ndarray]:
        tensors: list[int] = []
        outputs = (c_void_p * len(fetched))()
        try:
            tensors += (new_tensor(value, dtype) for _, value, dtype in fed)
            checked(
                self._api.TF_SessionRun,
                *(self._session, None),
                *(self._places([name for name, *_ in fed]), (c_void_p * len(tensors))(*tensors), len(tensors)),
                *(self._places(fetched), outputs, len(outputs)),
                *((c_void_p * len(besides))(*map(self._find, besides)), len(besides), None),
            )
            return [to_array(tensor) for tensor in outputs]
        finally:
            for tensor in tensors:
                delete_tensor(tensor, ours=True)
            for tensor in outputs:
                delete_tensor(tensor)

    def _places(self, tensors: Sequence[str]) -> Any:
        places = [(self._find(operation(name)), int(name.partition(":")[2] or 0)) for name in tensors]
        return (Output * len(places))(*places)

    def _find(self, name: str) -> int:
        found = self._api.TF_GraphOperationByName(self._graph, name.encode())
        if not found:
            raise CApiError(f"no operation {name} in the graph")
        return found


def load_in_session(path: Path, name: str, streams: int = 1, optimise: bool = False) -> Signature | None:
    """Loads one of a SavedModel's signatures, for `tf_transformer.translation.loading.load_signature`.

    Args:
        path: the SavedModel's folder.
        name: the signature's name.
        streams: as `Signature` takes it.
        optimise: as `Signature` takes it.

    Returns:
        The signature; None where the SavedModel has none of the name.
    """
    meta = read_meta_graph(path / "saved_model.pb")
    return Signature(path, meta, name, streams, optimise) if name in meta.signature_def else None


def _config(streams: int, optimise: bool) -> bytes:
    """A `ConfigProto`: the operations of a decoding step are too small to be split over threads."""
    config = ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=streams)
    # Else each call of a function is set up on its own, and what it calls again in it.
    config.graph_options.optimizer_options.do_function_inlining = True
    config.graph_options.rewrite_options.disable_meta_optimizer = not optimise
    # Without it, loops and branches are set up when they are reached; options such as sampling bring many that are not.
    config.experimental.disable_functional_ops_lowering = not optimise
    return config.SerializeToString()
