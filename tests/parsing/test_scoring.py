"""Where EVALB misleads: figures counted by hand. That the others are EVALB's own is in test_evalb.py."""

import json

import pytest

from tf_transformer.parsing import ParseScorer, clean, read_tree, score_trees


def score(*pairs: tuple[str, str | None]) -> dict:
    trees = [(read_tree(gold), predicted and read_tree(predicted)) for gold, predicted in pairs]
    return score_trees(*zip(*trees, strict=True))


def counts(scores: dict) -> tuple[int, int, int]:
    return scores["gold_brackets"], scores["predicted_brackets"], scores["matched_brackets"]


def test_precision_recall_and_crossing_by_hand():
    # gold: S 0-4, NP 0-1, VP 1-4, NP 2-4; predicted: S 0-4, NP 0-2 (crosses VP 1-4), NP 2-4
    gold = "(S (NP (NN a)) (VP (VB b) (NP (DT c) (NN d))))"
    scores = score((gold, "(S (NP (XX a) (XX b)) (NP (XX c) (XX d)))"))
    assert counts(scores) == (4, 3, 2)
    assert (scores["recall"], scores["precision"]) == (50, pytest.approx(200 / 3))
    assert scores["f1"] == pytest.approx(400 / 7)
    assert (scores["average_crossing"], scores["no_crossing"], scores["two_or_less_crossing"]) == (1, 0, 100)
    assert scores["complete_match"] == 0


def test_punctuation_goes_by_the_gold_tags_whatever_the_predicted_ones():
    gold = "(S (NP (NN a) (, ,)) (VP (VB -) (: -)))"
    for tags in ("XX XX XX XX", "NN , : VB", "NN NN , ,"):
        a, comma, verb, dash = tags.split()
        # both ends of the constituents move by the punctuation alone
        predicted = f"(S (NP ({a} a)) ({comma} ,) (VP ({verb} -)) ({dash} -))"
        scores = score((gold, predicted))
        assert counts(scores) == (3, 3, 3) and scores["complete_match"] == 100


def test_the_same_word_is_punctuation_or_not_by_its_tag():
    gold = "(NP (NP (NN a)) (HYPH -) (NP (NN b)))"
    assert counts(score((gold, "(NP (NP (XX a) (XX -)) (NP (XX b)))"))) == (3, 3, 2)
    assert counts(score((gold.replace("HYPH", ":"), "(NP (NP (XX a) (XX -)) (NP (XX b)))"))) == (3, 3, 3)


def test_an_unlabelled_root_and_top_are_no_constituents():
    for root in "", "TOP":
        for other in "", "TOP":
            scores = score((f"({root} (S (NN a)))", f"({other} (NP (NN a)))"))
            assert counts(scores) == (1, 1, 0)


def test_advp_is_prt():
    assert counts(score(("(S (PRT (RP up)) (ADVP (RB so)))", "(S (ADVP (RP up)) (PRT (RB so)))"))) == (3, 3, 3)


def test_labels_are_multisets():
    twice, thrice = "(NP (NP (NN a)))", "(NP (NP (NP (NN a))))"
    assert counts(score((twice, thrice))) == (2, 3, 2)
    assert counts(score((thrice, twice))) == (3, 2, 2)
    assert counts(score(("(S (NP (NN a)))", thrice))) == (2, 3, 1)


@pytest.mark.parametrize("unusable", [None, "(S (NN a) (NN c))", "(S (NN a))", "(S (NN a) (NN b) (NN c))"])
def test_a_parse_that_failed_misses_everything_and_stays(unusable):
    gold = "(S (NP (NN a)) (VP (VB b)) (. .))"
    scores = score((gold, gold), (gold, unusable))
    assert counts(scores) == (6, 3, 3)
    assert (scores["recall"], scores["precision"], scores["complete_match"]) == (50, 100, 50)
    assert (scores["sentences"], scores["without_parse"], scores["skipped"]) == (2, 1, 0)
    # It is no sentence of few crossings either, and the mean is over those that can cross.
    assert (scores["no_crossing"], scores["two_or_less_crossing"], scores["average_crossing"]) == (50, 50, 0)


def test_other_words_are_no_parse_even_where_only_punctuation_differs():
    gold = "(S (NP (NN a)) (. .))"
    assert score((gold, "(S (NP (NN a)) (. !))"))["without_parse"] == 1
    assert score((gold, "(S (NP (NN a)))"))["without_parse"] == 1


def test_forty_words_count_punctuation():
    def of(words):
        return "(S " + "(NN a) " * (words - 1) + "(. .))"

    scores = score((of(40), of(40)), (of(41), None))
    assert scores["sentences"] == 2 and scores["recall"] == 50
    short = scores["at_most_40_words"]
    assert short["sentences"] == 1 and short["recall"] == 100


def test_nothing_scored_is_no_division_by_zero():
    for scores in (ParseScorer().scores(), score(("(S (. .))", None)), score(("(S (NN a))", None))):
        assert (scores["f1"], scores["precision"], scores["average_crossing"]) == (0, 0, 0)
        assert json.loads(json.dumps(scores)) == scores


def test_pairs_must_be_as_many():
    tree = read_tree("(S (NN a))")
    with pytest.raises(ValueError, match="shorter"):
        score_trees([tree, tree], [tree])


def test_function_tags_are_cleaned_away_on_both_sides():
    gold, predicted = "( (S (NP-SBJ-1 (NN a)) (VP (VB b) (NP-1 (-NONE- *)))))", "(S (NP (NN a)) (VP (VB b)))"
    scores = score_trees([clean(read_tree(gold))], [clean(read_tree(predicted))])
    assert counts(scores) == (3, 3, 3)
