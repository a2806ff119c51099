"""One experiment, read from YAML and checked.

A recipe has a model for each of its sections. A field's description says what its key means.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import yaml
from pydantic import BaseModel, BeforeValidator, Field, SkipValidation, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.presets import PRESETS, nearest_preset

DEMO_SPLITS = ("train", "validation", "test")

Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
# Letters, digits, _ and -, with single dots between: it names a folder, and must not lead out of another.
FolderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$")]
# `DataSettings` checks it: whether one name or a list of two is right depends on the kind of data.
_AS_TUPLE = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
Split = Annotated[str | tuple[str, ...] | None, SkipValidation, _AS_TUPLE]


class _Settings(BaseModel):
    model_config = {"extra": "forbid", "strict": True, "frozen": True, "allow_inf_nan": False}


class DataSettings(_Settings):
    """Where the sentence pairs come from, and how they become batches."""

    kind: Literal["demo", "files", "tsv", "tfds"] = Field(description="what the pairs are read from")
    root: Text | None = Field(None, description="folder of relative paths; the data folder of kind tfds")
    dataset: Text | None = Field(None, description="name of the TensorFlow dataset of kind tfds")
    source_language: Text = Field("en", description="code of the language translated from")
    target_language: Text = Field("de", description="code of the language translated into")
    train: Split = Field(None, description="the pairs to learn from")
    validation: Split = Field(None, description="the pairs to watch progress on")
    test: Split = Field(None, description="the pairs to score at the end")
    invalid_utf8: Literal["error", "skip"] = Field("error", description="what a line that is no UTF-8 does")
    max_length: Count = Field(128, description="most tokens on a side of a pair, the closing one counted")
    max_ratio: Annotated[float, Field(ge=1)] | None = Field(None, description="longer side over shorter one")
    batch_tokens: Count = Field(4096, description="most tokens on a side of a batch, padding counted")
    shuffle_buffer: Count = Field(100_000, description="pairs among which the next one is drawn")

    @model_validator(mode="before")
    @classmethod
    def _name_demo_splits(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("kind") == "demo":
            raw = {**raw, **{split: split for split in DEMO_SPLITS if raw.get(split) is None}}
        return raw

    @model_validator(mode="after")
    def _check_kind(self) -> DataSettings:
        for key in DEMO_SPLITS:
            self._check_split(key, getattr(self, key))
        if self.kind == "tfds" and self.dataset is None:
            _refuse("dataset", "is missing; for kind tfds it is a name such as wmt14_translate/de-en")
        if self.kind != "tfds" and self.dataset is not None:
            _refuse("dataset", f"is {_shown(self.dataset)}; for kind {self.kind} it must be null")
        if self.kind == "demo" and self.root is not None:
            _refuse("root", f"is {_shown(self.root)}; for kind demo, which reads no files, it must be null")
        return self

    def _check_split(self, key: str, value: Any) -> None:
        one = isinstance(value, str) and value != ""
        two = isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, str) and v for v in value)
        right, allowed = {
            "files": (two, "two paths, [source, target]"),
            "tsv": (one, "one path"),
            "tfds": (one, "the name of one split"),
            "demo": (value in DEMO_SPLITS, f"one of {', '.join(DEMO_SPLITS)}"),
        }[self.kind]
        if not right and not (key == "test" and value is None):
            state = "is missing" if value is None else f"is {_shown(value)}"
            _refuse(key, f"{state}; for kind {self.kind} it must be {allowed}")


class TokenizerSettings(_Settings):
    """How sentences are cut into tokens."""

    kind: Literal["bpe", "unigram", "wordpiece"] = Field("bpe", description="how the vocabulary is found")
    vocab_size: Count = Field(description="how many tokens there are, the four special ones included")
    joint: bool = Field(True, description="one vocabulary for both languages")


class ModelSettings(_Settings):
    """The Transformer itself."""

    preset: str | None = Field(None, description="a configuration of the paper, for what is not given")
    num_layers: Count = Field(description="layers in the encoder, and as many in the decoder")
    d_model: Count = Field(description="width of the model")
    num_heads: Count = Field(description="heads of each attention")
    dff: Count = Field(description="width inside the feed-forward networks")
    dropout_rate: Rate = Field(0.1, description="share of each sub-layer's output dropped in training")
    key_dim: Count | None = Field(None, description="width of a head's queries and keys")
    value_dim: Count | None = Field(None, description="width of a head's values")
    norm_first: bool = Field(False, description="normalise before each sub-layer instead of after")
    position: Literal["sinusoidal", "learned"] = Field("sinusoidal", description="how positions are told")
    max_length: Count = Field(512, description="how many positions there are")
    share_embeddings: Literal["all", "target", "none"] = Field("all", description="which matrices are one")

    @model_validator(mode="after")
    def _check_widths(self) -> ModelSettings:
        if (self.key_dim is None or self.value_dim is None) and self.d_model % self.num_heads:
            rule = f"divide d_model, {self.d_model}, unless key_dim and value_dim are given"
            _refuse("num_heads", f"is {self.num_heads}; it must {rule}")
        if self.position == "sinusoidal" and self.d_model % 2:
            _refuse("d_model", f"is {self.d_model}; for sinusoidal positions it must be even")
        return self

    def arguments(self, input_vocab_size: int, target_vocab_size: int) -> dict[str, Any]:
        """Gives the arguments of the `Transformer`.

        Args:
            input_vocab_size: size of the source vocabulary.
            target_vocab_size: size of the target vocabulary.

        Returns:
            A new dictionary of every argument.

        Example:
            >>> load_recipe("train/recipes/demo.yaml").model.arguments(1000, 1000)["target_vocab_size"]
            1000
        """
        sizes = {"input_vocab_size": input_vocab_size, "target_vocab_size": target_vocab_size}
        return {**self.model_dump(exclude={"preset"}), **sizes}


class TrainingSettings(_Settings):
    """How the model learns."""

    steps: Count = Field(description="how many updates to train for")
    warmup_steps: Count = Field(4000, description="updates during which the learning rate rises")
    learning_rate_scale: Annotated[float, Field(gt=0)] = Field(1.0, description="factor on the paper's rate")
    label_smoothing: Rate = Field(0.1, description="probability moved from the right token onto all")
    validate_every: Count = Field(description="updates from one validation, with its checkpoint, to the next")
    keep_checkpoints: Count = Field(5, description="how many checkpoints stay on disk")
    early_stopping: Count | None = Field(None, description="validations without gain that end training")
    distribution: Literal["mirrored", "single"] = Field("mirrored", description="all devices, or one")
    sample_translations: CountOrZero = Field(3, description="sentences translated at each validation")


class EvaluationSettings(_Settings):
    """How translations are made and scored."""

    lowercase: bool = Field(False, description="score without regard to case as well")
    batch_size: Count = Field(64, description="sentences translated at once")
    beam_size: Count = Field(4, description="hypotheses followed side by side")
    alpha: Annotated[float, Field(ge=0)] = Field(0.6, description="strength of the length penalty")
    extra_length: CountOrZero = Field(50, description="tokens a translation may have beyond its source's")

    def decoding_options(self) -> DecodingOptions:
        """How the run's model translates, unless it is told otherwise."""
        return DecodingOptions(beam_size=self.beam_size, alpha=self.alpha, extra_length=self.extra_length)


class Recipe(_Settings):
    """One experiment, with every setting resolved."""

    name: FolderName = Field(description="what the run's folder is called")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(1, description="where all randomness starts")
    data: DataSettings
    tokenizer: TokenizerSettings
    model: ModelSettings
    training: TrainingSettings
    evaluation: EvaluationSettings

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        # An absent section is an empty one: what is then missing is a key, which can be told by name.
        raw = {**raw, **{section: {} for section in _SECTIONS if raw.get(section) is None}}
        preset = raw["model"].get("preset") if isinstance(raw["model"], dict) else None
        if isinstance(preset, str) and preset not in PRESETS:
            _refuse("model.preset", f"is {_shown(preset)}; {nearest_preset(preset)}")
        for section, values in _preset_values(preset).items():
            given = raw[section]
            if isinstance(given, dict):
                missing = {key: value for key, value in values.items() if given.get(key) is None}
                raw[section] = {**given, **missing}
        return raw

    @model_validator(mode="after")
    def _check_across_sections(self) -> Recipe:
        if self.model.share_embeddings == "all" and not self.tokenizer.joint:
            _refuse("model.share_embeddings", "is all, which needs tokenizer.joint: true; or take target or none")
        for key, value, other, limit in (
            ("data.max_length", self.data.max_length, "data.batch_tokens", self.data.batch_tokens),
            ("data.max_length", self.data.max_length, "model.max_length", self.model.max_length),
        ):
            if value > limit:
                _refuse(key, f"is {value}; it must be at most {other}, {limit}")
        return self


_SECTIONS: dict[str, Any] = {
    name: field.annotation for name, field in Recipe.model_fields.items() if name not in ("name", "seed")
}
_KEYS = ["name", "seed", *(f"{name}.{key}" for name, part in _SECTIONS.items() for key in part.model_fields)]


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Reads and checks a recipe.

    Args:
        path: the YAML file.
        overrides: settings that replace the file's, each "key=value" with a dotted key and a YAML value.
            `model.preset` here replaces all that the preset says, unless that is overridden too.

    Returns:
        The recipe, every setting resolved.

    Raises:
        UserError: the file can't be read, or a setting is wrong; the message is one line.

    Example:
        >>> load_recipe("train/recipes/demo.yaml", ["training.steps=2000"]).training.steps
        2000
    """
    where = str(path)
    raw = _parse(_read(Path(path)), where)
    if not isinstance(raw, dict):
        state = "is empty" if raw is None else f"holds {_shown(raw)}"
        raise _error(where, f"the recipe {state}; train/recipes/demo.yaml shows what it must look like")
    # The preset comes first, so that it leaves alone what else is overridden.
    sources = {}
    for override in sorted(overrides, key=lambda override: not override.startswith("model.preset=")):
        key, value = _split_override(override)
        _override(raw, key, value)
        sources[key] = f"--set {override}"
    try:
        return Recipe.model_validate(raw)
    except ValidationError as error:
        raise _explain(error, where, sources) from None


def save_recipe(recipe: Recipe, path: str | Path) -> None:
    """Writes a resolved recipe, every key present; `load_recipe` gives an equal one.

    Args:
        recipe: what to write.
        path: the file, replaced whole if it is there.

    Raises:
        UserError: the file can't be written.

    Example:
        >>> from tempfile import mkdtemp
        >>> save_recipe(load_recipe("train/recipes/demo.yaml"), Path(mkdtemp()) / "recipe.yaml")
    """
    path = Path(path)
    text = yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False)
    # Written beside and renamed, so that nobody ever reads half a recipe.
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise _error(str(path), f"the recipe can't be written: {error.strerror}") from None


class _Loader(yaml.SafeLoader):
    """YAML in which a key given twice is a mistake, instead of the second one winning."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in lines:
                problem = f"{key.value} was given on line {lines[key.value]} already; keep one of them"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            lines[key.value] = key.start_mark.line + 1
        return node


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        problem = "there is no such recipe; the project's are in train/recipes"
    except UnicodeDecodeError as error:
        problem = f"byte {error.start + 1} is not UTF-8; save the recipe as UTF-8 text"
    except OSError as error:
        problem = f"the recipe can't be read: {error.strerror}"
    raise _error(str(path), problem)


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a value such as the date 2024-13-45
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or error
        raise _error(where, f"{line}not a recipe's YAML: {problem}") from None


def _split_override(override: str) -> tuple[str, Any]:
    where = f"--set {override}"
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise _error(where, "an override must be key=value, such as training.steps=2000")
    if key in _SECTIONS:
        raise _error(where, f"{key} is a section; set one of {', '.join(_SECTIONS[key].model_fields)} in it")
    if key not in _KEYS:
        raise _error(where, _unknown(key))
    return key, _parse(text, where)


def _override(raw: dict[str, Any], key: str, value: Any) -> None:
    section, _, leaf = key.rpartition(".")
    if section and raw.get(section) is None:
        raw[section] = {}
    settings = raw[section] if section else raw
    # A section that is no mapping is reported when the whole recipe is checked.
    if isinstance(settings, dict):
        settings[leaf] = value
    if key == "model.preset":
        for name, values in _preset_values(value).items():
            for its_key, its_value in values.items():
                _override(raw, f"{name}.{its_key}", its_value)


def _preset_values(name: Any) -> dict[str, dict[str, Any]]:
    """What a preset says, by section; nothing if there is none of that name."""
    preset = PRESETS.get(name) if isinstance(name, str) else None
    return {"model": preset.model, "training": {"label_smoothing": preset.label_smoothing}} if preset else {}


def _refuse(key: str, problem: str) -> NoReturn:
    """Reports a mistake in `key`, a dotted name seen from the model that checks it."""
    raise PydanticCustomError("refused", "{problem}", {"key": key, "problem": problem})


def _explain(error: ValidationError, where: str, sources: dict[str, str]) -> UserError:
    """Puts what pydantic found into one line."""
    unknown = ("extra_forbidden", "invalid_key")
    # A mistyped key comes first: often it is also the reason why another is missing.
    first, *others = sorted(error.errors(), key=lambda mistake: mistake["type"] not in unknown)
    parts = [*first["loc"], first["ctx"]["key"]] if first["type"] == "refused" else first["loc"]
    key = ".".join(str(part) for part in parts)
    problem = _unknown(key) if first["type"] in unknown else f"{key} {_problem(first, key)}"
    more = f" (and {len(others)} more)" if others else ""
    return _error(sources.get(key, where), problem + more)


# What is allowed, where pydantic's own words are not plain enough.
_ALLOWED = {
    "bool_type": "it must be true or false",
    "float_type": "it must be a number, with no quotes and with a point before any exponent (1.0e-4)",
    "int_type": "it must be a whole number, with no point and no quotes",
    "model_type": "it must be a section, with its keys indented under it",
    "string_pattern_mismatch": "it must be letters, digits, _, - and single dots between, to name a folder",
    "string_too_short": "it must not be empty",
    "string_type": "it must be text; put it in quotes",
}


def _problem(mistake: Any, key: str) -> str:
    section, _, leaf = key.rpartition(".")
    if mistake["type"] == "refused":
        return mistake["msg"]
    if mistake["type"] == "missing":
        return f"is missing; it tells {_SECTIONS.get(section, Recipe).model_fields[leaf].description}"
    in_pydantics_words = mistake["msg"].replace("Input should be", "it must be")
    return f"is {_shown(mistake['input'])}; {_ALLOWED.get(mistake['type'], in_pydantics_words)}"


def _unknown(key: str) -> str:
    """Says that there is no such key, with the nearest one or else all of its section."""
    section, _, leaf = key.rpartition(".")
    fields = _SECTIONS.get(section, Recipe).model_fields
    nearest = [known for known in _KEYS if known.rpartition(".")[2] == leaf]
    if not nearest:
        start = f"{section}." if section in _SECTIONS else ""
        nearest = [start + name for name in difflib.get_close_matches(leaf, fields, n=1, cutoff=0.55)]
    advice = f"did you mean {nearest[0]}?" if nearest else f"choose from {', '.join(fields)}"
    return f"unknown key {key}; {advice}"


def _shown(value: Any) -> str:
    """Shows a value the way YAML writes it, cut where it is long."""
    value = list(value) if isinstance(value, tuple) else value
    text = yaml.dump(value, default_flow_style=True, allow_unicode=True, width=float("inf"))
    text = text.removesuffix("...\n").strip()
    return text if len(text) <= 80 else text[:77] + "..."


def _error(where: str, problem: str) -> UserError:
    """Makes the one line, whatever a file's name or a value may hold."""
    return UserError("".join(c if c.isprintable() else " " for c in f"{where}: {problem}"))
