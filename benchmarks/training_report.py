"""The figures of the training benchmark, and the table made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass
class TrainingResult:
    """What one engine did.

    Attributes:
        engine: its name.
        setting: how it was set up.
        tokens: real target tokens of a round.
        parameters: how many numbers it trains; 0 where nothing is learned.
        first_loss: the smoothed loss a token of a few sentences before training, dropout off.
        warm_up_seconds: the first round, which is not counted: tracing and compiling fall into it.
        rounds: each with "seconds", "cpu_seconds" of the process, "peak_mib", "loss" afterwards, and "waiting_share",
            the CPU time that the waiting processes used meanwhile, as a share of the round's.
        tried: the engine's settings, each with the median of its target tokens a second, or why it has none.
        versions: of the engine's packages.
    """

    engine: str
    setting: str
    tokens: int
    parameters: int = 0
    first_loss: float | None = None
    warm_up_seconds: float = 0.0
    rounds: list[dict[str, Any]] = field(default_factory=list)
    tried: dict[str, float | str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def rates(self) -> list[float]:
        """Target tokens a second, slowest round first."""
        return sorted(self.tokens / each["seconds"] for each in self.rounds)

    def times(self, other: TrainingResult) -> float:
        """How many times as fast as another engine this one is: the median over the turns.

        The two rounds of a turn lie close together, so that what slows the machine for minutes slows both.
        """
        return median(
            theirs["seconds"] / ours["seconds"] for ours, theirs in zip(self.rounds, other.rounds, strict=True)
        )


def training_table(results: list[TrainingResult], ours: str, floor: str) -> str:
    """One size's results as a Markdown table.

    Args:
        results: of all engines.
        ours: the engine that the others are compared with.
        floor: the engine that does the matrix products alone.
    """
    by_engine = {result.engine: result for result in results}
    lines = [
        f"| engine | its best setting | target tokens/s (slowest–fastest) | {ours} ÷ it | of the floor "
        "| peak memory, MiB | first round, s | loss before / after |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        last, slowest, fastest = result.rounds[-1], result.rates[0], result.rates[-1]
        rate = median(result.rates)
        ratio = f"{by_engine[ours].times(result):.2f}" if ours in by_engine else ""
        share = f"{result.times(by_engine[floor]):.2f}" if floor in by_engine else ""
        losses = "" if result.first_loss is None else f"{result.first_loss:.3f} / {last['loss']:.3f}"
        peak = "" if result.first_loss is None else f"{last['peak_mib']:,.0f}"
        lines.append(
            f"| {result.engine} | {result.setting} | {rate:,.0f} ({slowest:,.0f}–{fastest:,.0f}) | {ratio} | {share} "
            f"| {peak} | {result.warm_up_seconds:.1f} | {losses} |"
        )
    return "\n".join(lines)


def settings_tried(results: list[TrainingResult]) -> str:
    """What each engine's settings gave, a line an engine."""

    def shown(rate: float | str) -> str:
        return rate if isinstance(rate, str) else f"{rate:,.0f}"

    return "\n".join(
        f"- {result.engine}: {'; '.join(f'{name} {shown(rate)}' for name, rate in result.tried.items())}"
        for result in results
        if len(result.tried) > 1
    )


def training_circumstances(figures: dict[str, Any], results: list[TrainingResult]) -> str:
    """The machine, the model, the batches and the packages, in a paragraph."""
    machine, sizes, batches = figures["machine"], figures["sizes"], figures["batches"]
    versions = {f"{name} {version}" for result in results for name, version in result.versions.items()}
    waiting = max(each["waiting_share"] for result in results for each in result.rounds)
    device = f"{machine['gpu']}; " if "gpu" in machine else ""
    return (
        f"{device}{machine['cpu']}, {machine['threads']} of {machine['cpus']} CPUs, {figures['precision']}. "
        f"{sizes['num_layers']} + {sizes['num_layers']} layers, d_model {sizes['d_model']}, "
        f"d_ff {sizes['dff']}, {sizes['num_heads']} heads, {sizes['vocab_size']:,} tokens, "
        f"{sizes['parameters']:,} parameters. A round is {len(batches['shapes'])} batches, "
        f"{batches['tokens']:,} target tokens ({batches['padding']:.1%} of the target positions are padding); "
        f"medians of {len(results[0].rounds)} turns, also of the ratios. Waiting processes used "
        f"{waiting:.1%} of a CPU at most. "
        f"{', '.join(sorted(versions, key=str.lower))}."
    )
