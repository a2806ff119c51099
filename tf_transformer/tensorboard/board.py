"""A callback that writes a model's attention for TensorBoard during training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transformer.errors import UserError, check_is_list
from tf_transformer.inspection.pictures import draw_inspection
from tf_transformer.inspection.sentence import Attend, Inspection, inspect
from tf_transformer.tensorboard.event_file import EventFile
from tf_transformer.tensorboard.summary import attention_summary
from tf_transformer.tensorboard.summary_callback import SummaryCallback

LONGEST_NAME = 100  # characters: it stands in addresses


class AttentionBoard(SummaryCallback):
    """Translates a few fixed sentences at the end of an epoch, and writes the attention for TensorBoard's tab.

    Args:
        sentences: what to translate: texts, or pairs of a text and its reference, which the tab shows next to the
            translation.
        attend: the function "translate_with_attention" of a `Translator` of the model in training.
        log_dir: the folder of one of TensorBoard's runs; or its event file, where other callbacks write to it too.
        every: number of epochs from one time to the next; the first time is after the first epoch.

    Raises:
        UserError: `sentences` is one string.
        ValueError: `every` is below 1.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
        >>> tokenizers = tt.train_tokenizers(pairs, vocab_size=290)
        >>> size = tokenizers.source.vocab_size
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=size, target_vocab_size=size, max_length=64)
        >>> model.compile("adam", tt.SmoothedCrossEntropy())
        >>> translator = tt.Translator(model, tokenizers, tt.DecodingOptions(beam_size=1))
        >>> batches = tt.make_batches(pairs, tokenizers, batch_tokens=64, max_length=32, repeat=True)
        >>> board = AttentionBoard(pairs, translator.functions["translate_with_attention"], tempfile.mkdtemp())
        >>> history = model.fit(batches, steps_per_epoch=1, epochs=2, callbacks=[board], verbose=0, shuffle=False)
    """

    def __init__(
        self,
        sentences: Sequence[str | tuple[str, str]],
        attend: Attend,
        log_dir: str | os.PathLike | EventFile,
        every: int = 1,
    ) -> None:
        super().__init__(log_dir)
        if every < 1:
            raise ValueError(f"every is {every}; give a whole number of at least 1")
        check_is_list(sentences, "sentences")
        pairs = [(each, None) if isinstance(each, str) else each for each in sentences]
        self.texts, self.references = ([pair[side] for pair in pairs] for side in (0, 1))
        self.attend = attend
        self.every = every

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if epoch % self.every:
            return
        with self.writing():
            _write(inspect(self.attend, self.texts), self.references)


def write_to_log_dir(log_dir: str | os.PathLike, inspections: Sequence[Inspection]) -> None:
    """Writes what a trained model did with some sentences, as step 0.

    Raises:
        UserError: the folder can't be written to.
    """
    import tensorflow as tf

    try:
        with tf.summary.create_file_writer(str(log_dir)).as_default(step=0):
            _write(inspections, [None] * len(inspections))
    except tf.errors.OpError as error:
        reason = error.message.rpartition("; ")[2].partition(" [Op:")[0]
        raise UserError(f"{log_dir}: can't be written: {reason}; give another folder") from error


def _write(inspections: Sequence[Inspection], references: Sequence[str | None]) -> None:
    """Writes with the default summary writer; each sentence is named by its number and text.

    A picture of the last layer goes to the tab Images, for people without this package.
    """
    import tensorflow as tf

    for number, (each, reference) in enumerate(zip(inspections, references, strict=True), start=1):
        # A blank text has no tokens, a model that has diverged no weights: a picture's lack must not end a training.
        if not each.target_tokens or not all(np.isfinite(weights).all() for weights in each.attention.values()):
            continue
        name = f"{number} {each.source}"
        name = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
        tokens = each.source_tokens, each.target_tokens
        attention_summary(name, *tokens, each.attention, reference=reference, alignment=each.alignment)
        canvas = draw_inspection(each).canvas
        canvas.draw()
        # TensorBoard's first page is in the order of the tags: figures such as `quality/BLEU` come before pictures.
        tf.summary.image(f"translations/attention: {name}", np.asarray(canvas.buffer_rgba())[None])
