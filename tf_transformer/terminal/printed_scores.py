"""Prints the scores of translations or of parses, for the commands."""

from __future__ import annotations

from typing import Any

from tf_transformer.evaluation.table import aligned, score_table, shown
from tf_transformer.terminal.json_output import print_json
from tf_transformer.terminal.notes import notes


def show_parse_scores(scores: dict[str, Any]) -> None:
    for part, told in (scores, "all lengths"), (scores["at_most_40_words"], "at most 40 words"):
        figures = ", ".join(f"{name} {part[name]:.2f}" for name in ("recall", "precision"))
        complete = f"complete match {part['complete_match']:.2f}"
        print(f"F1 {part['f1']:.2f}   {figures}, {complete}   {told}, {part['sentences']:,} sentences")
    failures = {
        "without_parse": "have no tree over their words",
        "mended": (
            "have a tree without room for all words; the last words were put at the end of the root"
            if scores.get("grammar")
            else "were not well-formed trees and were repaired"
        ),
    }
    for name, told in failures.items():
        if scores.get(name):
            notes.print(f"{scores[name]:,} of {scores['sentences']:,} sentences {told}")


def show_scores(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(scores)
        return
    if "f1" in scores:
        show_parse_scores(scores)
    else:
        print(f"BLEU {scores['bleu']:.2f}   {scores['signature']}")
        print(f"chrF {scores['chrf']:.2f}   {scores['chrf_signature']}")
    if "lowercased" in scores:
        print(f"BLEU {scores['lowercased']['bleu']:.2f}   {scores['lowercased']['signature']}")
    if "perplexity" in scores:
        print(f"perplexity {shown(scores['perplexity'], 3)} per token")
    if "oddities" in scores:
        own, usual = (scores["oddities"][whose] for whose in ("translations", "references"))
        told = {"repeats": "repeat themselves", "copies": "copy the source", "odd_length": "have an odd length"}
        figures = [f"{own[name]:.1f} % {words} ({usual[name]:.1f} % of references)" for name, words in told.items()]
        print(f"of the translations {', '.join(figures)}")
    for name, perturbed in scores.get("perturbed", {}).items():
        figures = f"BLEU {perturbed['bleu']:.2f}   chrF {perturbed['chrf']:.2f}"
        print(f"{name.replace('_', ' '):10}   {figures}   {perturbed['changed']:,} sentences changed")
    for line in aligned(score_table(scores)):
        print(line)
    left_out = scores["sentences"] - scores.get("perplexity_sentences", scores["sentences"])
    if left_out:
        notes.print(
            f"the perplexity leaves out {left_out:,} of {scores['sentences']:,} sentences: one side is empty, or "
            f"longer than the model's maximum length{', or a tag is unknown to it' if 'f1' in scores else ''}"
        )
    if scores.get("truncated"):
        notes.print(
            f"{scores['truncated']:,} of {scores['sentences']:,} sentences were cut to the model's maximum length"
        )
