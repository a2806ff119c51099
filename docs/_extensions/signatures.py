"""Documents a SavedModel's signatures as tables: names, types and shapes from the graphs, and their meanings."""

from __future__ import annotations

from typing import Any

PURPOSE = {
    "translate": "The best translation of each text. This is also `serving_default`.",
    "translate_nbest": "Several translations of each text, best first; their number is the beam size of the export.",
    "translate_with_attention": "The best translation of each text, with the attention weights of the model.",
    "translate_with_options": "Translations with decoding options chosen for each call. All inputs are required, since "
    "TensorFlow's signatures have no optional inputs.",
    "translate_with_search": "Translations as `translate_with_options` gives them, with every hypothesis of the beam "
    "search: where it came from, and what became of it.",
    "attention": "The attention weights and the alignment of given translations.",
    "next_tokens": "The likeliest tokens behind a prefix of each translation, and the translation that follows from "
    "each by greedy search.",
    "warm_up": "Compiles the search for batches of some shapes, which makes `translate` faster for them from then on. "
    "An export with `--no-xla` has no such signature, nor one that samples, that of a parser, or one made in Python of "
    "a translator without `compiled=True`.",
    "score": "Log-probabilities of given translations.",
    "tokenize": "Source texts as the tokens that the model reads.",
    "detokenize": "Texts from target ids.",
    "parse": "The tree of each sentence. Only the export of a parser has this signature, and it is then "
    "`serving_default`.",
}

# The axes and the meaning of each input or output. Entries for one signature take precedence over those for all.
MEANING = {
    "text": ("batch", "texts in UTF-8; invalid bytes are read as U+FFFD"),
    "prefix": ("batch", "text that each translation must begin with; empty for none"),
    "source": ("batch", "source texts"),
    "target": ("batch", "their translations"),
    "translation": ("batch", "translations; an empty or blank text has an empty translation"),
    "score": (
        "batch",
        "log-probability of a translation, divided by `((5 + length) / 6)^alpha` (`length^alpha` in an imported "
        "OPUS-MT model); 0 for an empty text",
    ),
    "truncated": ("batch", "whether a text was cut because it had more tokens than the model has positions"),
    "source_tokens": ("batch, source_len", "tokens of the text; empty at padding"),
    "target_tokens": ("batch, target_len", "tokens of the translation; empty at padding"),
    "encoder_attention": ("batch, layers, heads, source_len, source_len", "attention weights between source tokens"),
    "decoder_attention": ("batch, layers, heads, target_len, target_len", "attention weights between target tokens"),
    "cross_attention": (
        "batch, layers, heads, target_len, source_len",
        "attention weights from target to source tokens",
    ),
    "alignment": (
        "batch, target_len",
        "index of the source token that each target token attends to most, by the mean of all heads or the head that "
        "has learned alignments; -1 at padding",
    ),
    "token_scores": ("batch, target_len", "log-probability of each token"),
    "tokens": ("batch, length", "the tokens as text; empty at padding"),
    "ids": ("batch, length", "token ids, padded with 0"),
    "tree": ("batch", "one tree in Penn brackets, over exactly the sentence's words"),
    "mended": ("batch", "whether the tree was repaired: it had no room for all words, and the last ones were appended"),
    "rows": ("n", "numbers of texts in a batch, up to 32"),
    "lengths": ("n", "numbers of tokens of the longest text in it, including the end token, up to 128"),
    "compiled": ("n", "whether batches of this shape are translated by a compiled search from now on"),
    "target_ids": ("batch, target_len", "token ids of the translation, padded with 0"),
    "prefix_ids": ("batch, prefix_len", "ids of the tokens that the translation begins with, padded with 0"),
    "count": ("", "number k of tokens"),
    "id": ("batch, k", "token ids, likeliest first"),
    "probability": ("batch, k", "their probabilities; 0 for an empty text"),
    "token": ("batch, k", "the tokens as text"),
    "parent": (
        "batch, steps, beam_size",
        "place of the hypothesis that it continues, among those of the step before; -1 at the first step",
    ),
    "log_probability": ("batch, steps, beam_size", "log-probability of all its tokens; -inf where there is none"),
    "token_score": ("batch, steps, beam_size", "its score: `log_probability` divided by the penalty of its length"),
    "highest_score": (
        "batch, steps, beam_size",
        "the highest score that it can still reach: `log_probability` divided by the penalty of the maximum length",
    ),
    "fate": (
        "batch, steps, beam_size",
        "`continued`: the next step has a continuation of it. `closed`: its last token is the end token. `dropped`: "
        "the next step has no continuation of it, since `beam_size` others were likelier. `overtaken`: the search "
        "stopped here, since it could no longer come before the finished hypotheses. `cut`: it has the maximum number "
        "of tokens. Empty where there is no hypothesis",
    ),
    "wins": ("batch, steps, beam_size", "whether it is the beginning of the best translation"),
    "beam_size": ("", "beam size; 1 is greedy search"),
    "num_hypotheses": ("", "number n of translations of each text; with beam search at most `beam_size`"),
    "alpha": ("", "exponent of the length penalty, from 0 to 10"),
    "min_length": ("", "minimum number of tokens of a translation, including the end token"),
    "max_length": ("", "maximum number of tokens, including the end token; 0 for only the export's own limit"),
    "temperature": ("", "0 for beam search; from 1e-6 to 1e6 for sampling, 1 with the model's own probabilities"),
    "top_k": ("", "samples from this number of most likely tokens; 0 for all tokens"),
    "top_p": ("", "samples from the most likely tokens whose probabilities add up to this, from 1e-6 to 1"),
    "seed": ("", "random seed for sampling; a text's samples do not depend on the rest of the batch"),
    "replace_unknown": ("", "whether an unknown token is replaced with the source word it attends to most"),
    "protect": (
        "",
        "whether links, placeholders, tags and the like, and what stands between ⟦ and ⟧, come out unchanged",
    ),
    "no_repeat_ngram_size": ("", "a translation has each n-gram of this many tokens at most once; 0 for no limit"),
}
BEST_FIRST = ("batch, n", "translations, best first; if there are fewer than n, the rest are empty")
THEIR_SCORES = ("batch, n", "their scores, as in `translate`; -inf where there is no translation")
MEANING_IN = {
    ("translate_nbest", "translation"): BEST_FIRST,
    ("translate_nbest", "score"): THEIR_SCORES,
    ("translate_with_options", "translation"): BEST_FIRST,
    ("translate_with_options", "score"): THEIR_SCORES,
    ("translate_with_search", "translation"): BEST_FIRST,
    ("translate_with_search", "score"): THEIR_SCORES,
    ("translate_with_search", "token"): (
        "batch, steps, beam_size",
        "last token of each hypothesis, the likeliest hypothesis of a step first; empty where there is none",
    ),
    ("attention", "target_tokens"): ("batch, target_len", "tokens of the translation and the end token"),
    ("next_tokens", "translation"): ("batch, k", "translation that begins with the prefix and this token"),
    ("score", "score"): ("batch", "log-probability of the target, without length penalty"),
    ("score", "tokens"): ("batch, target_len", "tokens of the target; empty at padding"),
    ("parse", "text"): ("batch", "sentences, with spaces between their words"),
    ("parse", "score"): ("batch", "log-probability of the tree, divided by the length penalty"),
    ("parse", "truncated"): (
        "batch",
        "whether a sentence was cut because it had more tokens than the model has positions; its tree has all words",
    ),
    ("detokenize", "text"): ("batch", "texts in UTF-8"),
}


def meaning(signature: str, name: str) -> tuple[str, str]:
    """The axes and the meaning of an input or output."""
    return MEANING_IN.get((signature, name)) or MEANING[name]


def as_markdown() -> str:
    """A section for each signature, with a table of its inputs and one of its outputs."""
    parts = []
    functions = _functions()
    for name in sorted(functions, key=list(PURPOSE).index):
        concrete = functions[name].get_concrete_function()
        inputs = {each.name: each for each in functions[name].input_signature}
        outputs = concrete.structured_outputs
        parts += [f"## {name}", PURPOSE[name], _table(name, "input", inputs), _table(name, "output", outputs)]
    return "\n\n".join(parts)


def _functions() -> dict[str, Any]:
    """The graphs in the exports of a parser and of a translator whose search is compiled, of a very small model."""
    import tf_transformer as tt
    from tf_transformer.parsing.parser import Parser
    from tf_transformer.tokenizers import train_parsing_tokenizers

    tokenizers = train_parsing_tokenizers([("a dog", "(NP XX XX )NP")], vocab_size=270)
    sizes = {"input_vocab_size": 270, "target_vocab_size": tokenizers.target.vocab_size}
    model = tt.Transformer(1, 8, 2, 16, **sizes, share_embeddings="target", max_length=64)
    warm_up = tt.Translator(model, tokenizers, compiled=True).functions["warm_up"]
    return {**Parser(model, tokenizers).functions, "warm_up": warm_up}


def _table(signature: str, side: str, specs: dict[str, Any]) -> str:
    rows = [f"| {side} | type | shape | meaning |", "| --- | --- | --- | --- |"]
    for name, spec in specs.items():
        axes, what = meaning(signature, name)
        if spec.shape.rank != len(axes.split()):
            raise ValueError(f"{signature}, {name}: its shape is {spec.shape}, but its documented axes are ({axes})")
        shape = f"({axes})" if axes else "scalar"
        rows.append(f"| `{name}` | {spec.dtype.name} | {shape} | {what} |")
    return "\n".join(rows)
