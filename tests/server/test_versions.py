"""What is warmed up before the first request."""

import json
import threading
from dataclasses import asdict

import pytest
import tensorflow as tf

from tests.bounded import SECONDS
from tests.translation.conftest import with_nothing_but
from tf_transformer.decoding import DecodingOptions
from tf_transformer.export import export_saved_model
from tf_transformer.files.model_formats import OPTIONS_FILE
from tf_transformer.runs.loading import load_model
from tf_transformer.server import versions
from tf_transformer.server.versions import PAGE_SIGNATURES, WARM_UP_TEXTS, SavedModelVersion, Version
from tf_transformer.translation import Translator
from tf_transformer.translation.compiled import LENGTHS, ROWS

ROWS_BY_BEAM = pytest.mark.parametrize(("beam_size", "rows"), [(1, (1, 2, 4, 8)), (4, (1, 2)), (9, (1,))])


def save_compiled(folder, beam_size):
    """A SavedModel whose signature `warm_up` has the form of ours, and keeps what it was asked for."""
    module = tf.Module()
    module.asked = tf.Variable(tf.zeros([0, 2], tf.int32), shape=[None, 2])

    def translate(text):
        score = tf.zeros_like(text, tf.float32)
        return {"translation": text, "score": score, "truncated": score > 0.0}

    def warm_up(rows, lengths):
        module.asked.assign(tf.stack([rows, lengths], axis=1))
        return {"compiled": rows}

    module.translate = tf.function(translate, [tf.TensorSpec([None], tf.string, "text")], autograph=False)
    sizes = [tf.TensorSpec([None], tf.int32, name) for name in ("rows", "lengths")]
    module.warm_up = tf.function(warm_up, sizes, autograph=False)
    tf.saved_model.save(module, str(folder), {"translate": module.translate, "warm_up": module.warm_up})
    (folder / "assets.extra").mkdir()
    options = json.dumps(asdict(DecodingOptions(beam_size=beam_size)))
    (folder / "assets.extra" / OPTIONS_FILE).write_text(options)


@ROWS_BY_BEAM
def test_batches_of_few_hypotheses_are_asked_for(beam_size, rows, tmp_path):
    """What an export of ours does when it is asked, tests/translation/ have."""
    save_compiled(tmp_path / "1", beam_size)
    version = SavedModelVersion(tmp_path / "1")
    version.warm_up()
    asked = version._loaded.asked.numpy().tolist()
    assert asked == [[number, length] for number in rows for length in (16, 32, 64)]


@pytest.mark.thorough
@ROWS_BY_BEAM
def test_the_search_is_compiled_for_batches_of_few_hypotheses(
    beam_size, rows, tiny_run_directory, tmp_path, monkeypatch
):
    options = DecodingOptions(beam_size=beam_size, extra_length=1)
    translator = Translator(
        load_model(tiny_run_directory.path), tiny_run_directory.load_tokenizers(), options, compiled=True
    )
    export_saved_model(with_nothing_but(translator, "translate", "warm_up"), tmp_path / "1")
    monkeypatch.setattr(versions, "WARM_UP_LENGTHS", (16,))
    version = SavedModelVersion(tmp_path / "1")
    version.warm_up()
    warm = version._loaded.translator._compiled.warm.numpy()
    shapes = {(ROWS[row], LENGTHS[length]) for row, length in zip(*warm.nonzero(), strict=True)}
    assert shapes == {(n, 16) for n in rows}


@pytest.mark.thorough
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


class Meeting(Version):
    """Alternatives, and the first text without options, are answered once both have been asked for."""

    translates = True

    def __init__(self, seconds):
        self.both, self.seconds = threading.Barrier(2), seconds

    def translate(self, texts, options):
        if options or texts == [WARM_UP_TEXTS[0]]:
            self.both.wait(self.seconds)


def test_first_calls_are_made_at_once():
    Meeting(SECONDS).warm_up(threads=2)
    with pytest.raises(threading.BrokenBarrierError):
        Meeting(0.1).warm_up(threads=1)
