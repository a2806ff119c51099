"""The tokenizers of the two languages, and the files they are kept in."""

from __future__ import annotations

import hashlib
import json
from os import PathLike
from pathlib import Path

import tensorflow as tf

from tf_transformer.errors import UserError
from tf_transformer.files.as_json import read_json
from tf_transformer.files.checksums import check_checksums, write_checksums
from tf_transformer.tokenizers.base import Tokenizer
from tf_transformer.tokenizers.kinds import TARGET_KINDS, TOKENIZER_KINDS, TokenizerKind

DESCRIPTION = "tokenizer.json"

REMEDY = "copy or train the tokenizer again"


class TokenizerPair(tf.Module):
    """The tokenizer of the source language and that of the target language.

    Args:
        source: the tokenizer of the source language.
        target: the tokenizer of the target language; the same object if one vocabulary serves both.
        kind: "bpe", "unigram", "wordpiece" or "marian".
        target_kind: the kind of the target, if it differs; it may be "brackets", for which a SentencePiece
            source becomes a `WholeWordTokenizer`.

    Attributes:
        joint: whether one vocabulary serves both languages.

    Example:
        >>> import tempfile
        >>> from tf_transformer.tokenizers import TokenizerPair, train_tokenizers
        >>> pair = train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     pair.save(directory)
        ...     TokenizerPair.load(directory).target.vocab_size
        280
    """

    def __init__(self, source: Tokenizer, target: Tokenizer, kind: str, target_kind: str | None = None) -> None:
        super().__init__()
        self.kind = kind
        self.target_kind = target_kind or kind
        # A parser's trees have a token for each word of the sentence.
        self.source = source.for_whole_words() if self.for_parsing else source
        self.target = target

    @property
    def joint(self) -> bool:
        return self.source is self.target

    @property
    def for_parsing(self) -> bool:
        """Whether they are a parser's, whose target is trees."""
        return self.target_kind == "brackets"

    @property
    def checksum(self) -> str:
        """Tells them from any others, by their kinds and vocabularies; prepared data is known by it."""
        digest = hashlib.sha256(f"{self.kind} {self.target_kind}".encode())
        for tokenizer in (self.source, self.target):
            digest.update(hashlib.sha256(tokenizer.to_bytes()).digest())
        return digest.hexdigest()

    def same_as(self, other: TokenizerPair) -> bool:
        """Whether another pair gives the same ids for any text, being made of the same vocabularies."""
        return self.checksum == other.checksum

    def save(self, directory: str | PathLike) -> None:
        """Writes plain files: `tokenizer.json`, each vocabulary's `.model`, `.txt` or `.marian.json`, and checksums.

        Args:
            directory: where to write; created if it does not exist.
        """
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        tokenizers = {"joint": self.source} if self.joint else {"source": self.source, "target": self.target}
        files = {name + tokenizer.file_suffix: tokenizer.to_bytes() for name, tokenizer in tokenizers.items()}
        for name, content in files.items():
            (directory / name).write_bytes(content)
        description = {"kind": self.kind, "joint": self.joint}
        if self.target_kind != self.kind:
            description["target_kind"] = self.target_kind
        (directory / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        write_checksums(directory, [DESCRIPTION, *files])

    @classmethod
    def load(cls, directory: str | PathLike) -> TokenizerPair:
        """Reads what `save` wrote.

        Args:
            directory: where the files are.

        Returns:
            A pair that gives the same ids as the one that was saved.

        Raises:
            UserError: a file is missing or damaged; the message names it.
        """
        directory = Path(directory)
        check_checksums(directory, REMEDY)
        text = _read(directory / DESCRIPTION)
        try:
            description = read_json(text)
            kind, joint = description["kind"], description["joint"]
            target_kind = description.get("target_kind", kind)
            kind_of_source, kind_of_target = TOKENIZER_KINDS[kind], TARGET_KINDS[target_kind]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f'{directory / DESCRIPTION}: expected {{"kind": one of {", ".join(TOKENIZER_KINDS)}, '
                f'"joint": true or false}}; {REMEDY}'
            ) from error

        def load_one(name: str, its_kind: TokenizerKind) -> Tokenizer:
            tokenizer_class = its_kind.get_class()
            path = directory / (name + tokenizer_class.file_suffix)
            data = _read(path)
            try:
                return tokenizer_class.from_bytes(data)
            except UserError as error:
                raise UserError(f"{path}: {error}") from error

        if joint:
            tokenizer = load_one("joint", kind_of_source)
            return cls(tokenizer, tokenizer, kind)
        source, target = load_one("source", kind_of_source), load_one("target", kind_of_target)
        return cls(source, target, kind, target_kind)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); give a directory that TokenizerPair.save wrote"
        ) from error
