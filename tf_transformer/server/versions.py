"""One version of a model, loaded: a SavedModel, or a CTranslate2 model."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import product
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tf_transformer.errors import UserError
from tf_transformer.files.model_formats import is_ctranslate2, is_saved_model
from tf_transformer.languages import UNKNOWN_LANGUAGE
from tf_transformer.translation.texts import COLUMNS, Translation, as_translations

if TYPE_CHECKING:
    from tf_transformer.decoding.options import DecodingOptions

# The source tokens that a search is compiled for, where the model has a signature for that.
WARM_UP_LENGTHS = (16, 32, 64)
# Digits are text in any language: a short one, and one of a long sentence's length.
WARM_UP_TEXTS = (b"1", " ".join(map(str, range(1, 21))).encode())

# What an export's `translate` is also called.
DEFAULT_SIGNATURES = ("serving_default", "translate")

# What the page at / asks for; `translate_with_options` apart, which alternatives need as well.
PAGE_SIGNATURES = ("attention", "next_tokens", "translate_with_search")

Options = Mapping[str, Any]


def kind_of(folder: Path) -> str | None:
    """What a folder holds: "savedmodel", "ctranslate2", or None for neither."""
    if is_saved_model(folder):
        return "savedmodel"
    # A model that is being copied there may have one file without the other.
    return "ctranslate2" if is_ctranslate2(folder) and (folder / "config.json").is_file() else None


def load_version(folder: Path) -> Version:
    """Loads a SavedModel's or a CTranslate2 model's folder.

    Raises:
        UserError: it is neither, or damaged, or CTranslate2 is missing.
    """
    kind = kind_of(folder)
    if kind is None:
        raise UserError(f"{folder}: neither a SavedModel nor a CTranslate2 model")
    return SavedModelVersion(folder) if kind == "savedmodel" else CTranslate2Version(folder)


class Version(ABC):
    """What both formats have in common.

    Attributes:
        folder: where it was loaded from.
        number: what it is served as.
        facts: what its model card says; empty where it has none.
        signatures: what `call` takes, as TensorFlow's SignatureDef protobufs by name.
    """

    number = 1
    signatures: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, folder: Path) -> None:
        from tf_transformer.model_card.files import read_card

        self.folder = folder
        try:
            _, self.facts = read_card(folder)
        except UserError:  # of an earlier version, or of another program
            self.facts = {}

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target; "und", the code for an undetermined language, where the model card says nothing."""
        source, target = (self.facts.get(f"{side}_language") or UNKNOWN_LANGUAGE for side in ("source", "target"))
        return source, target

    @property
    def language_tags(self) -> list[str]:
        """Those of a multilingual model, such as `>>deu<<`; none where the model card names none."""
        from tf_transformer.model_card.facts import language_tags_of

        return language_tags_of(self.facts)

    @cached_property
    def options(self) -> DecodingOptions:
        """Those of the export. They are kept: its folder may be gone while it is served.

        Raises:
            UserError: it has none.
        """
        from tf_transformer.translation.loading import own_options

        return own_options(self.folder)

    @property
    @abstractmethod
    def translates(self) -> bool:
        """Whether `translate` can be called."""

    @abstractmethod
    def translate(self, texts: Sequence[bytes], options: Options) -> list[Translation]:
        """Translates texts, UTF-8. `options` are those that differ from the export's own."""

    def call(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Calls a signature with arrays or tensors by name; gives arrays by name.

        Raises:
            UserError: it has no such signature.
        """
        raise UserError(f"{self.folder}: no signature {signature}")

    def warm_up(self, threads: int = 1) -> float:
        """Makes the first request as fast as the next; gives the seconds that it took.

        Args:
            threads: how many of the calls that it takes are made at once. While a version is prepared, TensorFlow works
                on one core a call.
        """
        began = time.perf_counter()
        with ThreadPool(threads) as pool:  # whose threads keep no process that is told to end
            pool.map(lambda call: call(), self._first_calls(), chunksize=1)
        return time.perf_counter() - began

    def _first_calls(self) -> list[Callable[[], Any]]:
        """Calls that take longer the first time, the longest first; none waits for another."""
        if not self.translates:
            return []
        return [
            lambda: self.translate(WARM_UP_TEXTS[:1], {"num_hypotheses": 2}),  # alternatives have a graph of their own
            lambda: [self.translate([text], {}) for text in WARM_UP_TEXTS],
        ]


class SavedModelVersion(Version):
    """A SavedModel: of ours, with `translate` and the rest, or any other, whose signatures can be called."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

        from tf_transformer.translation.loading import load_saved_model

        self._loaded = load_saved_model(folder)
        graph = SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0]
        # The SavedModel's initialiser stands among them, and can't be called. To warm up is not for clients: each shape
        # that is compiled takes memory for good.
        names = sorted(set(self._loaded.signatures) - {"warm_up"})
        self.signatures = {name: graph.signature_def[name] for name in names}

    @property
    def translates(self) -> bool:
        if "translate" not in self.signatures or "parse" in self.signatures:
            return False
        signature = self.signatures["translate"]  # another program's may take or give something else
        return set(signature.inputs) == {"text"} and set(COLUMNS) <= set(signature.outputs)

    @cached_property
    def _known_options(self) -> set[str]:
        from tf_transformer.translation.loading import known_options

        return known_options(self.folder)

    def translate(self, texts: Sequence[bytes], options: Options) -> list[Translation]:
        import tensorflow as tf

        return as_translations(self._function(options)(tf.constant(list(texts), tf.string)))

    def _function(self, options: Options) -> Any:
        can_choose = "translate_with_options" in self.signatures
        if not can_choose and (wrong := sorted(set(options) - {"num_hypotheses"})):
            raise UserError(
                f"{wrong[0]} can't be chosen: the model has no signature translate_with_options; leave {wrong[0]} out"
            )
        if not options or not can_choose:  # there may be fewer translations than num_hypotheses
            return lambda texts: self._loaded.signatures["translate"](text=texts)
        from tf_transformer.translation.signature_options import with_options

        signature = self._loaded.signatures["translate_with_options"]
        return with_options(
            lambda texts, prefix, tensors: signature(text=texts, prefix=prefix, **tensors),
            self.options.changed(**options),
            several="num_hypotheses" in options,
            known=self._known_options,
        )

    def call(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        if signature not in self.signatures:
            return super().call(signature, inputs)
        import tensorflow as tf

        # What the operations of a graph say of values that they can't take.
        refusals = tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError, tf.errors.FailedPreconditionError
        function = self._loaded.signatures[signature]
        specs = function.structured_input_signature[1]
        try:
            tensors = {name: tf.convert_to_tensor(inputs[name], specs[name].dtype) for name in specs}
            return {name: value.numpy() for name, value in function(**tensors).items()}
        except (KeyError, ValueError, TypeError, *refusals) as error:
            raise UserError(f"{signature}: {_why(error)}") from None

    def _first_calls(self) -> list[Callable[[], Any]]:
        calls = super()._first_calls()
        if self.translates:
            calls += [partial(self._ask_as_page, name) for name in PAGE_SIGNATURES if name in self.signatures]
        return [self._compile, *calls] if "warm_up" in self._loaded.signatures else calls

    def _compile(self) -> None:
        import tensorflow as tf

        from tf_transformer.translation.compiled import rows_that_pay

        shapes = product(rows_that_pay(self.options.beam_size), WARM_UP_LENGTHS)
        rows, lengths = (tf.constant(sizes, tf.int32) for sizes in zip(*shapes, strict=True))
        self._loaded.signatures["warm_up"](rows=rows, lengths=lengths)

    def _ask_as_page(self, name: str) -> None:
        from tf_transformer.translation.signature_options import option_values

        text = WARM_UP_TEXTS[:1]
        inputs = {"text": text, "source": text, "target": text, "prefix": [b""], "prefix_ids": [[]], "count": 1}
        with suppress(UserError):  # another program's export has no options, or its signatures take something else
            self.call(name, inputs | option_values(self.options))


class CTranslate2Version(Version):
    """A CTranslate2 model, which gives one translation a text."""

    translates = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from tf_transformer.translation.ctranslate2_engine import load_ctranslate2

        self._translate = load_ctranslate2(folder)
        self.signatures = dict.fromkeys(DEFAULT_SIGNATURES, _translate_signature())

    def translate(self, texts: Sequence[bytes], options: Options) -> list[Translation]:
        if wrong := sorted(set(options) - {"num_hypotheses"}):
            raise UserError(f"{wrong[0]} can't be chosen: a CTranslate2 model uses its export's options")
        return as_translations(self._translate(list(texts)))


def _why(error: Exception) -> str:
    """What an operation says, without where in the graph it stands."""
    lines = [line for line in str(getattr(error, "message", error)).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("Graph execution", "Detected at", "<stack", "\t"))]
    return (told or lines or [type(error).__name__])[0][:300]


def _translate_signature() -> Any:
    """What a SavedModel has for `translate`."""
    from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
    from tensorflow.core.framework.types_pb2 import DT_BOOL, DT_FLOAT, DT_STRING
    from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

    batch = TensorShapeProto(dim=[TensorShapeProto.Dim(size=-1)])
    outputs = {"translation": DT_STRING, "score": DT_FLOAT, "truncated": DT_BOOL}
    return SignatureDef(
        inputs={"text": TensorInfo(name="text", dtype=DT_STRING, tensor_shape=batch)},
        outputs={name: TensorInfo(name=name, dtype=dtype, tensor_shape=batch) for name, dtype in outputs.items()},
        method_name="tensorflow/serving/predict",
    )
