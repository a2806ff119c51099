"""Beam search with the paper's length penalty (Vaswani et al., 2017, section 6.1; Wu et al., 2016, section 7)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.decoding.candidates import IMPOSSIBLE, forced_token, length_penalty, likeliest, pick
from tf_transformer.decoding.grammar import Grammar
from tf_transformer.decoding.history import extend, unknown_zero
from tf_transformer.decoding.interface import Stepping
from tf_transformer.decoding.repetition import without_repeats
from tf_transformer.decoding.rounds import Rows, run_rounds
from tf_transformer.decoding.trace import TRACED, Record, start_trace, trace_step
from tf_transformer.layers.lean_ops import shape_of

# Ranks what was cut at its limit behind all that is closed, and before nothing at all.
CUT = -1e30


def beam_search(
    model: Stepping,
    cache: Any,
    limits: Any,
    start_id: int,
    end_id: int,
    beam_size: Any = 4,
    alpha: Any = 0.6,
    num_hypotheses: Any = 1,
    min_length: Any = 1,
    prefix: Any | None = None,
    grammar: Grammar | None = None,
    steps: Any | None = None,
    trace: Any = None,
    no_repeat_ngram_size: Any = 0,
    length_offset: float = 5.0,
) -> tuple[Any, ...]:
    """Finds translations with a high `log P / ((5 + length) / 6)^alpha`, following several hypotheses of each row.

    At each step the `beam_size` likeliest continuations of a row's hypotheses are kept. Those that end with the closing
    token are finished; the others continue. A row is done once no hypothesis that continues could come before the
    finished ones even if each of its further tokens were certain. With one beam this is greedy search. A row's outcome
    depends on that row alone. The padding token is never chosen.

    Args:
        model: gives the next tokens' logits; a `Stepper`, say.
        cache: the model's, for `beam_size` hypotheses a row.
        limits: int (rows,), the most tokens a row may get, the closing one counted; a row of limit 0 stays empty.
        start_id: the token that opens a sequence.
        end_id: the token that closes it.
        beam_size: the most hypotheses of a row that continue; an int or a scalar int tensor, like the next three.
        alpha: strength of the length penalty; 0 is none.
        num_hypotheses: finished hypotheses returned for each row, at most `beam_size`.
        min_length: the fewest tokens, the closing one counted.
        prefix: int (rows, prefix_len), tokens that the hypotheses must begin with, the closing one not among them; 0
            is padding.
        grammar: says with which tokens a hypothesis may continue; any unless given.
        steps: what the cache was started with, for one of fixed size.
        trace: whether to record all hypotheses, a scalar bool; None returns no record at all.
        no_repeat_ngram_size: n-grams of this many tokens occur at most once in a hypothesis; 0 for no such limit.
        length_offset: replaces the 5 in the length penalty; see `length_penalty`.

    Returns:
        The hypotheses, best first: int32 (rows, num_hypotheses, max(limits)), each with its closing token and then
        padding; and their scores, float32 (rows, num_hypotheses), `log P` over the length penalty. What was cut at
        the limit comes after what is closed. Where there are fewer, the rest is empty and has score -inf. With
        `steps` the hypotheses are (rows, num_hypotheses, steps), and a third tensor, bool (rows,), says which rows are
        done after so many steps. Unless `trace` is None, the last is the `Record` of all hypotheses that the search
        had, which `read_trace` reads; where `trace` is false it has one step.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> from tf_transformer.decoding import Stepper, beam_search
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> source = np.array([[5, 6, 3], [7, 3, 0]])
        >>> _ = model((source, source))
        >>> stepper = Stepper(model)
        >>> cache = stepper.start_cache(source, beams=4)
        >>> ids, scores = beam_search(stepper, cache, np.array([9, 8]), start_id=2, end_id=3, num_hypotheses=2)
        >>> ids.shape, scores.shape
        (TensorShape([2, 2, 9]), TensorShape([2, 2]))
    """
    limits = ops.cast(limits, "int32")
    # Kept from a graph that could know it, since reshaping forgets it again.
    batch, longest = shape_of(limits)[0], ops.max(limits, initial=0) + unknown_zero() if steps is None else steps
    slots = ops.arange(longest, dtype="int32")
    beam = ops.arange(beam_size, dtype="int32")

    def advance(position: Any, rows: Rows) -> Rows:
        count = shape_of(rows["done"])[0]
        history = extend(rows["history"], position, steps is not None)
        logits, cache = model.step(ops.reshape(rows["tokens"], (-1,)), position, rows["cache"], history)
        forced = None if prefix is None else ops.repeat(forced_token(rows["prefix"], position), beam_size)
        among = logits
        if grammar is not None:
            allowed = grammar.allowed(rows["grammar"], rows["limits"] - position)
            among = ops.where(ops.reshape(allowed, shape_of(logits)), logits, IMPOSSIBLE)
        among = without_repeats(among, rows["outputs"], position, no_repeat_ngram_size)
        gains, ids = likeliest(logits, beam_size, position, end_id, min_length, forced, among)
        choices = shape_of(ids)[1]
        totals = ops.expand_dims(rows["log_probs"], axis=2) + ops.reshape(gains, (count, beam_size, choices))
        log_probs, chosen = ops.top_k(ops.reshape(totals, (count, beam_size * choices)), beam_size)
        tokens = pick(ops.reshape(ids, (count, beam_size * choices)), chosen)

        parents = chosen // choices
        history, outputs = pick(history, parents), pick(rows["outputs"], parents)
        outputs = ops.where(ops.equal(slots, position), ops.expand_dims(tokens, axis=2), outputs)

        if grammar is not None:
            parents_state = keras.tree.map_structure(lambda each: pick(each, parents), rows["grammar"])
            rows = {**rows, "grammar": grammar.after(parents_state, tokens)}
        if trace is not None:
            rows = {**rows, **trace_step(rows, position, tokens, parents, log_probs)}

        rows = {**rows, "tokens": tokens, "outputs": outputs, "history": history, "cache": cache}
        return {**rows, **_keep_best(rows, log_probs, position + 1, end_id, num_hypotheses, alpha, length_offset)}

    # At the start there is one hypothesis, and none in a row that is to stay empty.
    first = ops.logical_and(ops.equal(beam, 0), ops.expand_dims(limits > 0, axis=1))
    rows = {
        "tokens": ops.full((batch, beam_size), start_id, "int32"),
        "log_probs": ops.where(first, 0.0, IMPOSSIBLE),
        "outputs": ops.zeros((batch, beam_size, longest), "int32"),
        "cache": cache,
        "best_ranks": ops.full((batch, num_hypotheses), IMPOSSIBLE, "float32"),
        "best_scores": ops.full((batch, num_hypotheses), IMPOSSIBLE, "float32"),
        "best_outputs": ops.zeros((batch, num_hypotheses, longest), "int32"),
        "limits": limits,
        "done": ops.equal(limits, 0),
    }
    if prefix is not None:
        rows["prefix"] = ops.cast(prefix, "int32")
    if grammar is not None:
        rows["grammar"] = grammar.start(beam_size)
    wanted = ("best_outputs", "best_scores", "best_ranks")
    if trace is not None:
        # TensorFlow writes into no tensor without an entry.
        rows |= start_trace(batch, ops.where(trace, longest, 1), beam_size)
        wanted += TRACED
    outcome = run_rounds(model, advance, rows, beam_size, wanted, steps)
    # What never was a hypothesis has not been cleared in "best_outputs".
    real = ops.not_equal(outcome["best_ranks"], IMPOSSIBLE)
    ids = ops.where(ops.expand_dims(real, axis=2), outcome["best_outputs"], 0)
    found = ids, ops.where(real, outcome["best_scores"], IMPOSSIBLE)
    if steps is not None:
        found += (outcome["done"],)
    return found if trace is None else (*found, Record(*(outcome[name] for name in TRACED)))


def _keep_best(
    rows: Rows, log_probs: Any, length: Any, end_id: int, num_hypotheses: Any, alpha: Any, length_offset: float
) -> Rows:
    """Keeps the best of the hypotheses that are finished, now and before; the others go on.

    Args:
        rows: with the tokens just chosen.
        log_probs: float (rows, beam), of the hypotheses that end in them.
        length: how many tokens these have.
        end_id: as in `beam_search`, like the rest.

    Returns:
        What changes in the rows: the log-probabilities of what goes on, what is finished, and which rows are done.
    """
    possible = log_probs > IMPOSSIBLE
    closed = ops.logical_and(ops.equal(rows["tokens"], end_id), possible)
    at_limit = length >= rows["limits"]
    cut = ops.logical_and(possible, ops.expand_dims(at_limit, axis=1))
    scores = log_probs / length_penalty(length, alpha, length_offset)
    ranks = ops.where(closed, scores, ops.where(cut, CUT, IMPOSSIBLE))
    # On a tie the first wins, so that what was cut keeps its order, which is that of its scores.
    best_ranks, best = ops.top_k(ops.concatenate([rows["best_ranks"], ranks], axis=1), num_hypotheses)
    all_scores = ops.concatenate([rows["best_scores"], scores], axis=1)
    all_outputs = ops.concatenate([rows["best_outputs"], rows["outputs"]], axis=1)

    log_probs = ops.where(closed, IMPOSSIBLE, log_probs)
    # A log-probability only falls, and the penalty at the limit divides it by most.
    hope = ops.max(log_probs, axis=1) / length_penalty(rows["limits"], alpha, length_offset)
    done = ops.logical_or(at_limit, hope <= best_ranks[:, -1])
    return {
        # Until it leaves, a row that is done has no hypothesis that could go on.
        "log_probs": ops.where(ops.expand_dims(done, axis=1), IMPOSSIBLE, log_probs),
        "best_ranks": best_ranks,
        "best_scores": pick(all_scores, best),
        "best_outputs": pick(all_outputs, best),
        "done": done,
    }
