"""A recipe's settings: a model for each of its sections, which checks them; `rules.py` compares the sections.

A field's description says what its key means.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SkipValidation, model_validator

from tf_transformer.decoding.options import RANGES, DecodingOptions
from tf_transformer.layers.arguments import ACTIVATIONS, NORM_EPSILON, POSITIONS, SHARING
from tf_transformer.models.kinds import MODEL_KINDS
from tf_transformer.models.presets import PRESETS, nearest_preset
from tf_transformer.recipe.data_settings import DataSettings
from tf_transformer.recipe.fields import (
    Count,
    CountOrZero,
    FolderName,
    NotNegative,
    Positive,
    Rate,
    Settings,
    Text,
    as_tuple,
)
from tf_transformer.recipe.refusals import refuse, shown
from tf_transformer.recipe.rules import check_alignments, check_also, check_fine_tuning, check_sections, check_task
from tf_transformer.tokenizers.kinds import TOKENIZER_KINDS


def _with_tuples(value: Any) -> Any:
    return {key: as_tuple(each) for key, each in value.items()} if isinstance(value, dict) else value


# `rules.py` checks it: what a set is depends on the task.
Sets = Annotated[dict[str, Any] | None, SkipValidation, BeforeValidator(_with_tuples)]

# `rules.py` checks it: which there are depends on the model's sizes.
Head = Annotated[tuple[int, int] | None, SkipValidation, BeforeValidator(as_tuple)]


class TokenizerSettings(Settings):
    """How sentences are cut into tokens.

    Example:
        >>> TokenizerSettings(vocab_size=8000).kind
        'bpe'
    """

    kind: Literal[tuple(TOKENIZER_KINDS)] = Field("bpe", description="how the vocabulary is learned")
    vocab_size: Count = Field(description="size of the vocabulary, including the four special tokens")
    joint: bool = Field(True, description="one vocabulary for both languages")
    keep: bool = Field(
        True, description="with init_from: keep that model's tokenizer, or learn a new one and map the embeddings"
    )


class ModelSettings(Settings):
    """The model itself.

    Example:
        >>> ModelSettings(num_layers=2, d_model=64, num_heads=4, dff=256).dropout_rate
        0.1
    """

    kind: Literal[tuple(MODEL_KINDS)] = Field("transformer", description="kind of model")
    preset: str | None = Field(None, description="a configuration of the paper, for the settings that are not given")
    num_layers: Count = Field(description="layers in the encoder, and in the decoder unless decoder_layers is given")
    decoder_layers: Count | None = Field(None, description="layers in the decoder; null for as many as in the encoder")
    d_model: Count = Field(description="width of the model")
    num_heads: Count = Field(description="number of attention heads")
    dff: Count = Field(description="inner width of the feed-forward networks")
    dropout_rate: Rate = Field(0.1, description="share of each sub-layer's output dropped in training")
    attention_dropout_rate: Rate = Field(0.0, description="share of the attention weights dropped in training")
    activation_dropout_rate: Rate = Field(0.0, description="share of the feed-forward's hidden layer dropped")
    key_dim: Count | None = Field(None, description="width of a head's queries and keys")
    value_dim: Count | None = Field(None, description="width of a head's values")
    norm_first: bool = Field(False, description="normalise before each sub-layer instead of after")
    norm_epsilon: Annotated[float, Field(gt=0, lt=1)] = Field(
        NORM_EPSILON, description="added to the variance in the layer normalisations"
    )
    activation: Literal[ACTIVATIONS] = Field("relu", description="activation of the feed-forward networks")
    position: Literal[POSITIONS] = Field("sinusoidal", description="how positions are encoded")
    scale_embeddings: bool = Field(True, description="multiply embeddings by the square root of d_model")
    output_bias: bool = Field(False, description="add a learned bias to the logits")
    window: Count | None = Field(None, description="how far to each side the encoder's self-attention reaches")
    next_word: bool = Field(False, description="a parser's decoder receives the encoder's output at the next word")
    tree_state: bool = Field(False, description="a parser's decoder receives the state of the tree, with the next word")
    tree_loss: Annotated[float, Field(ge=0)] = Field(
        0.0, description="weight of a loss by which a parser's encoder learns the tree, with tree_state"
    )
    alignment_head: Head = Field(
        None,
        description="[decoder layer, head], counted from 0, that learns data.alignments and gives a translation's "
        "alignment; null: with alignments the first head of the next-to-last layer, otherwise the mean of all heads",
    )
    max_length: Count = Field(512, description="longest sequence that the model can process")
    share_embeddings: Literal[SHARING] = Field("all", description="which embedding and projection matrices are shared")

    @model_validator(mode="after")
    def _check_widths(self) -> ModelSettings:
        kind = MODEL_KINDS[self.kind]
        if kind.even_width and self.d_model % 2:
            refuse("d_model", f"is {self.d_model}; for kind {self.kind} it must be even")
        widths_given = self.key_dim is not None and self.value_dim is not None
        if "num_heads" not in kind.without and not widths_given and self.d_model % self.num_heads:
            rule = f"divide d_model, {self.d_model}, unless key_dim and value_dim are given"
            refuse("num_heads", f"is {self.num_heads}; it must {rule}")
        if "position" not in kind.without and self.position != "learned" and self.d_model % 2:
            refuse("d_model", f"is {self.d_model}; for sinusoidal positions it must be even")
        return self

    def arguments(self, input_vocab_size: int, target_vocab_size: int) -> dict[str, Any]:
        """Returns the arguments of the model.

        Args:
            input_vocab_size: size of the source vocabulary.
            target_vocab_size: size of the target vocabulary.

        Returns:
            A new dictionary of every argument that the kind of model has, except `next_word` and `tree_state`, which
            take tokens, and `tree_loss`, which goes with these.

        Example:
            >>> from tf_transformer.recipe import load_recipe
            >>> load_recipe("train/recipes/demo.yaml").model.arguments(1000, 1000)["target_vocab_size"]
            1000
        """
        sizes = {"input_vocab_size": input_vocab_size, "target_vocab_size": target_vocab_size}
        without = {"kind", "preset", "next_word", "tree_state", "tree_loss", *MODEL_KINDS[self.kind].without}
        return {**self.model_dump(exclude=without), **sizes}


class TrainingSettings(Settings):
    """How the model learns.

    Example:
        >>> TrainingSettings(steps=100, validate_every=50, gradient_accumulation=2).parts()
        2
    """

    steps: Count = Field(description="how many updates to train for")
    schedule: Literal["transformer", "inverse_sqrt", "cosine"] = Field(
        "transformer", description="how the learning rate rises and falls"
    )
    warmup_steps: Count = Field(4000, description="updates during which the learning rate rises")
    learning_rate: Positive | None = Field(None, description="the peak rate of schedule inverse_sqrt or cosine")
    learning_rate_scale: Positive = Field(1.0, description="factor on the paper's rate")
    weight_decay: NotNegative = Field(
        0.0, description="share of each weight subtracted at an update, times the learning rate"
    )
    clip_norm: Positive | None = Field(None, description="maximum norm of the gradient, over all weights")
    ema: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="decay of the moving average of the weights that is scored and saved"
    )
    label_smoothing: Rate = Field(0.1, description="probability that is spread over all tokens")
    r_drop: NotNegative = Field(
        0.0, description="weight of R-Drop, the divergence of two predictions with different dropout"
    )
    alignment_weight: Positive = Field(0.05, description="weight of the loss of model.alignment_head")
    gradient_accumulation: Count = Field(1, description="number of parts of a batch, processed one after another")
    parallel_parts: Count = Field(1, description="number of parts of each of these, processed in parallel")
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = Field(
        "float32", description="data type of the computation"
    )
    jit_compile: bool = Field(False, description="compile the step with XLA")
    steps_per_execution: Count = Field(1, description="updates in one execution of the compiled step")
    validate_every: Count = Field(description="updates between two validations, each with its checkpoint")
    keep_checkpoints: Count = Field(5, description="number of checkpoints kept on disk")
    average_checkpoints: CountOrZero = Field(0, description="number of last checkpoints averaged at the end")
    early_stopping: Count | None = Field(
        None, description="validations without improvement after which the training ends"
    )
    save_every_seconds: NotNegative = Field(60.0, description="seconds between two saves of the training's state")
    freeze: Annotated[tuple[Text, ...], BeforeValidator(as_tuple)] = Field(
        (), description="layers whose weights stay as they are, such as encoder or decoder/layer_0"
    )
    distribution: Literal["mirrored", "single"] = Field(
        "mirrored", description="all devices, of several machines if TF_CONFIG names them, or one"
    )
    sample_translations: CountOrZero = Field(3, description="sentences translated at each validation")

    gone = ("cpu_devices",)  # of 0.2.0; parallel_parts is in its place, and is not the same

    def parts(self) -> int:
        """The number of parts in which a device processes its share of a batch."""
        return self.gradient_accumulation * self.parallel_parts

    @model_validator(mode="after")
    def _check_schedule(self) -> TrainingSettings:
        if self.schedule == "transformer":
            if self.learning_rate is not None:
                advice = "set learning_rate_scale, or use schedule inverse_sqrt or cosine"
                refuse("learning_rate", f"is {shown(self.learning_rate)}; schedule transformer has its own: {advice}")
            return self
        if self.learning_rate is None:
            refuse("learning_rate", f"is missing; schedule {self.schedule} needs it: the peak rate, such as 0.001")
        if self.learning_rate_scale != 1:
            rule = f"for schedule {self.schedule} it must be 1.0, since learning_rate gives the peak"
            refuse("learning_rate_scale", f"is {shown(self.learning_rate_scale)}; {rule}")
        if self.schedule == "cosine" and self.warmup_steps >= self.steps:
            rule = f"for schedule cosine it must be less than steps, {self.steps}"
            refuse("warmup_steps", f"is {self.warmup_steps}; {rule}")
        return self

    @model_validator(mode="after")
    def _check_steps(self) -> TrainingSettings:
        if self.jit_compile and self.distribution != "single":
            refuse("jit_compile", "is true, which needs distribution: single; XLA does not work on several devices")
        if self.jit_compile and self.parallel_parts > 1:
            rule = "with jit_compile it must be 1, since XLA divides the work among the cores itself"
            refuse("parallel_parts", f"is {self.parallel_parts}; {rule}")
        if self.average_checkpoints > self.keep_checkpoints:
            rule = f"it must be at most keep_checkpoints, {self.keep_checkpoints}"
            refuse("average_checkpoints", f"is {self.average_checkpoints}; {rule}")
        for key in ("steps", "validate_every"):
            if getattr(self, key) % self.steps_per_execution:
                rule = f"it must divide {key}, {getattr(self, key)}"
                refuse("steps_per_execution", f"is {self.steps_per_execution}; {rule}")
        return self


class TensorBoardSettings(Settings):
    """What is written for TensorBoard beside the figures and the sample translations."""

    attention: CountOrZero = Field(2, description="validation sentences whose attention is shown")
    bleu: CountOrZero = Field(0, description="validation sentences that BLEU, or F1 of a parser, is computed on")
    histograms: bool = Field(False, description="write histograms of the weights at each validation")
    graph: bool = Field(False, description="write the model's graph")
    embeddings: bool = Field(False, description="write the embeddings at the end, for the projector")
    profile: Count | None = Field(None, description="first of the ten executions of the step that are profiled")


class EvaluationSettings(Settings):
    """How translations are made and scored.

    Example:
        >>> EvaluationSettings(beam_size=1).decoding_options().alpha
        0.6
    """

    lowercase: bool = Field(False, description="also score without regard to case")
    tokenize: Literal["13a", "none", "intl", "char", "zh"] = Field("13a", description="how BLEU splits text into words")
    batch_size: Count = Field(64, description="sentences translated at once")
    beam_size: Count = Field(4, description="number of hypotheses in the beam")
    alpha: NotNegative = Field(0.6, le=RANGES["alpha"][1], description="strength of the length penalty")
    length_offset: NotNegative = Field(
        5.0,
        le=RANGES["length_offset"][1],
        description="the 5 in the length penalty ((5 + length) / 6)^alpha; the 6 is this number plus 1",
    )
    extra_length: CountOrZero = Field(50, description="maximum tokens that a translation may have beyond its source's")
    no_repeat_ngram_size: CountOrZero = Field(
        0, description="a translation has each n-gram of this many tokens at most once; 0 for no limit"
    )
    grammar: bool = Field(True, description="for a parser: restrict the search to well-formed trees")
    also: Sets = Field(
        None, description="more sets to score, by name: two paths, [source, reference], or a parser's treebank"
    )

    def decoding_options(self) -> DecodingOptions:
        """How the run's model translates by default."""
        names = "beam_size", "alpha", "length_offset", "extra_length", "no_repeat_ngram_size"
        return DecodingOptions(**{name: getattr(self, name) for name in names})


class Recipe(Settings):
    """One experiment, with every setting resolved.

    Example:
        >>> from tf_transformer.recipe import load_recipe
        >>> load_recipe("train/recipes/demo.yaml").model.num_layers
        2
    """

    name: FolderName = Field(description="name of the run's folder")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(1, description="seed of all random numbers")
    task: Literal["translation", "parsing"] = Field("translation", description="what a sentence is turned into")
    init_from: Text | None = Field(
        None, description="a run, or one of its .keras checkpoints, whose weights the training begins with"
    )
    data: DataSettings
    tokenizer: TokenizerSettings
    model: ModelSettings
    training: TrainingSettings
    tensorboard: TensorBoardSettings
    evaluation: EvaluationSettings

    def flat(self) -> dict[str, Any]:
        """The settings by their dotted keys."""
        settings = {}
        for name, value in self.model_dump().items():
            if isinstance(value, dict):
                settings |= {f"{name}.{key}": each for key, each in value.items()}
            else:
                settings[name] = value
        return settings

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        # An absent section is an empty one: what is then missing is a key, which can be named.
        raw = {**raw, **{section: {} for section in SECTIONS if raw.get(section) is None}}
        preset = raw["model"].get("preset") if isinstance(raw["model"], dict) else None
        if isinstance(preset, str) and preset not in PRESETS:
            refuse("model.preset", f"is {shown(preset)}; {nearest_preset(preset)}")
        for section, values in preset_values(preset).items():
            given = raw[section]
            if isinstance(given, dict):
                missing = {key: value for key, value in values.items() if given.get(key) is None}
                raw[section] = {**given, **missing}
        return {**raw, "model": _with_alignment_head(raw["model"], raw["data"])}

    @model_validator(mode="after")
    def _check_across_sections(self) -> Recipe:
        check_task(self)
        check_also(self)
        check_alignments(self)
        check_fine_tuning(self)
        check_sections(self)
        return self


def _with_alignment_head(model: Any, data: Any) -> Any:
    """A recipe's section `model`; with alignments to learn, the first head of the next-to-last layer learns them."""
    if not isinstance(model, dict) or not isinstance(data, dict) or model.get("alignment_head") is not None:
        return model
    train = data.get("train")
    sources = [data, *(train if isinstance(train, list) else [])]
    layers = model.get("decoder_layers") or model.get("num_layers")
    if not isinstance(layers, int) or not any(isinstance(each, dict) and each.get("alignments") for each in sources):
        return model
    return {**model, "alignment_head": [max(layers - 2, 0), 0]}


TOP_KEYS = ("name", "seed", "task", "init_from")
SECTIONS: dict[str, Any] = {
    name: field.annotation for name, field in Recipe.model_fields.items() if name not in TOP_KEYS
}
KEYS = [*TOP_KEYS, *(f"{name}.{key}" for name, part in SECTIONS.items() for key in part.model_fields)]


def preset_values(name: Any) -> dict[str, dict[str, Any]]:
    """What a preset says, by section; nothing if there is none of that name."""
    preset = PRESETS.get(name) if isinstance(name, str) else None
    return {"model": preset.model, "training": {"label_smoothing": preset.label_smoothing}} if preset else {}
