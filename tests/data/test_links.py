"""Which words and tokens belong together: by hand, and from words to tokens and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_transformer.data.links import as_pharaoh, token_links, word_links


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


words = st.lists(st.text("abcäß.,'😀", min_size=1, max_size=6), min_size=1, max_size=6)


@st.composite
def split_texts(draw):
    """A text and tokens of it as SentencePiece has them, of which none has characters of two words."""
    of_text = draw(words)
    tokens = []
    for word in of_text:
        cuts = draw(st.sets(st.integers(1, len(word) - 1))) if len(word) > 1 else set()
        bounds = [0, *sorted(cuts), len(word)]
        pieces = [word[begin:end] for begin, end in zip(bounds[:-1], bounds[1:], strict=True)]
        tokens += ["▁" + pieces[0], *pieces[1:]]
    return " ".join(of_text), [*tokens, "</s>"], len(of_text)


@given(source=split_texts(), target=split_texts(), data=st.data())
def test_links_of_words_made_links_of_tokens_are_the_same_links_of_words(source, target, data):
    (source_text, source_tokens, source_words), (target_text, target_tokens, target_words) = source, target
    pairs = st.tuples(st.integers(0, source_words - 1), st.integers(0, target_words - 1))
    links = sorted(data.draw(st.sets(pairs)))
    found = token_links(source_tokens, source_text, target_tokens, target_text, as_pharaoh(links))
    token_pairs = [(int(link) >> 16, int(link) & 0xFFFF) for link in found]
    assert token_pairs == sorted(set(token_pairs))
    # Each link of tokens belongs to one of words, and all tokens of the two words are linked.
    back = set()
    for target_token, source_token in token_pairs:
        alignment = [source_token if token == target_token else -1 for token in range(len(target_tokens))]
        back |= set(word_links(source_text, target_text, source_tokens, target_tokens, alignment))
    assert sorted(back) == links

    def tokens_of(tokens, word):
        starts = [token.startswith("▁") for token in tokens[:-1]]
        return sum(sum(starts[: at + 1]) == word + 1 for at in range(len(starts)))

    assert len(token_pairs) == sum(
        tokens_of(source_tokens, source) * tokens_of(target_tokens, target) for source, target in links
    )
