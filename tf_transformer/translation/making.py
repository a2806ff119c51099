"""Makes a model's translator, which is a parser where the model writes trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tf_transformer.parsing.parser import Parser
from tf_transformer.translation.translator import Translator

if TYPE_CHECKING:
    from tf_transformer.decoding import DecodingOptions
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.tokenizers import TokenizerPair


def make_translator(
    model: SequenceModel,
    tokenizers: TokenizerPair,
    options: DecodingOptions | None = None,
    half: bool = False,
    compiled: bool = False,
) -> Translator:
    """Makes a `Translator`; a `Parser`, whose search is not compiled, where what the model writes is trees.

    See there for the arguments.
    """
    if tokenizers.for_parsing:
        return Parser(model, tokenizers, options, half)
    return Translator(model, tokenizers, options, half, compiled)
