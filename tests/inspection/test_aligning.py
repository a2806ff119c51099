"""Alignments word by word, against the model by its equations."""

import numpy as np
import pytest

from tests.tiny_run import PAIRS
from tests.translation.conftest import ByDefinition
from tf_transformer import UserError, load_translator
from tf_transformer.inspection import aligning
from tf_transformer.inspection.aligning import load_align


@pytest.mark.thorough
@pytest.mark.usefixtures("eager")
def test_a_model_s_attention(tiny_run_directory, tiny_saved_model):
    """Run and SavedModel, in batches, give what the weights of the NumPy model say."""
    sources, targets = map(list, zip(*PAIRS, strict=True))
    sources, targets = [*sources, ""], [*targets, ""]
    translator = load_translator(tiny_run_directory.path)
    definition = ByDefinition(translator)
    expected = []
    for source, target in zip(sources, targets, strict=True):
        ids = definition.source(source), definition.target(target)
        _, weights = definition.run(*ids)
        nearest = weights["cross"].mean(axis=(0, 1))[: len(ids[1]) - 1, :-1].argmax(axis=-1) if source else []
        words = [
            np.cumsum([piece.startswith("▁") for piece in tokenizer.pieces(tokens[:-1])]) - 1
            for tokenizer, tokens in zip((translator.tokenizers.source, translator.tokenizers.target), ids, strict=True)
        ]
        links = {(int(words[0][place]), int(words[1][token])) for token, place in enumerate(nearest)}
        expected.append(" ".join(f"{s}-{t}" for s, t in sorted(links)))
    assert expected[-1] == ""
    for model in tiny_run_directory.path, tiny_saved_model:
        assert list(load_align(model)(sources, targets)) == expected


@pytest.mark.parametrize(
    ("sources", "targets", "told"),
    [
        ("a dog", ["ein Hund"], "sources is one string; give a list"),
        (["a dog"], "ein Hund", "targets is one string; give a list"),
        (["a dog"], ["ein Hund", "eine Katze"], "there are 1 sources and 2 targets; give one translation for each"),
    ],
)
def test_what_is_no_list_of_pairs_is_refused(monkeypatch, sources, targets, told):
    monkeypatch.setattr(aligning, "load_function", lambda *_: None)
    with pytest.raises(UserError, match=f"^{told}"):
        load_align("a run")(sources, targets)
