"""The vocabulary that is learned for a recipe: which texts it was learned from, and when it is learned again."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from tf_transformer.console import tell
from tf_transformer.data.fingerprint import fingerprint
from tf_transformer.data.pairs import Pairs, state_of
from tf_transformer.data.prepared.preparing import fingerprint_there, locked, told_in_one_line
from tf_transformer.errors import UserError
from tf_transformer.experiment.corpus import settings_of
from tf_transformer.files.as_json import read_object
from tf_transformer.files.checksums import CHECKSUMS
from tf_transformer.files.whole import folder_written_whole
from tf_transformer.recipe import Recipe
from tf_transformer.tokenizers import TokenizerPair, train_parsing_tokenizers, train_tokenizers
from tf_transformer.tokenizers.pair import DESCRIPTION

LEARNED_FROM = "learned_from.json"  # beside the tokenizers: what they were learned from


def learned_tokenizers(recipe: Recipe, pairs: Pairs, folder: Path, console: Console) -> TokenizerPair:
    """Opens a recipe's tokenizers, if they were learned from the same texts in the same way; else learns new ones.

    Args:
        recipe: the experiment.
        pairs: those of training.
        folder: that of the prepared data, where the tokenizers lie or are put.
        console: where it is told why they are learned again.

    Raises:
        UserError: no vocabulary can be learned from the pairs, or the folder can't be written or holds something else.
    """
    wanted = recipe.tokenizer
    learned_from = {
        "task": recipe.task,
        "tokenizer": wanted.model_dump(exclude={"keep"}),
        "data": settings_of(recipe, "train"),
        "state": state_of(pairs),
    }
    text = json.dumps(learned_from, indent=2) + "\n"
    learned_from = json.loads(text)  # as the record has it
    there = folder / "tokenizer"
    with told_in_one_line(folder), locked(folder, console, shared=True):
        if learned_from["state"] and read_object(there / LEARNED_FROM) == learned_from:
            with suppress(UserError):  # it is damaged, which is told below
                return TokenizerPair.load(there)
    with told_in_one_line(folder), locked(folder, console):
        record = read_object(there / LEARNED_FROM)
        changed = [key for key in learned_from if record.get(key) != learned_from[key]]
        copied = bool(learned_from["state"]) and changed == ["state"] and _same_texts(record, pairs, folder)
        if copied or (learned_from["state"] and not changed):
            try:
                tokenizers = TokenizerPair.load(there)
            except UserError:
                tell(console, "tokenizer: the learned vocabulary is damaged; learning it again")
            else:
                if copied:
                    (there / LEARNED_FROM).write_text(text, encoding="utf-8")
                return tokenizers
        if there.exists():
            _check_replaceable(there)
        if record and changed:
            names = {"tokenizer": "its settings", "state": "the text files"}
            what = ", ".join(names.get(key, key) for key in changed)
            tell(console, f"tokenizer: the learned vocabulary differs in {what}; learning it again")
        if recipe.task == "parsing":
            tokenizers = train_parsing_tokenizers(pairs, kind=wanted.kind, vocab_size=wanted.vocab_size)
        else:
            tokenizers = train_tokenizers(
                pairs,
                kind=wanted.kind,
                vocab_size=wanted.vocab_size,
                joint=wanted.joint,
                placeholders=recipe.data.placeholders > 0,
            )
        with folder_written_whole(there) as partial:
            tokenizers.save(partial)
            (partial / LEARNED_FROM).write_text(text, encoding="utf-8")
    return tokenizers


def _same_texts(record: dict[str, Any], pairs: Pairs, folder: Path) -> bool:
    """Whether tokenizers were learned from the texts of these pairs, in files that were copied or moved since.

    The fingerprint of what was prepared tells, if that was of the very files that they were learned from: other texts
    may have been prepared since with another run's tokenizers.
    """
    learned = fingerprint_there(folder / "train", record.get("state"), record["data"])
    return learned is not None and learned == fingerprint(pairs)


def _check_replaceable(folder: Path) -> None:
    """Raises a UserError where a folder, which learned tokenizers would replace, holds anything but such."""
    names = {path.name for path in folder.iterdir()}
    own = (LEARNED_FROM, DESCRIPTION, CHECKSUMS)
    others = {name for name in names if name not in own and name.split(".")[0] not in ("", "joint", "source", "target")}
    if names and (others or LEARNED_FROM not in names):
        what = min(others) if LEARNED_FROM in names else f"a folder without {LEARNED_FROM}"
        raise UserError(
            f"{folder}: not replaced by a vocabulary learned for this recipe: {what} was not made by preparing; give "
            "another folder with data.prepared"
        )


def check_placeholders(recipe: Recipe, tokenizers: TokenizerPair) -> None:
    """Raises a UserError where tokenizers, which only another run's can be, have no placeholders that are wanted."""
    if recipe.data.placeholders and not (tokenizers.source.placeholder_ids and tokenizers.target.placeholder_ids):
        raise UserError(
            f"data.placeholders is {recipe.data.placeholders}; it must be 0 with the tokenizer of the run that this "
            "training starts from, which has no placeholders; or learn a new one, with init_from and tokenizer.keep: "
            "false"
        )
