"""Draws the documents' pictures: `python docs/pictures/draw.py [--model RUN]`, or `make pictures`.

Each function below draws one, and the file has its name. Only `beam_search` needs a trained model, that of `make demo`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))  # docs/

import tf_transformer as tt  # noqa: E402

FOLDER = Path(__file__).parent
INK, FAINT, BLUE, ORANGE, GREEN, RED = "#1c2733", "#8a939e", "#0072b2", "#d55e00", "#009e73", "#b3261e"
STYLE = {
    "font.size": 11,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
BEAM_SENTENCE = "Every day the boy calls my teacher."


def positions() -> Figure:
    """The table of sinusoids, and how like two positions are."""
    table = tt.positional_encoding(60, 64)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), width_ratios=[1.15, 1])
    image = left.imshow(table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    left.set(title="PE(pos, i), d_model = 64", xlabel="column i", ylabel="position")
    figure.colorbar(image, ax=left, ticks=[-1, 0, 1])
    long = tt.positional_encoding(401, 512)
    distances = np.arange(-200, 201)
    right.plot(distances, long @ long[200], color=BLUE)
    right.set(title="PE(pos) · PE(pos + k), d_model = 512", xlabel="distance k", ylim=(0, None))
    return figure


def schedules() -> Figure:
    """The learning rate of each schedule."""
    steps = np.arange(0, 40_000, 50)
    peak = float(tt.TransformerSchedule(d_model=512, warmup_steps=4000)(3999))
    shown = [
        ("the paper's, d_model 512 (base)", tt.TransformerSchedule(d_model=512, warmup_steps=4000), BLUE, "-"),
        ("the paper's, d_model 1024 (big)", tt.TransformerSchedule(d_model=1024, warmup_steps=4000), BLUE, "--"),
        ("inverse_sqrt, 1,000 steps of warm-up", tt.InverseSqrtSchedule(peak, warmup_steps=1000), ORANGE, "-"),
        ("cosine, to 0 at step 40,000", tt.CosineSchedule(peak, warmup_steps=1000, steps=40_000), GREEN, "-"),
    ]
    figure, axes = plt.subplots(figsize=(9, 3.4))
    for name, schedule, colour, line in shown:
        axes.plot(steps, [float(schedule(int(step))) for step in steps], line, color=colour, label=name)
    axes.set(xlabel="step", ylabel="learning rate", ylim=(0, None), xlim=(0, 40_000))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend()
    return figure


def masks() -> Figure:
    """What each position of a padded target may attend to."""
    tokens = ["Der", "Junge", "liest", "</s>", "[PAD]", "[PAD]"]
    ids = np.array([[5, 6, 7, 3, 0, 0]])
    padding = np.broadcast_to(np.array(tt.padding_mask(ids))[0], (6, 6))
    ahead = np.array(tt.look_ahead_mask(6))[0]
    figure, panels = plt.subplots(1, 3, figsize=(9, 4), sharey=True)
    for axes, mask, title in zip(
        panels, (padding, ahead, padding & ahead), ("padding mask", "look-ahead mask", "both"), strict=True
    ):
        axes.imshow(mask, cmap=plt.matplotlib.colors.ListedColormap(["#eceff2", BLUE]), vmin=0, vmax=1)
        axes.set_xticks(range(6), tokens, rotation=60)
        axes.set_yticks(range(6), tokens)
        axes.set_xticks(np.arange(-0.5, 6), minor=True)
        axes.set_yticks(np.arange(-0.5, 6), minor=True)
        axes.grid(which="minor", color="white", linewidth=2)
        axes.tick_params(which="both", length=0)
        axes.spines[:].set_visible(False)
        axes.set(title=title, xlabel="is attended to")
    panels[0].set_ylabel("attends")
    return figure


def label_smoothing() -> Figure:
    """The loss of one token against the probability that the model gives to the right one."""
    figure, axes = plt.subplots(figsize=(9, 3.4))
    vocabulary, probabilities = 1000, np.linspace(0.3, 0.9995, 400)
    for smoothing, colour in (0.0, ORANGE), (0.1, BLUE), (0.2, GREEN):
        losses = smoothed_losses(probabilities, vocabulary, smoothing)
        axes.plot(probabilities, losses, color=colour, label=f"ε = {smoothing:g}")
        if smoothing:
            axes.plot(probabilities[losses.argmin()], losses.min(), "o", color=colour)
    axes.set(xlabel="p(right token), the rest spread evenly", ylabel="loss", ylim=(0, None), xlim=(0.3, 1.005))
    axes.legend(loc="upper center")
    return figure


def smoothed_losses(probabilities: np.ndarray, vocabulary: int, smoothing: float) -> np.ndarray:
    """The package's loss of a token with each of these probabilities, the others sharing the rest evenly."""
    others = (1 - probabilities) / (vocabulary - 1)
    logits = np.log(np.repeat(others[:, None, None], vocabulary, axis=2)).astype("float32")
    logits[:, 0, 1] = np.log(probabilities)
    loss = tt.SmoothedCrossEntropy(smoothing)
    return np.array([float(loss(np.array([[1]]), each[None])) for each in logits])


def batches() -> Figure:
    """Where the padding is: sentences put together as they come, and by their lengths."""
    pairs = list(tt.DemoSource("train"))
    tokenizers = tt.train_tokenizers(pairs, vocab_size=1000)
    target = tokenizers.target.tokenize([german for _, german in pairs]).row_lengths().numpy() + 1
    came = np.random.default_rng(1).permutation(target)[:2048]
    together = []
    made = tt.make_batches(pairs, tokenizers, batch_tokens=1024, max_length=64, shuffle_buffer=20_000, seed=1)
    for _, labels in made.take(24):
        together.append((labels.numpy() != 0).sum(axis=1))
    as_they_come = np.split(came, range(64, len(came), 64))
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axes, shown, title in (
        (panels[0], as_they_come, "as they come, 64 at a time"),
        (panels[1], together, "by length, up to 1,024 tokens"),
    ):
        share = 1 - sum(map(sum, shown)) / sum(max(each) * len(each) for each in shown)
        left = 0
        for lengths in shown:
            lengths = np.sort(lengths)[::-1]
            if left + len(lengths) > 768:
                break
            places = np.arange(left, left + len(lengths))
            axes.bar(places, np.full(len(lengths), lengths[0]), width=1, color="#f3c7b0")
            axes.bar(places, lengths, width=1, color=BLUE)
            axes.axvline(left - 0.5, color="white", linewidth=1)
            left += len(lengths)
        axes.set(title=f"{title}: {share:.0%} padding", xlabel="sentences, batch after batch", xlim=(0, 768))
    panels[0].set_ylabel("tokens (blue), padding (light)")
    return figure


def beam_search(run: Path) -> Figure:
    """All hypotheses that a search ever had, and how they came from one another."""
    from pictures.beam import search

    translator = tt.load_translator(run)
    steps = search(translator, BEAM_SENTENCE)
    figure, axes = plt.subplots(figsize=(11, 4.4))
    for number, step in enumerate(steps):
        for rank, each in enumerate(step):
            colour = GREEN if each.score is not None else BLUE if each.wins or each.continued else FAINT
            if number:
                line = {"color": BLUE, "lw": 3} if each.wins else {"color": "#c6ccd3", "lw": 1.2}
                axes.plot([number - 1, number], [each.parent, rank], **line)
            told = each.token.replace("▁", " ").strip() or "·"
            below = f"score {each.score:.2f}" if each.score is not None else f"{each.log_probability:.2f}"
            box = {"boxstyle": "round,pad=0.3", "fc": "white", "ec": colour, "lw": 2 if each.wins else 1}
            axes.text(number, rank, told, ha="center", va="center", color=colour, bbox=box, fontsize=10)
            axes.text(number, rank + 0.36, below, ha="center", va="center", color=FAINT, fontsize=8)
    axes.set(xlim=(-0.6, len(steps) - 0.4), ylim=(max(map(len, steps)) - 0.4, -0.5), xlabel="step")
    axes.set_xticks(range(len(steps)), range(1, len(steps) + 1))
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    text = translator.translate([BEAM_SENTENCE])["translation"].numpy()[0].decode()
    axes.set_title(f"{BEAM_SENTENCE}  →  {text}")
    return figure


WITHOUT_MODEL = positions, schedules, masks, label_smoothing, batches
WITH_MODEL = (beam_search,)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the documents' pictures.")
    parser.add_argument("--model", type=Path, default=Path("runs/demo"), help="a run of the demo")
    model = parser.parse_args().model
    plt.switch_backend("agg")
    with plt.rc_context(STYLE):
        for draw in WITHOUT_MODEL + WITH_MODEL:
            figure = draw(model) if draw in WITH_MODEL else draw()
            figure.savefig(FOLDER / f"{draw.__name__}.png", dpi=150, bbox_inches="tight")
            print(FOLDER / f"{draw.__name__}.png")


if __name__ == "__main__":
    main()
