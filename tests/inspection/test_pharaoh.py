"""Alignments word by word, against words and pieces by hand and the model by its equations."""

import numpy as np
import pytest

from tests.export.conftest import ByDefinition
from tests.tiny_run import PAIRS
from tf_transformer import load_translator
from tf_transformer.inspection.pharaoh import load_align, word_links


@pytest.mark.parametrize(
    ("source", "target", "source_tokens", "target_tokens", "alignment", "expected"),
    [
        pytest.param(
            "Two dogs run .",
            "Zwei Hunde laufen .",
            "▁Two ▁dog s ▁run ▁ . </s>",
            "▁Zwei ▁Hunde ▁lauf en ▁ . </s>",
            [0, 2, 3, 3, 4, 5, 6],
            [(0, 0), (1, 1), (2, 2), (3, 3)],
            id="pieces of SentencePiece",
        ),
        pytest.param(
            "The dog sleeps.",
            "Der Hund schläft.",
            "the dog sleep ##s . [END]",
            "der hund schlaf ##t . [END]",
            [0, 1, 3, 2, 4, 5],
            [(0, 0), (1, 1), (2, 2)],
            id="a full stop belongs to its word",
        ),
        pytest.param(
            "It does not rain",
            "Es regnet nicht",
            "▁It ▁does ▁not ▁rain </s>",
            "▁Es ▁reg net ▁nicht </s>",
            [0, 3, 1, 2, 4],
            [(0, 0), (1, 1), (2, 2), (3, 1)],
            id="a word of several, in another order",
        ),
        pytest.param(
            "强  dog",
            "ein 🐕",
            ["▁", "<0xE5>", "<0xBC>", "<0xBA>", "▁dog", "</s>"],
            ["▁ein", "▁", "<0xF0>", "<0x9F>", "<0x90>", "<0x95>", "</s>"],
            [4, 4, 2, 2, 3, 4, 5],
            [(0, 1), (1, 0), (1, 1)],
            id="bytes, and two blanks",
        ),
        pytest.param("A", "Ein", "▁A </s>", "▁Ein </s>", [-1, 1], [], id="aligned to nothing"),
        pytest.param("", "", ["</s>"], [], [], [], id="nothing"),
    ],
)
def test_by_hand(source, target, source_tokens, target_tokens, alignment, expected):
    tokens = [each.split() if isinstance(each, str) else each for each in (source_tokens, target_tokens)]
    assert word_links(source, target, *tokens, alignment) == expected


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
