"""What of a SavedModel's graph one of its signatures needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

# TensorFlow's own are in its package, which is not to be imported; TensorBoard has a copy for the same reason.
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef

# The signature by which a model's tables are filled.
INIT = "__saved_model_init_op"


def read_meta_graph(file: Path) -> MetaGraphDef:
    """Reads `saved_model.pb`.

    Raises:
        OSError: it can't be read.
        google.protobuf.message.DecodeError: it is damaged.
        ValueError: it holds nothing to run.
    """
    meta_graphs = _saved_model().FromString(file.read_bytes()).meta_graphs
    if not meta_graphs:
        raise ValueError("no graph in it")
    return meta_graphs[0]


@cache
def _saved_model() -> type[Message]:
    """The class of a `SavedModel` message, which TensorBoard has no copy of: graphs in field 2."""
    field = descriptor_pb2.FieldDescriptorProto
    content = MetaGraphDef.DESCRIPTOR
    file = descriptor_pb2.FileDescriptorProto(
        name="tf_transformer/saved_model.proto", package="tf_transformer", dependency=[content.file.name]
    )
    message = file.message_type.add(name="SavedModel")
    message.field.add(
        name="meta_graphs",
        number=2,
        label=field.LABEL_REPEATED,
        type=field.TYPE_MESSAGE,
        type_name=f".{content.full_name}",
    )
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tf_transformer.SavedModel"))


def graph_for(meta: MetaGraphDef, signature: str, config: bytes) -> GraphDef:
    """The part of a graph that a signature needs, and what restores the variables and fills the tables.

    Args:
        meta: the graph, with its signatures.
        signature: the signature's name.
        config: a serialised `ConfigProto` in place of that of the process which exported the model; calls of functions
            hold it, and it would decide how they are optimised.
    """
    nodes = {node.name: node for node in meta.graph_def.node}
    functions = {function.signature.name: function for function in meta.graph_def.library.function}
    tensors = [meta.saver_def.filename_tensor_name, meta.saver_def.restore_op_name]
    for wanted in (meta.signature_def[name] for name in (signature, INIT) if name in meta.signature_def):
        tensors += (info.name for infos in (wanted.inputs, wanted.outputs) for info in infos.values())
    tensors += [asset.tensor_info.name for asset in meta.asset_file_def]
    kept = _reached(
        (operation(tensor) for tensor in tensors if tensor),
        lambda name: (operation(tensor) for tensor in nodes[name].input),
    )
    called = _reached(
        _called([nodes[name] for name in kept], functions),
        lambda name: _called(functions[name].node_def, functions),
    )
    graph = GraphDef(versions=meta.graph_def.versions)
    graph.node.extend(node for name, node in nodes.items() if name in kept)
    graph.library.function.extend(function for name, function in functions.items() if name in called)
    for part in graph.node, *(function.node_def for function in graph.library.function):
        for node in part:
            if "config_proto" in node.attr:
                node.attr["config_proto"].s = config
    return graph


def operation(tensor: str) -> str:
    """The name of the operation that a tensor comes from, or that a control input names.

    Example:
        >>> operation("StatefulPartitionedCall_5:2"), operation("^NoOp")
        ('StatefulPartitionedCall_5', 'NoOp')
    """
    return tensor.removeprefix("^").partition(":")[0]


def _called(nodes: Iterable[NodeDef], functions: Iterable[str]) -> Iterator[str]:
    """The functions that operations call."""
    for node in nodes:
        names = [node.op]
        for value in node.attr.values():
            names += [value.func.name, *(function.name for function in value.list.func)]
        yield from (name for name in names if name in functions)


def _reached(first: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    """All names that can be reached from the first ones."""
    reached, todo = set(), list(first)
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += following(name)
    return reached
