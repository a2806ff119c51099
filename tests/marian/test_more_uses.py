"""Averages, ensembles, protected text and a server: with imported models as with any."""

import numpy as np
import pytest

from tests.cli.command import assert_mistake
from tests.decoding import by_hand
from tests.eager import eagerly
from tests.marian.conftest import Imported
from tests.marian.folders import TAGS, marian_ids, random_weights
from tests.marian.test_importing import next_in_our_ids
from tests.marian.tuned import tune
from tests.server.running import client_of, serving
from tests.translation.conftest import with_nothing_but
from tf_transformer import DecodingOptions, load_model, load_translator
from tf_transformer.experiment import export_run_ctranslate2
from tf_transformer.export import export_saved_model
from tf_transformer.model_card.facts import facts_of_run
from tf_transformer.translation import Translator

pytestmark = pytest.mark.thorough

TEXTS = ["A man sees a house.", "Our dog", "unheard things"]
LIMIT = 6


@pytest.fixture(scope="module")
def other(joint, tmp_path_factory):
    """The same vocabulary and sizes, and other weights."""
    weights = random_weights(joint.config, seed=1)
    return Imported(tmp_path_factory.mktemp("other"), tags=TAGS, weights=weights)


def test_an_ensemble_of_two(joint, other, command):
    """By the equations of both, whose log-probabilities are averaged."""
    options = {"beam_size": 1, "alpha": 0.0, "max_length": LIMIT, "extra_length": LIMIT}
    runs = [joint.run.path, other.run.path]
    with eagerly():
        found = load_translator(runs, **options).translate(TEXTS)
        words = ["--beam-size", 1, "--max-length", LIMIT]
        lines = command("translate", *runs, *words, stdin="".join(text + "\n" for text in TEXTS).encode()).lines
    assert lines == [text.decode() for text in found["translation"].numpy()]
    target = joint.run.load_tokenizers().target
    for row, text in enumerate(TEXTS):
        both = [next_in_our_ids(each, target, marian_ids(joint.folder, text)) for each in (joint, other)]

        def following(tokens, both=both):
            return np.mean([of(tokens) for of in both], axis=0).tolist()

        (score, tokens), *_ = by_hand.beam(following, LIMIT, 1, 0.0, 1).hypotheses
        assert found["score"][row].numpy() == pytest.approx(score, abs=1e-4)
        assert lines[row] == target.detokenize([tokens])[0].numpy().decode()


def test_an_average_of_what_was_tuned(joint, tmp_path, command):
    assert_mistake(command("average", joint.run.path), "no checkpoints from training")
    run = tune(joint.run, tmp_path, validate_every=1, bleu=0)
    with eagerly():
        assert command("average", run.path, "--last", 2).lines == [str(run.checkpoints / "average.keras")]
        tokens = np.array([[5, 6, 7, 3]]), np.array([[2, 8, 9]])
        assert np.isfinite(load_model(run.path)(tokens)).all()
    averaged = load_model(run.checkpoints / "average.keras").get_weights()
    steps = [load_model(file).get_weights() for file in run.step_checkpoints()[-2:]]
    for mean, *each in zip(averaged, *steps, strict=True):
        np.testing.assert_allclose(mean, np.mean(each, axis=0), rtol=0, atol=1e-6)


def test_a_link_is_kept(joint, command):
    stdin = b">>deu<< See https://example.org/a_b today\n"
    with eagerly():
        (line,) = command("translate", joint.run.path, "--protect", "--max-length", 12, stdin=stdin).lines
    assert "https://example.org/a_b" in line


def test_a_server_has_both_exports(separate, tmp_path):
    """A SavedModel and a CTranslate2 folder, by LibreTranslate's interface and TensorFlow Serving's."""
    pytest.importorskip("ctranslate2", reason="needs CTranslate2: pip install -e '.[ctranslate2]'")
    options = DecodingOptions(beam_size=1, alpha=0.0, length_offset=0.0, max_length=LIMIT, extra_length=LIMIT)
    translator = Translator(load_model(separate.run.path), separate.run.load_tokenizers(), options)
    with eagerly():
        expected = [text.decode() for text in translator.translate(TEXTS)["translation"].numpy()]
    export_saved_model(with_nothing_but(translator, "translate"), tmp_path / "opus" / "1", facts_of_run(separate.run))
    export_run_ctranslate2(separate.run, tmp_path / "fast")
    with serving(tmp_path, tmp_path / "opus", tmp_path / "fast") as running, client_of(running.url) as client:
        (language,) = client.get("/languages").json()[:1]
        assert (language["code"], language["name"], language["targets"]) == ("en", "English", ["de"])
        asked = {"q": TEXTS, "source": "en", "target": "de"}
        assert client.post("/translate", json=asked).json()["translatedText"] == expected
        for name in "opus", "fast":
            rows = client.post(f"/v1/models/{name}:predict", json={"instances": TEXTS}).json()["predictions"]
            assert len(rows) == len(TEXTS) and all("translation" in row for row in rows)
            if name == "opus":
                assert [row["translation"] for row in rows] == expected
