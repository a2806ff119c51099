"""The figures of a benchmark, and the tables made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median


@dataclass
class Result:
    """What one engine did in one setting.

    Attributes:
        engine: its name.
        beam_size: hypotheses a sentence.
        batch_size: sentences at once.
        sentences: how many it translated in a pass.
        seconds: of each pass.
        tokens: target tokens of a pass, in this package's tokens and without the closing one.
        loaded_mib: the process's memory with the model loaded.
        peak_mib: the highest it has been.
        equal: share of translations that are this package's, of those that both made, where it took part.
        bleu: sacreBLEU, where every sentence was translated.
        versions: of the engine's packages.
    """

    engine: str
    beam_size: int
    batch_size: int
    sentences: int
    seconds: list[float] = field(default_factory=list)
    tokens: int = 0
    loaded_mib: float = 0.0
    peak_mib: float = 0.0
    equal: float | None = None
    bleu: float | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def rates(self) -> list[float]:
        """Target tokens a second, slowest pass first."""
        return sorted(self.tokens / seconds for seconds in self.seconds)


def table(results: list[Result], ours: str) -> str:
    """One setting's results as a Markdown table.

    Args:
        results: of one beam size and batch size.
        ours: the engine that the others are compared with.
    """
    reference = next((result for result in results if result.engine == ours), None)
    first = results[0]
    kind = f"Beam {first.beam_size}" if first.beam_size > 1 else "Greedy"
    lines = [
        f"### {kind}, batch {first.batch_size}",
        "",
        f"| engine | target tokens/s (slowest–fastest) | sentences/s | {ours} ÷ it "
        "| memory loaded / peak, MiB | equal translations | BLEU |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        rates = result.rates
        name = result.engine
        if (result.sentences, result.batch_size) != (first.sentences, first.batch_size):
            name += f" ({result.sentences} sentences, batch {result.batch_size})"
        ratio = f"{median(reference.rates) / median(rates):.2f}" if reference else ""
        equal = "" if result.equal is None else f"{result.equal:.1%}"
        bleu = "" if result.bleu is None else f"{result.bleu:.2f}"
        lines.append(
            f"| {name} | {median(rates):,.0f} ({rates[0]:,.0f}–{rates[-1]:,.0f}) "
            f"| {result.sentences / median(result.seconds):,.1f} | {ratio} "
            f"| {result.loaded_mib:,.0f} / {result.peak_mib:,.0f} | {equal} | {bleu} |"
        )
    return "\n".join(lines) + "\n"


def circumstances(machine: dict[str, str | int], results: list[Result], runs: int) -> str:
    """The machine and the packages, in one line."""
    # Two engines may have two versions of one package.
    versions = {f"{name} {version}" for result in results for name, version in result.versions.items()}
    packages = ", ".join(sorted(versions, key=str.lower))
    threads = f"{machine['threads']} of {machine['cpus']} CPUs, {machine['streams']} batches at once"
    onednn = f"TF_ENABLE_ONEDNN_OPTS={machine['onednn']}"
    gpu = f"{machine['gpu']}; " if "gpu" in machine else ""
    return f"{gpu}{machine['cpu']}, {threads}, {onednn}, medians of {runs}; {packages}."
