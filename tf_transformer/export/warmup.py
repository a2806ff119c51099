"""Writes the warm-up requests that TensorFlow Serving reads from a SavedModel's folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tensorflow_serving.apis.predict_pb2 import PredictRequest

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"

# TensorFlow Serving refuses a model with more.
MAX_REQUESTS = 1000

# Digits, which are text in any language: one short line and one of a long sentence's length.
WARMUP_TEXTS = ("1", " ".join(map(str, range(1, 31))))


def warmup_requests(folder: Path, texts: Sequence[str] = WARMUP_TEXTS) -> list[PredictRequest]:
    """Requests for each signature whose inputs are all texts: the first text alone, then all in one batch.

    Other signatures get none. A model whose warm-up fails is not served, and where the server batches requests, one
    with a scalar among its inputs always fails.

    Args:
        folder: a SavedModel.
        texts: what to translate; no more than the server's `max_batch_size`.

    Returns:
        Two requests for each such signature, in the order of the signatures' names.

    Example:
        >>> import tempfile, tensorflow as tf
        >>> class Echo(tf.Module):
        ...     @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        ...     def translate(self, text):
        ...         return {"translation": text}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model = Echo()
        ...     tf.saved_model.save(model, folder, signatures={"translate": model.translate})
        ...     [request.inputs["text"].string_val for request in warmup_requests(Path(folder), ["a", "b"])]
        [[b'a'], [b'a', b'b']]
    """
    import tensorflow as tf
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
    from tensorflow_serving.apis.model_pb2 import ModelSpec
    from tensorflow_serving.apis.predict_pb2 import PredictRequest

    signatures = SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0].signature_def
    requests = []
    for name, signature in sorted(signatures.items()):
        inputs = signature.inputs.values()
        # The SavedModel's initialiser stands among the signatures, and has no inputs.
        if not inputs or any(i.dtype != tf.string or len(i.tensor_shape.dim) != 1 for i in inputs):
            continue
        for batch in (texts[:1], texts):
            # No model is named: what it will be served as is not known here, and does not matter.
            request = PredictRequest(model_spec=ModelSpec(signature_name=name))
            for key in signature.inputs:
                request.inputs[key].CopyFrom(tf.make_tensor_proto(batch, tf.string))
            requests.append(request)
    return requests


def write_warmup(folder: Path, requests: Iterable[PredictRequest]) -> Path:
    """Writes the requests that TensorFlow Serving sends to the model before it serves it to others.

    Without them the first real request waits while TensorFlow prepares the graph.

    Args:
        folder: a SavedModel.
        requests: at most 1,000; each has to be one that the model answers.

    Returns:
        The file written.

    Raises:
        UserError: there are more than 1,000.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_warmup(Path(folder), []).relative_to(folder).as_posix()
        'assets.extra/tf_serving_warmup_requests'
    """
    import tensorflow as tf
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog

    requests = list(requests)
    if len(requests) > MAX_REQUESTS:
        raise UserError(
            f"{len(requests)} warm-up requests: TensorFlow Serving takes at most {MAX_REQUESTS}; give fewer"
        )
    path = folder / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in requests:
            writer.write(PredictionLog(predict_log=PredictLog(request=request)).SerializeToString())
    return path
