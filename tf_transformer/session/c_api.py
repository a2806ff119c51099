"""TensorFlow's C API, as ctypes calls it.

The functions are those of `tensorflow/c/c_api.h`, `tf_tensor.h` and `tf_tstring.h`, which TensorFlow promises to keep.
The library lies in TensorFlow's wheel. To load it takes a third of a second; to import TensorFlow for Python, most of
which nobody needs who only runs a graph, takes eight times as long and twice the memory.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

LIBRARIES = ("libtensorflow_cc.so.2", "libtensorflow_cc.2.dylib")  # of Linux, of macOS


class CApiError(RuntimeError):
    """What a call of the C API failed with."""


class Output(ctypes.Structure):
    """One output of an operation of a graph: `TF_Output`."""

    _fields_ = (("operation", c_void_p), ("index", c_int))


class _Buffer(ctypes.Structure):
    """`TF_Buffer`."""

    _fields_ = (("data", c_void_p), ("length", c_size_t), ("deallocator", c_void_p))


# What each function returns and takes. A status, where one is taken, is the last.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "TF_NewStatus": (c_void_p, []),
    "TF_DeleteStatus": (None, [c_void_p]),
    "TF_GetCode": (c_int, [c_void_p]),
    "TF_Message": (c_char_p, [c_void_p]),
    "TF_LoadLibrary": (c_void_p, [c_char_p, c_void_p]),
    "TF_NewBufferFromString": (c_void_p, [c_char_p, c_size_t]),
    "TF_DeleteBuffer": (None, [c_void_p]),
    "TF_NewGraph": (c_void_p, []),
    "TF_DeleteGraph": (None, [c_void_p]),
    "TF_NewImportGraphDefOptions": (c_void_p, []),
    "TF_DeleteImportGraphDefOptions": (None, [c_void_p]),
    "TF_GraphImportGraphDef": (None, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "TF_GraphOperationByName": (c_void_p, [c_void_p, c_char_p]),
    "TF_NewSessionOptions": (c_void_p, []),
    "TF_DeleteSessionOptions": (None, [c_void_p]),
    "TF_SetConfig": (None, [c_void_p, c_char_p, c_size_t, c_void_p]),
    "TF_NewSession": (c_void_p, [c_void_p, c_void_p, c_void_p]),
    "TF_DeleteSession": (None, [c_void_p, c_void_p]),
    "TF_SessionRun": (
        None,
        [
            *(c_void_p, c_void_p),
            *(POINTER(Output), POINTER(c_void_p), c_int),  # fed
            *(POINTER(Output), POINTER(c_void_p), c_int),  # fetched
            *(POINTER(c_void_p), c_int),  # run besides
            *(c_void_p, c_void_p),
        ],
    ),
    "TF_AllocateTensor": (c_void_p, [c_int, POINTER(c_int64), c_int, c_size_t]),
    "TF_DeleteTensor": (None, [c_void_p]),
    "TF_TensorType": (c_int, [c_void_p]),
    "TF_NumDims": (c_int, [c_void_p]),
    "TF_Dim": (c_int64, [c_void_p, c_int]),
    "TF_TensorByteSize": (c_size_t, [c_void_p]),
    "TF_TensorData": (c_void_p, [c_void_p]),
    "TF_StringInit": (None, [c_void_p]),
    "TF_StringCopy": (None, [c_void_p, c_char_p, c_size_t]),
    "TF_StringGetDataPointer": (c_void_p, [c_void_p]),
    "TF_StringGetSize": (c_size_t, [c_void_p]),
    "TF_StringDealloc": (None, [c_void_p]),
}


def find_library() -> Path | None:
    """The library in the TensorFlow that is installed; None where its wheel has none, as on Windows."""
    package = importlib.util.find_spec("tensorflow")
    if package is None or package.origin is None:
        return None
    files = [Path(package.origin).with_name(name) for name in LIBRARIES]
    return next((file for file in files if file.is_file()), None)


@cache
def library() -> ctypes.CDLL:
    """The library, loaded, with the operations of tensorflow_text.

    Raises:
        CApiError: it can't be loaded.
    """
    file = find_library()
    if file is None:
        raise CApiError("TensorFlow's C library is not installed")
    try:
        loaded = ctypes.CDLL(str(file))
        for name, (returned, taken) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = returned, taken
    except (OSError, AttributeError) as error:
        raise CApiError(f"{file}: can't be loaded ({error})") from error
    text = importlib.util.find_spec("tensorflow_text")
    for operations in sorted(Path(text.origin).parent.glob("python/ops/_*.so")) if text and text.origin else ():
        checked(loaded.TF_LoadLibrary, str(operations).encode(), using=loaded)
    return loaded


def checked(function: Callable[..., Any], *arguments: Any, using: ctypes.CDLL | None = None) -> Any:
    """Calls a function whose last argument is a status, and raises what that says.

    Args:
        function: one of the library's.
        *arguments: all but the status.
        using: the library; the one that is loaded unless given.

    Raises:
        CApiError: the call failed.
    """
    api = using or library()
    status = api.TF_NewStatus()
    try:
        result = function(*arguments, status)
        if api.TF_GetCode(status):
            raise CApiError(api.TF_Message(status).decode("utf-8", "replace"))
        return result
    finally:
        api.TF_DeleteStatus(status)
