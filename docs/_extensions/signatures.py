"""A SavedModel's signatures as tables: names, types and shapes out of the graphs, and what each of them means."""

from __future__ import annotations

from typing import Any

PURPOSE = {
    "translate": "The likeliest translation of each text. It is also `serving_default`.",
    "translate_nbest": "As many translations of each text as the export's beam is wide, best first.",
    "translate_with_attention": "The likeliest translation, and what the model attended to.",
    "translate_with_options": "Translations with options that each call chooses. All inputs are required, since "
    "TensorFlow's signatures have no optional ones.",
    "score": "How likely given translations are.",
    "tokenize": "Source texts as the model reads them.",
    "detokenize": "Texts of target ids.",
    "parse": "The tree of each sentence. A parser's export has it beside all others, and it is then `serving_default`.",
}

# What an input or output means, and the names of its axes. Those of one signature go before those of all.
MEANING = {
    "text": ("batch", "texts in UTF-8; bytes that are no UTF-8 count as U+FFFD"),
    "prefix": ("batch", "what each translation must begin with; empty for nothing"),
    "source": ("batch", "source texts"),
    "target": ("batch", "their translations"),
    "translation": ("batch", "translations; that of an empty or blank text is empty"),
    "score": ("batch", "log-probability of a translation, divided by `((5 + length) / 6)^alpha`; 0 for an empty text"),
    "truncated": ("batch", "whether a text had more tokens than the model has positions, and was cut"),
    "source_tokens": ("batch, source_len", "tokens of the text; empty at padding"),
    "target_tokens": ("batch, target_len", "tokens of the translation; empty at padding"),
    "encoder_attention": ("batch, layers, heads, source_len, source_len", "weights between source tokens"),
    "decoder_attention": ("batch, layers, heads, target_len, target_len", "weights between target tokens"),
    "cross_attention": ("batch, layers, heads, target_len, source_len", "weights from target to source tokens"),
    "alignment": (
        "batch, target_len",
        "the source token that each target token attends to most, by the mean of all heads; -1 at padding",
    ),
    "token_scores": ("batch, target_len", "log-probability of each token"),
    "tokens": ("batch, length", "the tokens as text; empty at padding"),
    "ids": ("batch, length", "the tokens' numbers, padded with 0"),
    "tree": ("batch", "one tree in Penn brackets, over exactly the sentence's words"),
    "mended": ("batch", "whether the model had no room for all words, and the last ones were put in behind its tree"),
    "beam_size": ("", "hypotheses side by side; 1 is greedy search"),
    "num_hypotheses": ("", "translations of each text, n; in a search at most `beam_size`"),
    "alpha": ("", "strength of the length penalty, from 0 to 10"),
    "min_length": ("", "fewest tokens of a translation, the closing one counted"),
    "max_length": ("", "most tokens, the closing one counted, beside the export's own limit; 0 for none"),
    "temperature": ("", "0 searches; from 1e-6 to 1e6 draws tokens, at 1 with the model's probabilities"),
    "top_k": ("", "draws among so many of the likeliest tokens; 0 among all"),
    "top_p": ("", "draws among the likeliest tokens that have this probability together, from 1e-6 to 1"),
    "seed": ("", "of the draws; those of a text do not depend on the rest of the batch"),
    "replace_unknown": ("", "whether an unknown token becomes the source word that it attends to"),
}
BEST_FIRST = ("batch, n", "translations, best first; where there are fewer than n the rest is empty")
THEIR_SCORES = ("batch, n", "their scores, as of `translate`; -inf where there is no translation")
MEANING_IN = {
    ("translate_nbest", "translation"): BEST_FIRST,
    ("translate_nbest", "score"): THEIR_SCORES,
    ("translate_with_options", "translation"): BEST_FIRST,
    ("translate_with_options", "score"): THEIR_SCORES,
    ("score", "score"): ("batch", "log-probability of the target, not divided by anything"),
    ("score", "tokens"): ("batch, target_len", "tokens of the target; empty at padding"),
    ("parse", "text"): ("batch", "sentences with blanks between their words"),
    ("parse", "score"): ("batch", "log-probability of the tree, over the length penalty"),
    ("detokenize", "text"): ("batch", "texts in UTF-8"),
}


def meaning(signature: str, name: str) -> tuple[str, str]:
    """The axes of an input or output, and what it means."""
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
    """The graphs that an export of a parser has, which are all there are; of the smallest model."""
    import tf_transformer as tt
    from tf_transformer.parsing.parser import Parser
    from tf_transformer.tokenizers import train_parsing_tokenizers

    tokenizers = train_parsing_tokenizers([("a dog", "(NP XX XX )NP")], vocab_size=270)
    sizes = {"input_vocab_size": 270, "target_vocab_size": tokenizers.target.vocab_size}
    model = tt.Transformer(1, 8, 2, 16, **sizes, share_embeddings="target", max_length=64)
    return Parser(model, tokenizers).functions


def _table(signature: str, side: str, specs: dict[str, Any]) -> str:
    rows = [f"| {side} | type | shape | meaning |", "| --- | --- | --- | --- |"]
    for name, spec in specs.items():
        axes, what = meaning(signature, name)
        if spec.shape.rank != len(axes.split()):
            raise ValueError(f"{signature}, {name}: its shape is {spec.shape}, and its axes are told as ({axes})")
        shape = f"({axes})" if axes else "scalar"
        rows.append(f"| `{name}` | {spec.dtype.name} | {shape} | {what} |")
    return "\n".join(rows)
