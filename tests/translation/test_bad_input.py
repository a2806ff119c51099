"""What nobody should send: the export answers each text of a batch, in UTF-8, and never raises."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.tiny_run import PAIRS
from tests.translation.conftest import with_options

LONG = b"A man sees a house and " * 4348
BAD = {
    "empty": b"",
    "blanks": " \t\r\n\u00a0\u3000\u2028".encode(),
    "100,000 characters": LONG[:100_000],
    "one word of 100,000 characters": b"x" * 100_000,
    "not UTF-8": b"\xff\xfe\x80 is no UTF-8 \xc3",
    "cut in the middle of a character": "강".encode()[:2],
    "overlong": b"\xc0\xaf\xe0\x80\x80",
    "beyond Unicode": b"\xf4\x90\x80\x80",
    "NULs": b"\x00\x00a\x00b\x00",
    "a lone surrogate": b"a \xed\xa0\x80 b",
    "two of them": b"\xed\xa0\xbd\xed\xb0\x95",
    "unknown scripts": "ᚠᛇᚻ 𒀀𒁀 ሰላም ไทย नमस्ते".encode(),
    "right to left": "\u202eשלום\u202c مرحبا".encode(),
    "accents without letters": "\u0301".encode() * 50,
    "emoji": "👨\u200d👩\u200d👧 🇩🇪".encode(),
    "no characters": "\ufffe\uffff\U0010ffff\ufeff".encode(),
    "special pieces": b"<s> </s> <pad> <unk> <0x00>",
}
TOO_LONG = {"100,000 characters", "one word of 100,000 characters", "accents without letters"}


def is_utf8(texts: np.ndarray) -> bool:
    for text in texts.flat:
        text.decode("utf-8")  # which raises unless it is
    return True


@pytest.mark.parametrize(
    "name",
    ["translate", pytest.param("translate_nbest", marks=pytest.mark.thorough), "translate_with_attention", "tokenize"],
)
def test_every_text_is_answered_in_utf8(loaded, name):
    good = PAIRS[0][0].encode()
    texts = tf.constant([*BAD.values(), good])
    output = {key: value.numpy() for key, value in loaded.signatures[name](text=texts).items()}
    for value in output.values():
        assert len(value) == len(texts)
        assert value.dtype != object or is_utf8(value)
    if name != "tokenize":
        assert output["translation"][-1:].reshape(-1)[0].decode() == PAIRS[0][1]
        assert not output["translation"][:2].any()
        assert not np.isnan(output["score"]).any()


def test_what_was_cut_says_so(loaded):
    assert len(BAD["100,000 characters"]) == 100_000
    truncated = loaded.signatures["translate"](text=tf.constant(list(BAD.values())))["truncated"].numpy()
    assert {name for name, cut in zip(BAD, truncated, strict=True) if cut} >= TOO_LONG
    assert not truncated[list(BAD).index("NULs")]


@pytest.mark.thorough
def test_bad_prefixes_and_targets_are_answered_too(loaded):
    bad = [text[:4] for text in BAD.values()]
    good = [PAIRS[0][0]] * len(bad)
    assert is_utf8(with_options(loaded, good, bad, beam_size=2, max_length=40)["translation"])
    for source, target in ((bad, good), (good, list(BAD.values()))):
        output = loaded.signatures["score"](source=tf.constant(source), target=tf.constant(target))
        assert is_utf8(output["tokens"].numpy())
        assert np.isfinite(output["score"].numpy()).all()


def test_whatever_the_model_says_is_utf8(loaded):
    """At this temperature it says anything its vocabulary can: half characters, unknown tokens, special ones."""

    def drawn_for(texts, replace, number):
        options = {"temperature": 1e4, "num_hypotheses": number}
        return with_options(loaded, texts, replace_unknown=replace, **options)["translation"]

    short = [text for name, text in BAD.items() if name not in TOO_LONG]
    drawn = [drawn_for(short, replace, 8) for replace in (False, True)]
    assert is_utf8(drawn[0]) and is_utf8(drawn[1])
    assert is_utf8(drawn_for([BAD[name] for name in sorted(TOO_LONG)], replace=True, number=1))
    assert any("⁇" in text.decode() for text in drawn[0].flat)
    assert (drawn[0] != drawn[1]).any()


@pytest.mark.parametrize("batches", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_random_byte_strings_by_the_hundred(loaded, batches):
    """Each is answered."""
    answered = []

    # Nothing is shrunk: a failure shows its batch as it is.
    @settings(max_examples=batches, deadline=None, database=None, phases=[Phase.generate])
    @given(st.lists(st.binary(max_size=12), min_size=100, max_size=100))
    def answer(texts):
        output = loaded.signatures["translate"](text=tf.constant(texts, tf.string))
        assert output["translation"].shape == output["score"].shape == output["truncated"].shape == (100,)
        assert is_utf8(output["translation"].numpy())
        assert np.isfinite(output["score"].numpy()).all()
        answered.append(len(texts))

    answer()
    assert sum(answered) >= 100 * batches
