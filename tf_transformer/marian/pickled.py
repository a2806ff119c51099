"""Reads the tensors of a file that PyTorch has pickled, and runs nothing that is in it.

A pickle says which functions of which modules are to be called to make what it holds; a malicious one names any
program. Here the names of PyTorch's tensors alone are known, and they stand for plain records. Both of PyTorch's
formats are read: a zip file, and the sequence of pickles that versions before 1.6 wrote.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from types import FunctionType
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from tf_transformer.errors import UserError, reason

# The first pickle of the format before 1.6.
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C

DTYPES = {
    "DoubleStorage": np.dtype("<f8"),
    "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
}


class _Storage(NamedTuple):
    """A tensor's memory: its name in the file, its type, and how many numbers it has."""

    key: str
    dtype: np.dtype
    size: int


class _Tensor(NamedTuple):
    """A tensor as a pickle describes it."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class NotTensors(pickle.UnpicklingError):
    """The pickle holds something other than tensors."""


def _rebuild_tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    numbers = [offset, *shape, *strides]
    whole = all(isinstance(number, int) and number >= 0 for number in numbers)
    if not isinstance(storage, _Storage) or not whole or len(shape) != len(strides):
        raise NotTensors("a tensor without its storage, offset, shape and strides")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _rebuild_parameter(data: Any, *_: Any) -> _Tensor:
    if not isinstance(data, _Tensor):
        raise NotTensors("a parameter that is not a tensor")
    return data


_KNOWN = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    **{("torch", name): name for name in DTYPES},
}


class _Unpickler(pickle.Unpickler):
    """Knows tensors, and nothing else that could be called."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise NotTensors(f"it uses {module}.{name}, which is not part of a tensor")
        known = _KNOWN[module, name]
        # A pickle may set attributes of what it is given: so it gets no function that another file will be read with.
        return (lambda *arguments: known(*arguments)) if isinstance(known, FunctionType) else known

    def persistent_load(self, identity: Any) -> _Storage:
        kind, name, key, _, size, *view = identity
        # Of a view of another storage, which only PyTorch before 0.4 wrote, the last part is not None.
        if kind != "storage" or name not in DTYPES or any(part is not None for part in view):
            raise NotTensors("a storage of an unknown type")
        return _Storage(str(key), DTYPES[name], int(size))


def read_pickled(path: Path) -> dict[str, np.ndarray]:
    """Reads a file such as `pytorch_model.bin`.

    Args:
        path: the file.

    Returns:
        Its tensors by name; they can't be written to.

    Raises:
        UserError: it is damaged, or holds something other than tensors, which is not run.
    """
    try:
        with open(path, "rb") as file:
            tensors, storages = _read_zip(file) if zipfile.is_zipfile(file) else _read_sequence(file)
            if not isinstance(tensors, dict) or not all(isinstance(each, _Tensor) for each in tensors.values()):
                raise NotTensors("it contains something other than named tensors")
            return {str(name): _array(tensor, storages) for name, tensor in tensors.items()}
    except NotTensors as error:
        raise UserError(
            f"{path}: not read, since a pickle can run programs and this one contains more than tensors ({error}); "
            "if you trust it, convert it to model.safetensors"
        ) from None
    except Exception as error:  # whatever a damaged file makes pickle and zipfile raise
        raise UserError(f"{path}: can't be read as PyTorch's weights ({reason(error)}); copy it again") from None


def _read_zip(file: BinaryIO) -> tuple[Any, dict[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        (described,) = (name for name in names if name.endswith("/data.pkl") or name == "data.pkl")
        folder = described.removesuffix("data.pkl")
        if f"{folder}byteorder" in names and archive.read(f"{folder}byteorder") != b"little":
            raise ValueError("its numbers are big-endian")
        tensors = _Unpickler(io.BytesIO(archive.read(described))).load()
        prefix = f"{folder}data/"
        storages = {name.removeprefix(prefix): archive.read(name) for name in names if name.startswith(prefix)}
    return tensors, storages


def _read_sequence(file: BinaryIO) -> tuple[Any, dict[str, bytes]]:
    file.seek(0)
    if _Unpickler(file).load() != MAGIC_NUMBER:
        raise ValueError("it does not begin like PyTorch's weights")
    _version, system = (_Unpickler(file).load() for _ in range(2))
    if not system.get("little_endian", True):
        raise ValueError("its numbers are big-endian")
    tensors = _Unpickler(file).load()
    storages = {}
    sizes = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    for key in _Unpickler(file).load():
        size, storage = int.from_bytes(file.read(8), "little"), sizes[key]
        if size != storage.size:
            raise ValueError(f"storage {key} has {size} numbers, not {storage.size}")
        storages[key] = file.read(size * storage.dtype.itemsize)
    return tensors, storages


def _array(tensor: _Tensor, storages: dict[str, bytes]) -> np.ndarray:
    """The tensor's numbers, which are not copied: tensors may share a storage, and a small file can name many."""
    flat = np.frombuffer(storages[tensor.storage.key], tensor.storage.dtype)
    last = tensor.offset + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.strides, strict=True))
    numbers = math.prod(tensor.shape)
    if numbers and last >= len(flat):
        raise ValueError("a tensor is larger than its storage")
    # With a stride of 0 a few numbers stand for any amount of memory. A model's weights are not written so.
    if numbers > len(flat):
        raise ValueError("a tensor repeats numbers of its storage, as after PyTorch's expand(); save its clone()")
    strides = [stride * flat.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(flat[tensor.offset :], tensor.shape, strides, writeable=False)
