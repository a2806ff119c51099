"""A recipe's section `data`: where the sentence pairs come from, and how they become batches."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SkipValidation, TypeAdapter, model_validator

from tf_transformer.data.noise import Noise
from tf_transformer.recipe.fields import Count, CountOrZero, Positive, Settings, Share, Text, as_tuple
from tf_transformer.recipe.refusals import refuse, shown

DEMO_SPLITS = ("train", "validation", "test")


# `DataSettings` checks it: whether one name or a list of two is right depends on the kind of data.
Split = Annotated[str | tuple[str, ...] | None, SkipValidation, BeforeValidator(as_tuple)]


class NoiseSettings(Settings):
    """Noise on the source texts of a source, drawn once; see `tf_transformer.data.noise.Noise`.

    Example:
        >>> NoiseSettings(upper_case=1.0).noise()(1, "A man")
        'A MAN'
    """

    lower_case: Share = Field(0.0, description="share of sentences in lower case")
    upper_case: Share = Field(0.0, description="share of sentences in capitals")
    no_accents: Share = Field(0.0, description="share of sentences without accents")
    typos: Share = Field(0.0, description="share of words with a typo")
    drop: Share = Field(0.0, description="share of words left out")
    fill: Share = Field(0.0, description="share of words replaced by <blank>")
    swap: CountOrZero = Field(0, description="maximum number of places that a word moves")
    seed: CountOrZero = Field(0, description="other seeds give other noise of the same kind")

    @model_validator(mode="after")
    def _check_case(self) -> NoiseSettings:
        if self.lower_case + self.upper_case > 1:
            rule = f"together with upper_case, {self.upper_case}, it must be at most 1"
            refuse("lower_case", f"is {self.lower_case}; {rule}")
        return self

    def noise(self) -> Noise:
        """What makes it."""
        return Noise(**self.model_dump())


class SourceSettings(Settings):
    """One of several sources of pairs.

    Example:
        >>> SourceSettings(files=["back.en", "back.de"], weight=0.5, tag="<bt>").files
        ('back.en', 'back.de')
    """

    files: Split = Field(description="its files, in the form for the kind of data")
    weight: Positive = Field(1.0, description="how often each pair comes in an epoch, on average")
    tag: str | None = Field(None, description="a word put before each source text, followed by a space")
    noise: NoiseSettings | None = Field(None, description="noise on its source texts, a mapping of shares")
    alignments: Text | None = Field(None, description="file with the word alignment of each of its pairs")

    @model_validator(mode="after")
    def _check_alignments(self) -> SourceSettings:
        if self.alignments and self.noise:
            rule = "with noise, which moves words, it must be null"
            refuse("alignments", f"is {shown(self.alignments)}; {rule}")
        return self

    @model_validator(mode="after")
    def _check_tag(self) -> SourceSettings:
        if self.tag is not None and self.tag.split() != [self.tag]:
            refuse("tag", f"is {shown(self.tag)}; it must be one word, such as <bt>")
        return self

    @property
    def name(self) -> str:
        """What the log calls it."""
        files = " and ".join(self.files) if isinstance(self.files, tuple) else self.files
        if self.noise is None:
            return files
        told = {key: str(value).removesuffix(".0") for key, value in self.noise.model_dump().items() if value}
        shares = ", ".join(f"{key} {value}" for key, value in told.items())  # whole: a seed may be 20240101
        return f"{files} with noise ({shares or 'none'})"


_SOURCES = TypeAdapter(list[SourceSettings])


def _with_sources(value: Any) -> Any:
    """Makes sources of mappings in a list; everything else stays, to be checked by the kind of data."""
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        value = _SOURCES.validate_python(value)
    return as_tuple(value)


TrainSplit = Annotated[
    str | tuple[str, ...] | tuple[SourceSettings, ...] | None, SkipValidation, BeforeValidator(_with_sources)
]


def is_path(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def are_two_paths(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(is_path, value))


# The kinds of data: how to tell whether a split is right, and what it must be. `experiment/corpus.py` opens them.
SPLITS = {
    "demo": (lambda value: value in DEMO_SPLITS, f"one of {', '.join(DEMO_SPLITS)}"),
    "files": (are_two_paths, "two paths, [source, target]"),
    "tsv": (is_path, "one path"),
    "tfds": (is_path, "the name of one split"),
    "trees": (is_path, "the path of one treebank"),
    "none": (lambda value: value is None, "left out: an imported model has no text"),
}
SEVERAL_SOURCES = ("files", "tsv")


def _are_sources(value: Any) -> bool:
    return isinstance(value, tuple) and any(isinstance(each, SourceSettings) for each in value)


class DataSettings(Settings):
    """Where the sentence pairs come from, and how they become batches.

    Example:
        >>> DataSettings(kind="tsv", train="train.tsv", validation="val.tsv").max_length
        128
    """

    kind: Literal[tuple(SPLITS)] = Field(description="what the pairs are read from")
    root: Text | None = Field(None, description="folder that relative paths start from; the data folder of kind tfds")
    dataset: Text | None = Field(None, description="name of the TensorFlow dataset of kind tfds")
    source_language: Text = Field("en", description="code of the language translated from")
    target_language: Text = Field("de", description="code of the language translated into")
    train: TrainSplit = Field(None, description="the training pairs, or a list of several sources of pairs")
    validation: Split = Field(None, description="the validation pairs, scored during training")
    test: Split = Field(None, description="the test pairs, scored at the end")
    tags: bool = Field(False, description="a parser writes a word as its part-of-speech tag, not as XX")
    invalid_utf8: Literal["error", "skip"] = Field(
        "error", description="what to do with a line that is not valid UTF-8"
    )
    damaged: Literal["error", "skip"] = Field("error", description="what to do with a damaged gzip file or record")
    max_length: Count = Field(128, description="maximum tokens on each side of a pair, including the end token")
    max_ratio: Annotated[float, Field(ge=1)] | None = Field(
        None, description="largest allowed ratio of the longer side to the shorter"
    )
    placeholders: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0,
        description="how often in an epoch each training pair also comes with placeholders; for translate --protect",
    )
    alignments: Text | None = Field(
        None, description="file with the word alignment of each training pair, which model.alignment_head learns"
    )
    batch_tokens: Count = Field(4096, description="maximum tokens on each side of a batch, including padding")
    prepared: Text | None = Field(
        None,
        description="folder of the tokenised pairs, which training runs can share; null: a folder in the run's folder, "
        "removed at the end",
    )

    gone = ("shuffle_buffer",)  # of 0.2.0; each epoch shuffles all pairs now

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
        self._check_alignments()
        names = [source.name for source in self.sources()]
        if len(set(names)) < len(names):
            refuse("train", "names the same files twice; give one of these sources a higher weight, or noise")
        if self.kind == "tfds" and self.dataset is None:
            refuse("dataset", "is missing; for kind tfds it is a name such as wmt14_translate/de-en")
        if self.kind == "tfds" and self.invalid_utf8 == "skip":
            refuse(
                "invalid_utf8",
                "is 'skip', which kind tfds does not support; set it to 'error', or read the text as files",
            )
        for key in ("invalid_utf8", "damaged"):
            if self.kind == "trees" and getattr(self, key) == "skip":
                refuse(key, "is 'skip', but with kind trees a tree may take several lines; set it to 'error'")
        # TensorFlow Datasets fetches such a dataset's program, and runs it.
        if self.dataset is not None and re.match(r"[\w-]+:[A-Za-z]", self.dataset):
            rule = "be one of TensorFlow Datasets' own, without a namespace: else its program would be fetched and run"
            refuse("dataset", f"is {shown(self.dataset)}; it must {rule}")
        if self.kind != "tfds" and self.dataset is not None:
            refuse("dataset", f"is {shown(self.dataset)}; for kind {self.kind} it must be null")
        if self.kind == "demo" and self.root is not None:
            refuse("root", f"is {shown(self.root)}; for kind demo, which reads no files, it must be null")
        return self

    def sources(self) -> tuple[SourceSettings, ...]:
        """The sources of `train`; one, unless it lists several."""
        if _are_sources(self.train):
            return self.train
        return (SourceSettings.model_construct(files=self.train, alignments=self.alignments),)

    def _check_alignments(self) -> None:
        if self.alignments and _are_sources(self.train):
            rule = "if train lists sources it must be null: each source has its own key alignments"
            refuse("alignments", f"is {shown(self.alignments)}; {rule}")
        if not any(source.alignments for source in self.sources()):
            return
        if self.kind not in SEVERAL_SOURCES:
            refuse("alignments", f"is {shown(self.alignments)}; for kind {self.kind} it must be null")
        for key in ("invalid_utf8", "damaged"):
            if getattr(self, key) == "skip":
                refuse(key, "is 'skip', but with alignments line N is for pair N; set it to 'error'")

    def _check_split(self, key: str, value: Any) -> None:
        is_right, allowed = SPLITS[self.kind]
        if key == "train" and _are_sources(value):
            if self.kind not in SEVERAL_SOURCES:
                refuse(key, f"lists sources; for kind {self.kind} it must be {allowed}")
            for number, source in enumerate(value):
                if not is_right(source.files):
                    refuse(
                        f"{key}.{number}.files", f"is {shown(source.files)}; for kind {self.kind} it must be {allowed}"
                    )
            return
        if not is_right(value) and not (key == "test" and value is None):
            state = "is missing" if value is None else f"is {shown(value)}"
            refuse(key, f"{state}; for kind {self.kind} it must be {allowed}")
