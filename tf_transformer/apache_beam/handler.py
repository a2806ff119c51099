"""What Apache Beam's `RunInference` translates with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from apache_beam.ml.inference.base import ModelHandler

from tf_transformer.errors import reason
from tf_transformer.session.loading import session_loader
from tf_transformer.terminal.process import quiet_tensorflow
from tf_transformer.terminal.windows import WINDOW_BATCHES

TOO_LONG = "longer than the model's maximum length"


class Outcome(NamedTuple):
    """A sentence and its translation; or why there is none."""

    source: str
    translation: str = ""
    score: float = 0.0
    failure: str | None = None


class TranslationHandler(ModelHandler[str, Outcome, Callable]):
    """What Beam's `RunInference` translates sentences with: a run, a SavedModel or a CTranslate2 model.

    It is loaded once in each process of a worker. Sentences come in windows, which are sorted by length and translated
    in batches. One that fails is set aside with the reason, and fails no other.

    (Beam's own handlers for TensorFlow load models with Keras, which no longer loads SavedModels.)

    Args:
        model: the model's folder, on each worker.
        engine: "tensorflow" or "ctranslate2".
        batch_size: sentences at once.
        streams: batches at once in a process; a runner has processes or threads for the other cores.
        cut: whether a sentence that is longer than the model's positions is cut, instead of set aside.
        options: decoding options in place of the model's own; see `DecodingOptions`.

    Example:
        A pipeline of your own, which keeps each sentence's key::

            outcomes = keyed_sentences | RunInference(KeyedModelHandler(TranslationHandler("savedmodels/demo/1")))
    """

    def __init__(
        self,
        model: str,
        engine: str = "tensorflow",
        batch_size: int = 64,
        streams: int = 1,
        cut: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        window = WINDOW_BATCHES * batch_size
        super().__init__(min_batch_size=window, max_batch_size=window)
        self.model = model
        self.engine = engine
        self.batch_size = batch_size
        self.streams = streams
        self.cut = cut
        self.options = dict(options or {})

    def load_model(self) -> Callable:
        """Loads the model; gives what `load_translate` does.

        Raises:
            UserError: it isn't there, or is damaged, or an option can't be.
        """
        path = Path(self.model)
        load = session_loader(path, self.engine, optimise=True)
        with quiet_tensorflow(session=load is not None):
            from tf_transformer.translation.loading import load_translate
        return load_translate(path, self.options, self.engine, load)

    def run_inference(
        self, batch: Sequence[str], model: Callable, inference_args: dict[str, Any] | None = None
    ) -> Iterable[Outcome]:
        """Translates sentences, in their order."""
        from tf_transformer.translation.texts import translate_texts

        try:
            translations = list(translate_texts(model, batch, self.batch_size, self.streams))
        except Exception as error:  # whatever it is, the other sentences have nothing to do with it
            if len(batch) == 1:
                return [Outcome(batch[0], failure=reason(error))]
            half = len(batch) // 2
            return [*self.run_inference(batch[:half], model), *self.run_inference(batch[half:], model)]
        return [
            Outcome(text, failure=TOO_LONG)
            if translation.truncated and not self.cut
            else Outcome(text, " ".join(translation.text.splitlines()), translation.score)
            for text, translation in zip(batch, translations, strict=True)
        ]
