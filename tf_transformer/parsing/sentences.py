"""Parsing many sentences with a run or a SavedModel, and scoring the trees."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tf_transformer.errors import UserError
from tf_transformer.files.model_formats import is_saved_model
from tf_transformer.parsing.mending import mend
from tf_transformer.parsing.reading import read_tree
from tf_transformer.parsing.scoring import score_trees
from tf_transformer.parsing.tree import Tree

if TYPE_CHECKING:
    from tf_transformer.translation.loading import LoadSignature
    from tf_transformer.translation.texts import Translate, Translation
    from tf_transformer.translation.translator import Translator

NO_PARSER = "{}: a translation model, not a parser; give a model trained with task: parsing"


class Parse(NamedTuple):
    """A sentence's tree, None where it has no words; and its score.

    `mended` says whether what the model wrote had to be mended to be a tree over all words, `truncated` whether the
    sentence was cut to the model's positions.
    """

    tree: Tree | None
    score: float
    mended: bool
    truncated: bool


class ParseFunction(NamedTuple):
    """What parses batches of sentences.

    Attributes:
        call: maps strings (batch,) to "translation", "score" and "truncated", as a translator's function does, and with
            a grammar to "mended", bool (batch,), too.
        grammar: whether it writes trees in brackets, since it searches among them alone; else linearised ones, which
            may be none.
    """

    call: Translate
    grammar: bool


def parse_function(translator: Translator, grammar: bool = True, name: object = "the model") -> ParseFunction:
    """What parses with a `Parser`.

    Args:
        translator: the parser.
        grammar: whether to search among well-formed trees alone.
        name: what the model is called where it is none of a parser.

    Raises:
        UserError: its model is none of a parser.
    """
    if "parse" not in translator.functions:
        raise UserError(NO_PARSER.format(name))
    return _with_grammar(translator.functions["parse"]) if grammar else ParseFunction(translator.translate, False)


def load_parse(
    path: str | os.PathLike,
    changes: Mapping[str, Any] | None = None,
    grammar: bool | None = None,
    load: LoadSignature | None = None,
) -> ParseFunction:
    """Loads what parses.

    Args:
        path: a run's folder, one of its checkpoints, or a SavedModel's folder.
        changes: options in place of the run's recipe's; see `DecodingOptions`. A SavedModel's are those that it was
            exported with.
        grammar: whether to search among well-formed trees alone; as the run's recipe says, a SavedModel always, unless
            given.
        load: what loads a SavedModel's signature; TensorFlow for Python unless given.

    Raises:
        UserError: nothing of the kind is there, it is damaged, it is no parser, or an option can't be.
    """
    from tf_transformer.model_card.files import task
    from tf_transformer.recipe import load_recipe
    from tf_transformer.runs.directory import RunDirectory
    from tf_transformer.translation.loading import load_signature, load_translate, load_translator

    path, changes = Path(path), dict(changes or {})
    if not is_saved_model(path):
        translator = load_translator(path, **changes)
        if grammar is None:
            grammar = load_recipe(RunDirectory.of_model(path).recipe).evaluation.grammar
        return parse_function(translator, grammar, path)
    if task(path) == "translation":  # what that writes would be mended into trees too
        raise UserError(NO_PARSER.format(path))
    if grammar is False:
        return ParseFunction(load_translate(path, changes, load=load), False)
    if changes:
        raise UserError(
            f"{path}: a SavedModel's parsing options are fixed when it is exported; export the run again with "
            f"{' and '.join(changes)}"
        )
    signature = load_signature(path, "parse", load)
    return _with_grammar(lambda texts: signature(text=texts))


def _with_grammar(parse: Callable[..., dict[str, Any]]) -> ParseFunction:
    def call(texts: Any) -> dict[str, Any]:
        output = parse(texts)
        # An export of an earlier version does not tell what it cut.
        told = {"mended": output["mended"], "truncated": output.get("truncated", np.zeros(len(texts), bool))}
        return {"translation": output["tree"], "score": output["score"], **told}

    return ParseFunction(call, True)


def parse_sentences(
    function: ParseFunction,
    sentences: Sequence[Sequence[str]],
    batch_size: int = 64,
    streams: int = 1,
    advance: Callable[[int], Any] = lambda done: None,
) -> Iterator[Parse]:
    """Parses sentences in batches of like length.

    Args:
        function: as `load_parse` gives it.
        sentences: the words of each.
        batch_size: sentences at once.
        streams: batches at once, each in a thread of its own.
        advance: called with the number of sentences in each batch that is done.

    Returns:
        Their trees, in the order of `sentences`.

    Example:
        >>> import tensorflow as tf
        >>> def flat(texts):  # a model that writes the root's opening bracket alone
        ...     return {"translation": ["(S"] * len(texts), "score": tf.zeros(len(texts)), "truncated": [False]}
        >>> function = ParseFunction(lambda texts: {k: tf.constant(v) for k, v in flat(texts).items()}, grammar=False)
        >>> [(str(parse.tree), parse.mended) for parse in parse_sentences(function, [["Dogs", "bark"]])]
        [('(S (XX Dogs) (XX bark))', True)]
    """
    from tf_transformer.translation.texts import as_translations, in_batches

    def parse(texts: list[str]) -> list[tuple[Translation, bool]]:
        output = function.call(texts)
        no_room = np.asarray(output.get("mended", np.zeros(len(texts), bool)))  # of a search with the grammar alone
        return list(zip(as_translations(output), no_room.tolist(), strict=True))

    texts = [" ".join(words) for words in sentences]
    outputs = in_batches(parse, texts, batch_size, streams, advance)
    for words, (output, no_room) in zip(sentences, outputs, strict=True):
        yield _parse(words, output, function.grammar, no_room)


def _parse(words: Sequence[str], output: Translation, grammar: bool, no_room: bool) -> Parse:
    if not words:
        return Parse(None, output.score, mended=False, truncated=False)
    if grammar:
        return Parse(read_tree(output.text), output.score, no_room, output.truncated)
    tree, mended = mend(output.text.split(), words)
    return Parse(tree, output.score, mended, output.truncated)


def evaluate_parses(
    function: ParseFunction, trees: Iterable[Tree], batch_size: int = 64, streams: int = 1
) -> dict[str, Any]:
    """Parses the sentences of a treebank and scores the trees.

    Args:
        function: as `load_parse` gives it.
        trees: the treebank's, cleaned.
        batch_size: sentences at once.
        streams: batches at once.

    Returns:
        A dict that `json.dumps` takes: what `ParseScorer.scores` gives, "grammar", whether the search was restricted to
        trees, "mended", how many trees had to be, "truncated", how many sentences were cut to the model's positions,
        and "parsing_seconds".

    Raises:
        UserError: there is no tree.
    """
    trees = list(trees)
    if not trees:
        raise UserError("nothing to score: give at least one tree")
    start = time.perf_counter()
    parses = list(parse_sentences(function, [tree.words() for tree in trees], batch_size, streams))
    seconds = time.perf_counter() - start
    scores = score_trees(trees, (parse.tree for parse in parses))
    counts = {name: sum(getattr(parse, name) for parse in parses) for name in ("mended", "truncated")}
    return {**scores, "grammar": function.grammar, **counts, "parsing_seconds": round(seconds, 2)}
