"""NumPy's arrays to the tensors of TensorFlow's C API, and back."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transformer.session.c_api import CApiError, library

STRING = 7
STRING_BYTES = 24  # what a TF_TString takes itself

# NumPy's types of the numbers that protocol buffers and the C API have for types.
TYPES = {1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 6: np.int8, 9: np.int64, 10: np.bool_}


def new_tensor(values: Any, dtype: int) -> int:
    """Makes a tensor; `delete_tensor` frees it.

    Args:
        values: an array, or what NumPy makes one of; for strings a list or array of str or bytes.
        dtype: TensorFlow's number of its type.

    Raises:
        CApiError: tensors of this type are not made here.
    """
    api = library()
    if dtype == STRING:
        return _new_strings(np.asarray(values, object))
    if dtype not in TYPES:
        raise CApiError(f"tensors of type {dtype} can't be passed")
    array = np.ascontiguousarray(values, TYPES[dtype])
    array = array.reshape(np.shape(values))  # ascontiguousarray makes a scalar a vector
    tensor = api.TF_AllocateTensor(dtype, _shape(array.shape), array.ndim, array.nbytes)
    ctypes.memmove(api.TF_TensorData(tensor), array.ctypes.data, array.nbytes)
    return tensor


def _new_strings(texts: np.ndarray) -> int:
    api = library()
    # First, since nobody frees a tensor whose texts can't be encoded.
    contents = [text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape") for text in texts.flat]
    tensor = api.TF_AllocateTensor(STRING, _shape(texts.shape), texts.ndim, STRING_BYTES * texts.size)
    for place, content in zip(_places(tensor, texts.size), contents, strict=True):
        api.TF_StringInit(place)
        api.TF_StringCopy(place, content, len(content))
    return tensor


def to_array(tensor: int) -> np.ndarray:
    """A copy of a tensor's values; strings are bytes, in an array of objects."""
    api = library()
    shape = [api.TF_Dim(tensor, axis) for axis in range(api.TF_NumDims(tensor))]
    dtype = api.TF_TensorType(tensor)
    if dtype == STRING:
        texts = np.empty(math.prod(shape), object)
        for index, place in enumerate(_places(tensor, texts.size)):
            texts[index] = ctypes.string_at(api.TF_StringGetDataPointer(place), api.TF_StringGetSize(place))
        return texts.reshape(shape)
    if dtype not in TYPES:
        raise CApiError(f"tensors of type {dtype} can't be read")
    content = ctypes.string_at(api.TF_TensorData(tensor), api.TF_TensorByteSize(tensor))
    return np.frombuffer(content, TYPES[dtype]).reshape(shape)


def delete_tensor(tensor: int | None, ours: bool = False) -> None:
    """Frees a tensor.

    Args:
        tensor: the tensor, or None, as a call that failed leaves it.
        ours: whether `new_tensor` made it: then its strings are freed too, which the library does for its own alone.
    """
    if not tensor:
        return
    api = library()
    if ours and api.TF_TensorType(tensor) == STRING:
        for place in _places(tensor, api.TF_TensorByteSize(tensor) // STRING_BYTES):
            api.TF_StringDealloc(place)
    api.TF_DeleteTensor(tensor)


def _places(tensor: int, size: int) -> Sequence[int]:
    if not size:
        return ()
    start = library().TF_TensorData(tensor)
    return range(start, start + size * STRING_BYTES, STRING_BYTES)


def _shape(shape: Sequence[int]) -> ctypes.Array:
    return (ctypes.c_int64 * max(len(shape), 1))(*shape)
