"""Loads what translates the lines that a command reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.protection.glossary import Glossary
from tf_transformer.session.loading import session_loader, streams_of
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.process import quiet_tensorflow
from tf_transformer.terminal.windows import WINDOW_BATCHES

if TYPE_CHECKING:
    from tf_transformer.translation.paragraphs import Paragraph
    from tf_transformer.translation.texts import Translation

# Gives the translations of lines, which have their numbers, in order; calls its second argument with lines done.
Translations = Callable[[list[tuple[int, str]], Callable[[int], None]], "Iterator[Translation | Paragraph]"]


def load_translations(
    models: Sequence[Path],
    changes: Mapping[str, Any],
    engine: str,
    batch_size: int,
    *,
    optimise: bool,
    paragraphs: bool = False,
    terms: Glossary | None = None,
) -> Translations:
    """Loads a model, or several for an ensemble.

    Args:
        models: as `tf_transformer.translation.load_translate` takes them, with `changes` and `engine`.
        changes: decoding options in place of the model's.
        engine: what is to run it.
        batch_size: sentences at once.
        optimise: as `session_loader` takes it.
        paragraphs: whether a line is a paragraph of several sentences.
        terms: a glossary whose terms have their translations.

    Raises:
        UserError: the model can't be loaded, or an option can't be.
    """
    load = session_loader(models, engine, optimise)
    with quiet_tensorflow(streams=True, session=load is not None):
        from tf_transformer.model_card.files import language_tags, source_language
        from tf_transformer.translation.loading import load_translate
        from tf_transformer.translation.paragraphs import translate_paragraphs
        from tf_transformer.translation.texts import translate_texts

    function = load_translate(models, changes, engine, load)
    streams, window = streams_of(function), WINDOW_BATCHES * batch_size
    if terms:
        function = terms.applied(function)
    language, tags = (source_language(models[0]), language_tags(models[0])) if paragraphs else (None, [])
    _tell_wider_beam(models[0], changes)

    def translate_lines(lines: list[tuple[int, str]], advance: Callable[[int], None]) -> Iterator[Translation]:
        return translate_texts(function, [line for _, line in lines], batch_size, streams, advance, window)

    def translate_sentences(sentences: list[str]) -> Iterator[Translation]:
        return translate_texts(function, sentences, batch_size, streams)

    def translate_long_lines(lines: list[tuple[int, str]], advance: Callable[[int], None]) -> Iterator[Paragraph]:
        texts = [line for _, line in lines]
        for paragraph in translate_paragraphs(translate_sentences, texts, language, terms, tags):
            yield paragraph
            advance(1)

    return translate_long_lines if paragraphs else translate_lines


def _tell_wider_beam(model: Path, changes: Mapping[str, Any]) -> None:
    """Tells where more translations are asked for than the model's beam holds: the search then raises it."""
    from tf_transformer.translation.loading import own_options

    nbest = changes.get("num_hypotheses", 1)
    if nbest > 1 and "beam_size" not in changes and not changes.get("temperature"):
        width = own_options(model).beam_size
        if nbest > width:
            notes.print(f"--nbest {nbest} raises the beam size from {width} to {nbest}; set another with --beam-size")
