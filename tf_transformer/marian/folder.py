"""A MarianMT model's folder, as the transformers library has it: read, and checked file by file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.errors import UserError, reason
from tf_transformer.files.as_json import read_json
from tf_transformer.files.model_formats import is_ctranslate2
from tf_transformer.marian.config import renormalizes, search_settings, with_defaults

if TYPE_CHECKING:
    from tf_transformer.marian.weights import Weights
    from tf_transformer.tokenizers import TokenizerPair

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
SAFE_WEIGHTS, PICKLED_WEIGHTS = "model.safetensors", "pytorch_model.bin"

# By what MarianTokenizer here calls a piece, how tokenizer_config.json begins its name.
ROLES = {"end": "eos", "unknown": "unk", "padding": "pad"}


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads what a folder says of its model and of its tokenizers, before anything is loaded that takes time.

    Returns:
        `config.json`, with what it leaves out, and `tokenizer_config.json`, empty if it is not there.

    Raises:
        UserError: a file is missing, one of these two is damaged, or the model is none that this package can be.
    """
    if is_ctranslate2(path):
        raise UserError(
            f"{path}: a CTranslate2 model, whose weights can't be read back; give the folder of the MarianMT model "
            "that it was made from"
        )
    if not (path / CONFIG).is_file():
        raise UserError(
            f"{path}: no {CONFIG} there; give the folder of a MarianMT model, such as a copy of "
            "Helsinki-NLP/opus-mt-en-de"
        )
    config = with_defaults(_read_json(path / CONFIG), path / CONFIG)
    settings = _read_json(path / TOKENIZER) if (path / TOKENIZER).is_file() else {}
    needed = [VOCABULARY, SOURCE_MODEL, TARGET_MODEL, *([TARGET_VOCABULARY] if settings.get("separate_vocabs") else [])]
    missing = [name for name in needed if not (path / name).is_file()]
    if not any((path / name).is_file() for name in (SAFE_WEIGHTS, PICKLED_WEIGHTS)):
        # The transformers library parts weights above a size that it is told, which is larger than any OPUS-MT model.
        for index in (f"{SAFE_WEIGHTS}.index.json", f"{PICKLED_WEIGHTS}.index.json"):
            if (path / index).is_file():
                raise UserError(
                    f"{path / index}: the weights are split into several files, but only {SAFE_WEIGHTS} is supported; "
                    "load the folder with the transformers library and save it with save_pretrained(..., "
                    'max_shard_size="50GB")'
                )
        missing.append(f"{SAFE_WEIGHTS} or {PICKLED_WEIGHTS}")
    if missing:
        raise UserError(f"{path}: missing {', '.join(missing)}; copy the whole folder of the model")
    return config, settings


@dataclass(frozen=True)
class MarianFolder:
    """What a folder holds beside its weights.

    Attributes:
        path: the folder.
        config: `config.json`, with what it leaves out.
        evaluation: how the model is asked to translate, as keys of a recipe's section `evaluation`.
        renormalizes: whether padding has no share of the probability in that.
        tokenizers: those of the two languages.
        languages: the codes of the two languages; None where the folder does not say.
    """

    path: Path
    config: dict[str, Any]
    evaluation: dict[str, Any]
    renormalizes: bool
    tokenizers: TokenizerPair
    languages: tuple[str | None, str | None]

    @classmethod
    def read(cls, path: Path) -> MarianFolder:
        """Reads a folder.

        Raises:
            UserError: a file is missing or damaged, or the model is none that this package can be.
        """
        config, settings = read_config(path)
        generation = _read_json(path / GENERATION) if (path / GENERATION).is_file() else {}
        told = config, generation, path / (GENERATION if generation else CONFIG)
        evaluation, without_padding = search_settings(*told), renormalizes(*told)
        if settings.get("sp_model_kwargs"):
            raise UserError(f"{path / TOKENIZER}: sp_model_kwargs is not empty, which is not supported")
        languages = settings.get("source_lang") or None, settings.get("target_lang") or None
        tokenizers = _read_tokenizers(path, config, settings)
        return cls(path, config, evaluation, without_padding, tokenizers, languages)

    def read_weights(self) -> Weights:
        """Reads the weights: `model.safetensors`, or if it is not there `pytorch_model.bin`.

        Raises:
            UserError: it is damaged.
        """
        return (
            _read_safetensors(self.weights_file) if self.weights_file.suffix != ".bin" else _read_bin(self.weights_file)
        )

    @property
    def weights_file(self) -> Path:
        """The file that the weights are in."""
        safe = self.path / SAFE_WEIGHTS
        return safe if safe.is_file() else self.path / PICKLED_WEIGHTS


def _read_tokenizers(path: Path, config: Mapping[str, Any], settings: Mapping[str, Any]) -> TokenizerPair:
    from tf_transformer.tokenizers import MarianTokenizer, TokenizerPair

    separate = bool(settings.get("separate_vocabs"))
    if separate and config["share_encoder_decoder_embeddings"]:
        rule = f"{CONFIG} has share_encoder_decoder_embeddings, which needs one vocabulary"
        raise UserError(f"{path / TOKENIZER}: separate_vocabs is true; {rule}")
    names = {role: _piece(settings.get(f"{key}_token")) for role, key in ROLES.items()}
    special = {role: name for role, name in names.items() if name is not None}
    sides = (
        (SOURCE_MODEL, VOCABULARY, config["vocab_size"]),
        (TARGET_MODEL, TARGET_VOCABULARY if separate else VOCABULARY, config["decoder_vocab_size"]),
    )
    tokenizers = []
    for model, vocabulary, size in sides:
        pieces = _read_vocabulary(path / vocabulary, size)
        content = _read_bytes(path / model)
        try:
            tokenizer = MarianTokenizer(content, pieces, **special)
        except UserError as error:
            raise UserError(f"{path / model}, with {vocabulary}: {error}") from None
        end, _, padding = tokenizer.special_pieces
        for key, piece in (("eos_token_id", end), ("pad_token_id", padding)):
            if pieces.index(piece) != config[key]:
                raise UserError(
                    f"{path / vocabulary}: {piece} is {pieces.index(piece)}, but {CONFIG} has {key} {config[key]}; "
                    "copy both from the same model"
                )
        tokenizers.append(tokenizer)
    return TokenizerPair(*tokenizers, "marian")


def _piece(token: Any) -> str | None:
    """A token of `tokenizer_config.json`, which may be a mapping with its text in it."""
    return token.get("content") if isinstance(token, dict) else token


def _read_vocabulary(path: Path, size: int) -> list[str]:
    """The pieces in the order of their ids."""
    ids = _read_json(path)
    if sorted(ids.values(), key=lambda each: each if isinstance(each, int) else -1) != list(range(size)):
        raise UserError(
            f"{path}: has {len(ids)} pieces, but {CONFIG} needs one for each id from 0 to {size - 1}; copy both "
            "from the same model"
        )
    return sorted(ids, key=ids.__getitem__)


def _read_json(path: Path) -> dict[str, Any]:
    written = _read_bytes(path)
    try:
        content = read_json(written)
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error}); copy it again") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: not a JSON object; copy it again")
    return content


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: can't be read ({reason(error)}); copy the whole folder of the model") from None


def _read_safetensors(path: Path) -> Weights:
    import safetensors
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (safetensors.SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(f"{path}: can't be read as safetensors ({reason(error)}); copy it again") from None


def _read_bin(path: Path) -> Weights:
    from tf_transformer.marian.pickled import read_pickled

    return read_pickled(path)
