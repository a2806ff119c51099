"""Scores against worked examples, and against BLEU and chrF written out in plain Python."""

import json
import math
import subprocess
import sys
from collections import Counter

import pytest
import sacrebleu
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.errors import UserError
from tf_transformer.evaluation.perturbation import evaluate_perturbed
from tf_transformer.evaluation.scores import evaluate_translations, score_translations

KOREAN_HYPOTHESIS = "빛이 써는 노인은 완벽한 어두운곳에서 잠든 사람과 비교할 때 강박증이 심해질 기회가 훨씬 높았다"
KOREAN_REFERENCE = "빛이 써는 사람은 완벽한 어둠에서 잠든 사람과 비교할 때 우울증이 심해질 가능성이 훨씬 높았다"

# Few words, so that long n-grams match now and then and clipping has something to clip.
sentences = st.lists(st.sampled_from(["Haus", "haus", "der", "die", "geht"]), max_size=12).map(" ".join)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8).map(
    lambda pairs: ([hypothesis for hypothesis, _ in pairs], [reference for _, reference in pairs])
)


def ngrams(symbols, order):
    return Counter(tuple(symbols[i : i + order]) for i in range(len(symbols) - order + 1))


def plain_bleu(hypotheses, references):
    """BLEU by its definition, unsmoothed: score, clipped counts, totals, brevity penalty."""
    hypotheses = [text.split() for text in hypotheses]
    references = [text.split() for text in references]
    counts, totals = [], []
    for order in range(1, 5):
        pairs = [(ngrams(h, order), ngrams(r, order)) for h, r in zip(hypotheses, references, strict=True)]
        counts.append(sum(sum((h & r).values()) for h, r in pairs))
        totals.append(sum(sum(h.values()) for h, _ in pairs))
    length, reference_length = sum(map(len, hypotheses)), sum(map(len, references))
    penalty = 1.0
    if length < reference_length:
        penalty = math.exp(1 - reference_length / length) if length else 0.0
    score = 0.0
    if all(counts):
        product = math.prod(count / total for count, total in zip(counts, totals, strict=True))
        score = 100 * penalty * product**0.25
    return score, tuple(counts), tuple(totals), penalty


def plain_chrf2(hypotheses, references):
    """chrF2: precision and recall averaged over the character 1- to 6-grams that both sides have."""
    precisions, recalls = [], []
    for order in range(1, 7):
        matches = hypothesis_total = reference_total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            h = ngrams("".join(hypothesis.split()), order)
            r = ngrams("".join(reference.split()), order)
            matches += sum((h & r).values())
            hypothesis_total += sum(h.values())
            reference_total += sum(r.values())
        if hypothesis_total and reference_total:
            precisions.append(matches / hypothesis_total)
            recalls.append(matches / reference_total)
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * 5 * precision * recall / (4 * precision + recall)


def test_worked_example_korean():
    scores = score_translations([KOREAN_HYPOTHESIS], [KOREAN_REFERENCE], tokenize="none", smooth_method="none")
    assert scores.precisions == ((10, 5, 2, 1), (14, 13, 12, 11))
    assert scores.brevity_penalty == 1
    assert (scores.hypothesis_length, scores.reference_length) == (14, 14)
    assert scores.bleu == pytest.approx(25.40, abs=0.005)


def test_worked_example_clipping():
    hypothesis = "The more decomposition the more flavor the food has"
    reference = "The more the merrier I always say"
    scores = score_translations([hypothesis], [reference], lowercase=True)
    assert (scores.precisions.counts[0], scores.precisions.totals[0]) == (3, 9)
    # With case, "The" and one "the" of two match, and "more".
    assert score_translations([hypothesis], [reference]).precisions.counts[0] == 3
    assert score_translations([hypothesis.upper()], [reference]).precisions.counts[0] == 0
    assert score_translations([hypothesis.upper()], [reference], lowercase=True).precisions.counts[0] == 3


def test_worked_example_brevity():
    hypothesis = " ".join(KOREAN_REFERENCE.split()[:6])
    scores = score_translations([hypothesis], [KOREAN_REFERENCE])
    assert (scores.hypothesis_length, scores.reference_length) == (6, 14)
    assert scores.brevity_penalty == pytest.approx(math.exp(1 - 14 / 6))
    assert scores.brevity_penalty == pytest.approx(0.2636, abs=5e-5)
    # All its n-grams are right, so the penalty is all that BLEU takes off.
    assert scores.bleu == pytest.approx(26.36, abs=0.005)


@settings(deadline=None, max_examples=200)
@given(corpora)
def test_bleu_is_the_definition(corpus):
    hypotheses, references = corpus
    scores = score_translations(hypotheses, references, tokenize="none", smooth_method="none")
    score, counts, totals, penalty = plain_bleu(hypotheses, references)
    assert scores.precisions == (counts, totals)
    assert scores.brevity_penalty == pytest.approx(penalty)
    assert scores.bleu == pytest.approx(score)


def test_corpus_bleu_is_not_the_mean_of_sentences():
    hypotheses = ["der Mann geht nach Haus", "die Frau sieht einen Hund und eine Katze auf der Bank"]
    references = ["der Mann geht nach Hause", "die Frau sieht einen Hund und zwei Katzen auf der Bank"]
    options = {"tokenize": "none", "smooth_method": "none"}
    whole = score_translations(hypotheses, references, **options).bleu
    alone = [score_translations([h], [r], **options).bleu for h, r in zip(hypotheses, references, strict=True)]
    assert whole == pytest.approx(plain_bleu(hypotheses, references)[0])
    assert abs(whole - sum(alone) / 2) > 1


def test_pairs_may_come_in_any_order_but_must_stay_pairs():
    hypotheses = ["ein Mann geht nach Hause", "zwei Hunde spielen im Schnee"]
    references = ["ein Mann geht heim", "zwei Hunde spielen im Schnee"]
    scores = score_translations(hypotheses, references)
    assert score_translations(hypotheses[::-1], references[::-1]) == scores
    assert score_translations(hypotheses[::-1], references).bleu < scores.bleu / 2


@pytest.mark.parametrize(
    "hypotheses, references",
    [
        (["The cat sat on the mat."], ["The cat is on the mat."]),
        (
            ["강아지는 감자를 좋아해", "Zwei Hunde"],
            ["강아지는 감자를 아주 좋아해", "Zwei junge Hunde spielen 🐶"],
        ),
    ],
)
def test_chrf_is_the_definition(hypotheses, references):
    scores = score_translations(hypotheses, references)
    assert scores.chrf == pytest.approx(plain_chrf2(hypotheses, references))
    assert 0 < scores.chrf < 100


@pytest.mark.parametrize("texts", [["A man rides a bike.", "Two dogs!"], [KOREAN_REFERENCE]])
def test_perfect_is_100(texts):
    scores = score_translations(texts, texts)
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)
    assert scores.brevity_penalty == 1


def test_lowercase_is_blind_to_case_and_says_so():
    upper, lower = ["DER MANN GEHT NACH HAUSE"], ["der Mann geht nach Hause"]
    cased = score_translations(upper, lower)
    lowercased = score_translations(upper, lower, lowercase=True)
    assert cased.bleu == 0
    assert lowercased.bleu == pytest.approx(100)
    assert lowercased.chrf == pytest.approx(100) and cased.chrf < 50
    assert "case:mixed" in cased.signature and "case:mixed" in cased.chrf_signature
    assert "case:lc" in lowercased.signature and "case:lc" in lowercased.chrf_signature


def test_signature_says_how_the_figure_came_about():
    scores = score_translations(["ein Haus"], ["ein Haus"])
    assert scores.signature.split("|") == [
        "nrefs:1",
        "case:mixed",
        "eff:no",
        "tok:13a",
        "smooth:exp",
        f"version:{sacrebleu.__version__}",
    ]
    assert f"version:{sacrebleu.__version__}" in scores.chrf_signature
    assert "nc:6|nw:0" in scores.chrf_signature
    other = score_translations(["ein Haus"], ["ein Haus"], tokenize="char", smooth_method="floor")
    assert "tok:char|smooth:floor" in other.signature


def test_13a_parts_punctuation_from_words_and_none_does_not():
    pair = ["Er geht nach Hause."], ["Er geht nach Hause ."]
    assert score_translations(*pair).bleu == pytest.approx(100)
    assert score_translations(*pair, tokenize="none").precisions == ((3, 2, 1, 0), (4, 3, 2, 1))


def test_perturbed_copies_are_scored_with_the_same_tokenizer():
    def echo(texts):
        rows = len(texts)
        return {"translation": tf.constant(texts), "score": tf.zeros(rows), "truncated": tf.fill(rows, False)}

    text = "I saw the OLD MAN there."
    shouted = sacrebleu.corpus_bleu([text.upper()], [[text]], tokenize="char").score
    assert shouted != pytest.approx(sacrebleu.corpus_bleu([text.upper()], [[text]]).score)
    scores = evaluate_perturbed(echo, [(text, text)], tokenize="char")
    assert scores["upper_case"]["bleu"] == pytest.approx(shouted)


def test_tokenised_text_raises_no_warning_under_none(caplog):
    texts = ["Er geht heim ."] * 150
    score_translations(texts, texts, tokenize="none")
    assert not caplog.records
    score_translations(texts, texts)
    assert "tokenized period" in caplog.text


def test_empty_hypotheses_count_as_too_short():
    references = ["zwei Hunde spielen im Schnee", "ein Mann geht nach Hause"]
    scores = score_translations([references[0], ""], references)
    assert scores.precisions == ((5, 4, 3, 2), (5, 4, 3, 2))
    assert scores.brevity_penalty == pytest.approx(math.exp(1 - 10 / 5))
    assert scores.bleu == pytest.approx(100 * math.exp(-1))
    nothing = score_translations(["", ""], references)
    assert (nothing.bleu, nothing.chrf, nothing.brevity_penalty) == (0, 0, 0)


def test_as_dict_survives_json():
    scores = score_translations([KOREAN_HYPOTHESIS], [KOREAN_REFERENCE], tokenize="none")
    record = scores.as_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["bleu"] == scores.bleu and record["signature"] == scores.signature
    assert record["precisions"] == {"counts": [10, 5, 2, 1], "totals": [14, 13, 12, 11]}


@pytest.mark.parametrize(
    "hypotheses, references, options, words",
    [
        (["a", "b", "c"], ["a", "b"], {}, ["3 hypotheses", "2 references"]),
        (["a"], [], {}, ["1 hypotheses", "0 references"]),
        ([], [], {}, ["nothing to score", "at least one"]),
        ("a b", "a b", {}, ["hypotheses is one string", "list"]),
        (["a"], [b"a"], {}, ["references[0]", "bytes", "str"]),
        (["a", None], ["a", "b"], {}, ["hypotheses[1]", "NoneType"]),
        (["a"], ["a"], {"tokenize": "13b"}, ["tokenize='13b'", "13a", "none"]),
        (["a"], ["a"], {"smooth_method": "laplace"}, ["smooth_method='laplace'", "exp", "floor"]),
    ],
)
def test_mistakes_are_told_in_one_line(hypotheses, references, options, words):
    with pytest.raises(UserError) as caught:
        score_translations(hypotheses, references, **options)
    message = str(caught.value)
    assert all(word in message for word in words)
    assert "\n" not in message


def test_a_tokenizer_that_cannot_load_is_a_users_mistake(monkeypatch):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(UserError, match=r"tokenize='ja-mecab' cannot be used here: .*sacrebleu\[ja\]"):
        score_translations(["犬"], ["犬"], tokenize="ja-mecab")


def test_a_tokenizer_that_cannot_load_is_told_before_the_translating(monkeypatch):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(UserError, match="tokenize='ja-mecab' cannot be used here"):
        evaluate_translations(lambda texts: pytest.fail("it translates"), [("犬", "犬")], tokenize="ja-mecab")


def test_import_is_light():
    code = (
        "import sys, tf_transformer.evaluation.scores; "
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'keras', 'sacrebleu')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
