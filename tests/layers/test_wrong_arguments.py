"""Arguments of layers and models that can't be are refused, by name and value."""

import pytest

from tests.layers.test_contract import CASES, RATES, STACK
from tf_transformer import Decoder, Encoder, TokenEmbedding

WRONG = [
    *[
        (case.cls, case.arguments, name, value)
        for case in CASES
        for name in case.arguments
        if name in ("num_layers", "d_model", "num_heads", "dff", "key_dim", "value_dim", "max_length")
        or name.endswith("vocab_size")
        for value in (0, -8, 2.5, "8", True)
    ],
    *[
        (case.cls, case.arguments, name, value)
        for case in CASES
        for name in RATES
        if name in case.arguments
        for value in (-0.1, 1.0, 1.5)
    ],
    *[(case.cls, case.arguments, "position", "rotary") for case in CASES if "position" in case.arguments],
    *[(case.cls, case.arguments, "share_embeddings", "some") for case in CASES if "share_embeddings" in case.arguments],
]


def test_wrong_arguments_are_refused_by_name_and_value():
    for cls, arguments, name, value in WRONG:
        # What is wrong is told whether or not the two vocabularies are one.
        shares = name.endswith("vocab_size") and "share_embeddings" in arguments
        sharing = {"share_embeddings": "none"} if shares else {}
        with pytest.raises(ValueError) as caught:
            cls(**{**arguments, **sharing, name: value})
        message = str(caught.value)
        assert message.startswith(f"{name} must be "), (cls, name, value, message)
        assert message.endswith(f"got {value!r}"), (cls, name, value, message)


@pytest.mark.parametrize(
    "case", [case for case in CASES if "num_heads" in case.arguments], ids=lambda c: c.cls.__name__
)
@pytest.mark.parametrize("missing", ["key_dim", "value_dim"])
def test_heads_must_divide_the_width_unless_their_widths_are_given(case, missing):
    uneven = {**case.arguments, "num_heads": 3, "d_model": 8}
    case.cls(**uneven)
    with pytest.raises(ValueError, match="num_heads must divide d_model, got num_heads=3 and d_model=8"):
        case.cls(**{**uneven, missing: None})


@pytest.mark.parametrize("cls", [Encoder, Decoder])
def test_a_shared_embedding_of_other_sizes_is_refused(cls):
    for vocab_size, d_model in ((21, 8), (20, 16)):
        with pytest.raises(ValueError, match=f"embedding must have .* got {vocab_size} and {d_model}"):
            cls(**STACK, vocab_size=20, embedding=TokenEmbedding(vocab_size, d_model))
