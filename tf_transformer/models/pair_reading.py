"""How a model that reads pairs of source and target ids is called and exported; Keras alone would take floats."""

from __future__ import annotations

from typing import Any

import keras

from tf_transformer.errors import UserError

NOT_QUANTIZED = (
    "Keras can't quantize a model of this package, whose layers are not Keras's own; export_ctranslate2 with "
    'quantization="int8" can quantize a Transformer, and a Translator with half=True exports float16 weights'
)


class PairReading:
    """What models and ensembles of them do differently from other Keras models; a base beside `keras.Model`."""

    @property
    def input_dtype(self) -> str:
        """What ids that come as floats are made; bfloat16, say, would have no odd number above 256."""
        return "int32"

    def __call__(self, inputs: Any, *more: Any, **options: Any) -> Any:
        """Works out logits, as `call` does."""
        is_pair = isinstance(inputs, (tuple, list)) and len(inputs) == 2
        if more or not is_pair:
            name = type(self).__name__
            given = "a pair and more" if is_pair else "no pair"
            raise UserError(
                f"{'an' if name[0] in 'AEIO' else 'a'} {name} reads one pair of integer arrays, model((source_ids, "
                f"target_ids)), got {given}; options such as training=True go by name"
            )
        return super().__call__(inputs, **options)

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any | None = None,
        **kwargs: Any,
    ) -> None:
        """Writes the model down for inference, as Keras does: ids of any lengths in, logits out.

        To translate text with what is written, use `tf_transformer.export_saved_model` instead.

        Args:
            filepath: where to.
            format: Keras's formats; "tf_saved_model" has an endpoint `serve`.
            verbose: whether to tell of it.
            input_signature: what the endpoint takes; a pair of int32 (batch, length) unless given.
            **kwargs: other arguments of Keras's `export`.
        """
        if input_signature is None:
            # Keras would take the lengths of the first batch that it saw, and floats, of which bfloat16 has no 257.
            names = "source_ids", "target_ids"
            input_signature = [tuple(keras.InputSpec("int32", (None, None), name=name) for name in names)]
        super().export(filepath, format, verbose, input_signature, **kwargs)

    def quantize(self, *arguments: Any, **options: Any) -> None:
        """Refuses: Keras knows nothing of this package's layers, and would leave them as they are."""
        raise UserError(NOT_QUANTIZED)
