"""Weights that PyTorch pickled are read without PyTorch, and nothing in the file is run."""

import collections
import io
import os
import pickle
import sys
import types
import zipfile

import ml_dtypes
import numpy as np
import pytest

from tf_transformer.errors import UserError
from tf_transformer.marian.pickled import MAGIC_NUMBER, read_pickled

TENSORS = {
    "a": np.arange(12, dtype="<f4").reshape(3, 4),
    "half": np.array([1.5, -2], "<f2"),
    "bfloat16": np.array([1.5, -3e38], ml_dtypes.bfloat16),
    "empty": np.zeros((0, 3), "<f4"),
    "number": np.array(7, "<i8"),
}
STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage", "int64": "LongStorage"}


class Storage:
    """What PyTorch's pickler tells of a tensor's memory."""

    def __init__(self, key, array):
        self.key, self.array = key, array


def torch_modules():
    """Modules of PyTorch's names, so that a pickle names what PyTorch's own does."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def rebuild(*arguments):
        raise AssertionError("only the name is wanted")

    rebuild.__module__, rebuild.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = rebuild
    for name in STORAGES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    torch._utils = utils
    return {"torch": torch, "torch._utils": utils}


@pytest.fixture
def torch(monkeypatch):
    for name, module in torch_modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return sys.modules["torch"]


def described(torch, tensors, transposed=(), legacy=False):
    """Pickles a state dictionary in PyTorch's manner; gives the bytes and the storages."""
    storages = {str(n): array for n, array in enumerate(tensors.values())}

    class Tensor:
        def __init__(self, storage, array, strides):
            self.storage, self.array, self.strides = storage, array, strides

        def __reduce__(self):
            shape = self.array.shape
            arguments = (self.storage, 0, shape, self.strides, False, collections.OrderedDict())
            return torch._utils._rebuild_tensor_v2, arguments

    class Pickler(pickle.Pickler):
        def persistent_id(self, thing):
            if not isinstance(thing, Storage):
                return None
            kind = getattr(torch, STORAGES[thing.array.dtype.name])
            identity = ("storage", kind, thing.key, "cpu", thing.array.size)
            return (*identity, None) if legacy else identity

    state = collections.OrderedDict()
    for (key, array), (name, tensor) in zip(storages.items(), tensors.items(), strict=True):
        view = tensor.T if name in transposed else tensor
        state[name] = Tensor(Storage(key, array), view, tuple(s // tensor.itemsize for s in view.strides))
    state._metadata = collections.OrderedDict(version=1)
    file = io.BytesIO()
    Pickler(file, protocol=2).dump(state)
    return file.getvalue(), storages


def write_zip(path, pickled, storages):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", b"little")
        for key, array in storages.items():
            archive.writestr(f"archive/data/{key}", array.tobytes())


def write_sequence(path, pickled, storages):
    with open(path, "wb") as file:
        for part in (MAGIC_NUMBER, 1001, {"little_endian": True, "protocol_version": 1001}):
            pickle.dump(part, file, protocol=2)
        file.write(pickled)
        pickle.dump(list(storages), file, protocol=2)
        for array in storages.values():
            file.write(array.size.to_bytes(8, "little") + array.tobytes())


@pytest.mark.parametrize("write", [write_zip, write_sequence], ids=["zip", "before 1.6"])
def test_tensors_come_back(torch, tmp_path, write):
    path = tmp_path / "pytorch_model.bin"
    write(path, *described(torch, TENSORS, transposed=("a",), legacy=write is write_sequence))
    read = read_pickled(path)
    assert read.keys() == TENSORS.keys()
    for name, tensor in read.items():
        expected = TENSORS[name].T if name == "a" else TENSORS[name]
        assert tensor.dtype == expected.dtype
        np.testing.assert_array_equal(tensor, expected)


class Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("write", [write_zip, write_sequence], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("hidden", [False, True], ids=["alone", "among others"])
def test_a_program_in_the_file_does_not_run(tmp_path, write, hidden):
    made, path = tmp_path / "made", tmp_path / "pytorch_model.bin"
    harmful = Harmful(made)
    write(path, pickle.dumps({"a": [harmful]} if hidden else harmful, protocol=2), {})
    with pytest.raises(UserError, match=r"^[^\n]*not read, since a pickle can run programs[^\n]*posix\.mkdir[^\n]*$"):
        read_pickled(path)
    assert not made.exists()
    pickle.loads(pickle.dumps(harmful))  # it would have been made
    assert made.exists()


@pytest.mark.parametrize(
    "name", ["builtins eval", "builtins getattr", "torch load", "collections defaultdict", "os system", "numpy load"]
)
def test_no_other_name_is_found(tmp_path, name):
    module, function = name.split()
    path = tmp_path / "pytorch_model.bin"
    write_zip(path, f"c{module}\n{function}\n(S'1'\ntR.".encode(), {})
    with pytest.raises(UserError, match=f"uses {module}.{function}"):
        read_pickled(path)


def test_a_tensor_can_t_reach_beyond_its_memory(torch, tmp_path):
    path = tmp_path / "pytorch_model.bin"
    pickled, storages = described(torch, {"a": TENSORS["a"]})
    write_zip(path, pickled, {"0": storages["0"].reshape(-1)[:5]})
    with pytest.raises(UserError, match="larger than its storage"):
        read_pickled(path)


def test_a_tensor_can_t_repeat_its_memory(torch, tmp_path):
    """A few bytes would ask for any amount of memory."""
    path = tmp_path / "pytorch_model.bin"
    number = np.ones(1, "<f4")
    pickled, _ = described(torch, {"a": np.broadcast_to(number, (10**6, 10**6))})
    write_zip(path, pickled, {"0": number})
    with pytest.raises(UserError, match=r"^[^\n]*repeats numbers of its storage[^\n]*$"):
        read_pickled(path)
    expanded = {"a": np.broadcast_to(np.arange(3, dtype="<f4"), (1, 3))}  # as PyTorch's expand() makes it
    write_zip(path, *described(torch, expanded))
    read = read_pickled(path)["a"]
    np.testing.assert_array_equal(read, [[0, 1, 2]])
    assert not read.flags.owndata  # however many names there are for one storage


def test_a_file_cannot_change_how_the_next_is_read(torch, tmp_path):
    """A pickle may set attributes of what it names: here the defaults of the function that makes tensors."""
    bad, good = tmp_path / "bad.bin", tmp_path / "good.bin"
    build = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(N}U\x0c__defaults__)stb."
    write_zip(bad, build, {})
    with pytest.raises(UserError):
        read_pickled(bad)
    write_zip(good, *described(torch, TENSORS))
    np.testing.assert_array_equal(read_pickled(good)["a"], TENSORS["a"])


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04"], ids=["empty", "nonsense", "half a zip"])
def test_a_damaged_file_is_told_in_a_line(tmp_path, content):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"^[^\n]*pytorch_model\.bin[^\n]*$"):
        read_pickled(path)
    with pytest.raises(UserError, match="can't be read"):
        read_pickled(tmp_path / "none.bin")


def test_a_truncated_file_is_told(torch, tmp_path):
    path = tmp_path / "pytorch_model.bin"
    write_sequence(path, *described(torch, TENSORS, legacy=True))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match="can't be read as PyTorch's weights"):
        read_pickled(path)


def test_a_pickle_of_something_else_is_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    for thing in ([1, 2], {"a": 1}, "text"):
        write_zip(path, pickle.dumps(thing, protocol=2), {})
        with pytest.raises(UserError, match="something other than named tensors"):
            read_pickled(path)
