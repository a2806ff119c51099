"""What Beam translates with: each sentence its outcome, in order, and none fails for another's fault."""

import pickle
import random

import pytest

pytest.importorskip("apache_beam", reason="needs Apache Beam: make test-beam")

from tests.tiny_run import MAX_LENGTH, PAIRS
from tests.translation.test_translation import shout
from tf_transformer.apache_beam.handler import TOO_LONG, Outcome, TranslationHandler
from tf_transformer.errors import UserError


def test_what_fails_is_set_aside_with_its_reason_and_nothing_else():
    sizes = []

    def failing(texts):
        sizes.append(len(texts))
        if "bad" in texts or "worse" in texts:
            raise ValueError(f"no such word\nin {texts}")
        return shout(texts)

    texts = [f"{number}"[:5] for number in range(500)]
    for place, text in zip(random.Random(2).sample(range(500), 3), ("bad", "worse", "much too long"), strict=True):
        texts[place] = text
    expected = {"bad": "no such word", "worse": "no such word", "much too long": TOO_LONG}
    outcomes = list(TranslationHandler("model", batch_size=8).run_inference(texts, failing))
    assert [outcome.source for outcome in outcomes] == texts
    assert [outcome.failure for outcome in outcomes] == [expected.get(text) for text in texts]
    assert [outcome.translation for outcome in outcomes] == ["" if text in expected else text.upper() for text in texts]
    assert max(sizes) == 8


def test_a_long_sentence_may_be_cut():
    (outcome,) = TranslationHandler("model", cut=True).run_inference(["longer"], shout)
    assert outcome == Outcome("longer", "LONGER", -6.0)


def test_sent_to_a_worker_it_loads_the_model_there(tiny_saved_model):
    handler = pickle.loads(pickle.dumps(TranslationHandler(str(tiny_saved_model), options={"beam_size": 1})))
    model = handler.load_model()
    outcomes = handler.run_inference([source for source, _ in PAIRS] + ["house " * 2 * MAX_LENGTH], model)
    *known, long = outcomes
    assert [outcome.translation for outcome in known] == [target for _, target in PAIRS]
    assert (long.translation, long.failure) == ("", TOO_LONG)
    window = handler.batch_elements_kwargs()
    assert window["min_batch_size"] == window["max_batch_size"] == 16 * 64


def test_a_mistake_is_told_when_the_model_is_loaded(tmp_path, tiny_saved_model):
    with pytest.raises(UserError, match="neither a run nor a SavedModel"):
        TranslationHandler(str(tmp_path)).load_model()
    with pytest.raises(UserError, match="beam_size is 0"):
        TranslationHandler(str(tiny_saved_model), options={"beam_size": 0}).load_model()
