"""TensorFlow Serving's JSON: a request's inputs as arrays, and arrays as its answer.

The rules are those of TensorFlow Serving's documentation of its REST API, and of its `util/json_tensor.cc`.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from typing import Any

import numpy as np

from tf_transformer.server.requests import Refusal

# What JSON must have for NumPy's kinds of types.
_TYPES = {"i": int, "u": int, "f": (int, float), "b": bool}

# NumPy's arrays have 32 dimensions at most, or 64.
_MOST_DIMENSIONS = 32

# To write so many numbers as text takes some milliseconds, in which NumPy lets no other thread run.
_NUMBERS_AT_ONCE = 1_000


def inputs_of(asked: dict[str, Any], signature: Any) -> tuple[bool, dict[str, np.ndarray]]:
    """The inputs of a `:predict` request.

    Args:
        asked: the request: `instances`, a list of rows, or `inputs`, the columns by name.
        signature: the SignatureDef that it is for.

    Returns:
        Whether it is in row form, and an array for each input; those of texts hold bytes.

    Raises:
        Refusal: it is not what the signature takes.
    """
    import tensorflow as tf

    in_rows = "instances" in asked
    if in_rows == ("inputs" in asked):
        raise Refusal(
            400,
            "Missing 'inputs' or 'instances' key"
            if not in_rows
            else "Not formatted correctly: expecting one of 'inputs' or 'instances', not both",
        )
    wanted = signature.inputs
    columns = _columns_of(asked["instances"], wanted) if in_rows else asked["inputs"]
    if not isinstance(columns, dict) or _is_b64(columns):
        if len(wanted) != 1:
            raise Refusal(400, f"the signature has several inputs: {', '.join(sorted(wanted))}; name each")
        columns = dict.fromkeys(wanted, columns)
    if unknown := sorted(set(columns) - set(wanted)):
        raise Refusal(400, f"Unknown input: {unknown[0]}; the signature has {', '.join(sorted(wanted))}")
    arrays = {}
    for name, info in wanted.items():
        if name not in columns:
            raise Refusal(400, f"Missing named input: {name} in 'inputs' object.")
        arrays[name] = _array(columns[name], name, tf.as_dtype(info.dtype).as_numpy_dtype)
        shape = tf.TensorShape(info.tensor_shape)
        if not shape.is_compatible_with(arrays[name].shape):
            raise Refusal(400, f"{name} has shape {list(arrays[name].shape)}, expected {shape}")
    return in_rows, arrays


def outputs_as_json(outputs: dict[str, np.ndarray], in_rows: bool) -> dict[str, Any]:
    """The answer in the form of the request.

    Raises:
        Refusal: rows were asked for, and an output has none.

    Example:
        >>> outputs_as_json({"score": np.float32([0.1, 2])}, in_rows=True)
        {'predictions': [0.1, 2.0]}
    """
    values = {name: _plain(array) for name, array in sorted(outputs.items())}
    if not in_rows:
        return {"outputs": _unnamed(values)}
    if any(array.ndim == 0 for array in outputs.values()) or len({len(array) for array in outputs.values()}) > 1:
        raise Refusal(400, "the outputs do not have a row for each instance; send the request in column form")
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return {"predictions": [_unnamed(row) for row in rows]}


def written(outputs: dict[str, np.ndarray], in_rows: bool) -> bytes:
    """The answer as JSON. A large one takes seconds; in a thread it leaves the others their turn all the time.

    Raises:
        Refusal: as `outputs_as_json`.
    """
    text = io.StringIO()  # which takes less memory than all numbers' texts in a list
    # Unlike `json.dumps`, which is one call of C, this is Python for each number.
    text.writelines(json.JSONEncoder(ensure_ascii=False).iterencode(outputs_as_json(outputs, in_rows)))
    return text.getvalue().encode()


def _columns_of(instances: Any, wanted: Any) -> Any:
    """Row form becomes column form."""
    if not isinstance(instances, list):
        raise Refusal(400, "'instances' must be a list")
    if not instances:
        raise Refusal(400, "No values in 'instances' array")
    if not isinstance(instances[0], dict) or _is_b64(instances[0]):
        return instances
    for instance in instances:
        if not isinstance(instance, dict) or set(instance) != set(instances[0]):
            raise Refusal(400, "the instances do not all have the same inputs")
    return {name: [instance[name] for instance in instances] for name in instances[0]}


def _array(value: Any, name: str, dtype: Any) -> np.ndarray:
    """Nested lists as an array; a list must have as many elements as those beside it."""
    shape, first = [], value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    if len(shape) > _MOST_DIMENSIONS:
        raise Refusal(400, f"{name} has {len(shape)} dimensions; at most {_MOST_DIMENSIONS} are allowed")
    leaves: list[Any] = []
    _gather(value, name, shape, dtype, leaves)
    array = np.empty(len(leaves), dtype)
    try:
        array[:] = leaves
    except OverflowError:
        raise Refusal(400, f"{name}: a number is too large for {np.dtype(dtype).name}") from None
    return array.reshape(shape)


def _gather(value: Any, name: str, shape: list[int], dtype: Any, leaves: list[Any]) -> None:
    if not shape:
        leaves.append(_leaf(value, name, dtype))
        return
    if not isinstance(value, list) or len(value) != shape[0]:
        raise Refusal(400, f"{name}: a list differs in size or depth from the one before it")
    for each in value:
        _gather(each, name, shape[1:], dtype, leaves)


def _leaf(value: Any, name: str, dtype: Any) -> Any:
    kind = np.dtype(dtype).kind
    if kind == "O" and (isinstance(value, str) or _is_b64(value)):
        return _bytes(value, name)
    if kind not in ("O", *_TYPES):
        raise Refusal(400, f"{name}: an input of type {np.dtype(dtype).name} can't be given as JSON")
    if kind != "O" and isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "b"):
        return value
    wanted = "string" if kind == "O" else np.dtype(dtype).name
    raise Refusal(400, f"{name}: JSON Value of type {type(value).__name__} is not of expected type: {wanted}")


def _bytes(value: str | dict[str, str], name: str) -> bytes:
    try:
        return value.encode() if isinstance(value, str) else base64.b64decode(value["b64"], validate=True)
    except UnicodeEncodeError:
        raise Refusal(400, f"{name}: half of a surrogate pair, which is not a character") from None
    except (binascii.Error, ValueError, TypeError):
        raise Refusal(400, f"{name}: Unable to base64 decode") from None


def _is_b64(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"b64"}


def _unnamed(values: dict[str, Any]) -> Any:
    """A signature's only output has no name in JSON."""
    return next(iter(values.values())) if len(values) == 1 else values


def _plain(array: Any) -> Any:
    """Nested lists: texts as strings, float32 with no more digits than it has."""
    array = np.asarray(array)
    if array.dtype == np.float32:
        return _shortest(array).tolist()
    if array.dtype != object:
        return array.tolist()
    texts = np.empty(array.shape, object)
    for place, text in np.ndenumerate(array):
        texts[place] = _text(text)
    return texts.tolist()


def _shortest(array: np.ndarray) -> np.ndarray:
    """float64 whose digits are the few that tell a float32 from all others."""
    flat, found = array.ravel(), np.empty(array.size)
    for begin in range(0, flat.size, _NUMBERS_AT_ONCE):
        some = slice(begin, begin + _NUMBERS_AT_ONCE)
        found[some] = flat[some].astype(str).astype(np.float64)
    return found.reshape(array.shape)


def _text(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}
