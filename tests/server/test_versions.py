"""What is warmed up before the first request."""

from tf_transformer.export.compiled import LENGTHS, ROWS
from tf_transformer.server.versions import PAGE_SIGNATURES, WARM_UP_SHAPES, SavedModelVersion


def test_one_sentence_and_two_find_a_program():
    assert all(rows in ROWS and length in LENGTHS for rows, length in WARM_UP_SHAPES)
    for length in (16, 32, 64):
        assert {rows for rows, warm_length in WARM_UP_SHAPES if warm_length == length} == {1, 2}


def test_what_the_page_asks_for_is_warmed_up(tiny_saved_model):
    version = SavedModelVersion(tiny_saved_model)
    call, answered = version.call, []

    def remembered(name, inputs):
        outputs = call(name, inputs)
        answered.append(name)
        return outputs

    version.call = remembered
    version.warm_up()
    assert answered == list(PAGE_SIGNATURES)
