"""Translating many texts: in order, whatever the batches; and finding what translates."""

import random
import shutil
from threading import Barrier, Lock

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bounded import SECONDS
from tests.eager import eagerly
from tests.mistakes import refused
from tests.tiny_run import PAIRS
from tf_transformer.errors import OutOfMemory, UserError
from tf_transformer.inspection.sentence import load_attend
from tf_transformer.runs.loading import load_model
from tf_transformer.session.c_api import CApiError
from tf_transformer.translation.loading import load_translate, load_translator, own_options
from tf_transformer.translation.texts import Translation, translate_texts


@pytest.fixture(scope="module")
def translate(tiny_saved_model, tiny_loaded):
    return load_translate(tiny_saved_model, load=lambda path, name: tiny_loaded.signatures[name])


def shout(texts: list[str]) -> dict[str, tf.Tensor]:
    """A translator into capitals, whose score is the length."""
    length = tf.strings.length(texts, unit="UTF8_CHAR")
    return {
        "translation": tf.strings.upper(texts, encoding="utf-8"),
        "score": -tf.cast(length, tf.float32),
        "truncated": length > 5,
    }


# Nothing that TensorFlow's and Python's capitals disagree on.
TEXT = st.text(st.sampled_from("abcxyzäöü éà \t\n.🐕강"), max_size=12)


@settings(deadline=None, max_examples=50)
@given(st.lists(TEXT, max_size=20), st.integers(1, 25), st.integers(1, 4))
def test_every_text_once_in_order_in_batches(texts, batch_size, streams):
    batches, lock = [], Lock()

    def recording(batch):
        with lock:
            batches.append(batch)
        return shout(batch)

    translations = list(translate_texts(recording, texts, batch_size, streams))
    assert translations == [Translation(text.upper(), -len(text), len(text) > 5) for text in texts]
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    assert sorted(text for batch in batches for text in batch) == sorted(texts)
    # As few batches as can be, and of like length: no text is longer than one of a later batch.
    assert len(batches) == -(-len(texts) // batch_size)
    if streams > 1:  # which need not begin in order
        batches.sort(key=lambda batch: (len(batch[0]), len(batch[-1])))
    lengths = [len(text) for batch in batches for text in batch]
    assert lengths == sorted(lengths)


@settings(deadline=None, max_examples=50)
@given(st.lists(TEXT, max_size=40), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_texts_by_windows_are_in_the_same_batches_however_many_are_given_at_once(texts, batch_size, batches, windows):
    def batches_of(given):
        found = []
        translate = translate_texts(lambda batch: found.append(batch) or shout(batch), given, batch_size, window=window)
        assert [translation.text for translation in translate] == [text.upper() for text in given]
        return found

    window = batch_size * batches
    parts = [texts[start : start + window * windows] for start in range(0, len(texts), window * windows)]
    assert batches_of(texts) == [batch for part in parts for batch in batches_of(part)]


def test_streams_work_at_once():
    together = Barrier(3, timeout=SECONDS)

    def waiting(batch):
        together.wait()  # for the others
        return shout(batch)

    translations = list(translate_texts(waiting, ["a", "b", "c", "d", "e", "f"], 1, streams=3))
    assert [translation.text for translation in translations] == ["A", "B", "C", "D", "E", "F"]


@pytest.mark.parametrize("streams", [1, 2])
def test_what_fails_in_a_stream_reaches_the_caller(streams):
    def failing(batch):
        if "c" in batch:
            raise UserError("no c")
        return shout(batch)

    with pytest.raises(UserError, match="no c"):
        translate_texts(failing, ["a", "b", "c", "d"], 1, streams)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[64,512]"),
        CApiError("OOM when allocating tensor with shape[64,512]"),
        RuntimeError("CUDA failed with error out of memory"),
    ],
    ids=["Python", "TensorFlow", "its C library", "CTranslate2"],
)
def test_too_little_memory_is_told_with_what_to_lower(error):
    def failing(batch):
        raise error

    told = r"^out of memory with 4 sentences at once; lower the batch size \(--batch-size\) or the beam size "
    with pytest.raises(OutOfMemory, match=told):
        translate_texts(failing, ["a", "b", "c", "d", "e"], 2, 2)


def test_another_failure_is_not_told_as_memory():
    failure = RuntimeError("/home/mushroom: damaged")

    def failing(batch):
        raise failure

    with pytest.raises(RuntimeError) as error:
        translate_texts(failing, ["a"])
    assert error.value is failure


def test_other_hypotheses_come_best_first_and_only_those_there_are():
    def several(batch):
        count = len(batch)
        return {
            "translation": tf.stack([batch, tf.fill([count], "ß"), tf.fill([count], "")], axis=1),
            "score": tf.tile([[-0.25, -0.5, -float("inf")]], [count, 1]),
            "truncated": tf.fill([count], False),
        }

    translations = list(translate_texts(several, ["a", "bb"]))
    assert translations == [Translation(text, -0.25, False, (("ß", -0.5),)) for text in ("a", "bb")]


def test_any_batch_size_gives_the_same(translate):
    shuffled = random.Random(3).sample(PAIRS[::3] * 2, 16)
    texts = [text for source, _ in shuffled for text in (source, source[:5], "")]
    whole = list(translate_texts(translate, texts, 1000))
    assert [translation.text for translation in whole[::3]] == [target for _, target in shuffled]
    assert {translation.text for translation in whole[2::3]} == {""}
    for batch_size in (1, 7):
        some = list(translate_texts(translate, texts, batch_size))
        assert [(t.text, t.truncated) for t in some] == [(t.text, t.truncated) for t in whole]
        assert [t.score for t in some] == pytest.approx([t.score for t in whole], abs=1e-4)


def alike(some, others):
    assert [t._replace(score=0) for t in some] == [t._replace(score=0) for t in others]
    assert [t.score for t in some] == pytest.approx([t.score for t in others], abs=1e-4)


def test_a_run_and_its_export_translate_alike(tiny_run_directory, translate):
    texts = [PAIRS[0][0], "A man", "", "the " * 100]
    with eagerly():
        from_run = list(translate_texts(load_translate(tiny_run_directory.path), texts))
    from_export = list(translate_texts(translate, texts))
    assert from_run[0].text == PAIRS[0][1]
    assert [t.truncated for t in from_run] == [False, False, False, True]
    alike(from_run, from_export)
    # Each text in a batch of its own, two of them at once.
    alike(list(translate_texts(translate, texts, 1, streams=2)), from_export)


@pytest.fixture
def by_both(tiny_run_directory, tiny_saved_model, tiny_loaded):
    """Gives the translations of the run with some options, which must be like those of its export."""

    def by(texts, changes):
        with eagerly():
            by_run, by_export = (
                list(translate_texts(load_translate(path, changes, load=load), texts))
                for path, load in (
                    (tiny_run_directory.path, None),
                    (tiny_saved_model, lambda path, name: tiny_loaded.signatures[name]),
                )
            )
        alike(by_export, by_run)
        return by_run

    return by


def test_a_greedy_run_is_its_export_with_a_beam_of_one(by_both):
    """A run has another function for it."""
    changes = {"beam_size": 1, "alpha": 0.0, "max_length": 4}
    cut, _, nothing = by_both([PAIRS[0][0], "Our dog", ""], changes)
    assert PAIRS[0][1].startswith(cut.text) and 0 < len(cut.text) < len(PAIRS[0][1])
    assert (nothing.text, nothing.score) == ("", 0)


@pytest.mark.thorough
def test_a_run_and_its_export_draw_alike(by_both, translate):
    changes = {"temperature": 3.0, "seed": 7, "min_length": 5, "max_length": 12}
    texts = ["Our dog"] * 2 + ["apple house"]
    drawn = by_both(texts, changes)
    likeliest = list(translate_texts(translate, texts))
    assert all(one.score < other.score for one, other in zip(drawn, likeliest, strict=True))


def fails(path, *arguments) -> str:
    """The message of `load_translate`, which names the path."""
    message = refused(load_translate, path, *arguments)
    assert message.startswith(f"{path}")
    return message


def test_what_is_no_model(tmp_path, tiny_saved_model):
    assert "neither a run nor a SavedModel (no such folder)" in fails(tmp_path / "none")
    assert fails(tmp_path).endswith("neither a run nor a SavedModel; give the folder of one")
    assert "neither a run nor a SavedModel" in fails(tiny_saved_model / "saved_model.pb")


def test_a_folder_of_versions_is_told_with_the_newest(tmp_path):
    for name in ("9", "10", "11-broken", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()
    (tmp_path / "12").mkdir()  # holds none
    assert fails(tmp_path).endswith(f"give one of its versions, such as {tmp_path / '10'}")


def of_something_else(folder, *names):
    """Saves a model that has signatures of these names."""
    module = tf.Module()
    module.double = tf.function(lambda x: x * 2, input_signature=[tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, str(folder), {name: module.double for name in names})
    return folder


def test_a_saved_model_of_something_else(tmp_path):
    assert "without the signature translate;" in fails(of_something_else(tmp_path / "doubler"))


def test_an_older_export_takes_no_options(tmp_path):
    """The first ones had nothing but `translate`; an option may not be dropped without a word."""
    without_signature = of_something_else(tmp_path / "1", "translate")
    load_translate(without_signature)
    message = fails(without_signature, {"beam_size": 2})
    assert "without the signature translate_with_options; export it again" in message
    without_options = of_something_else(tmp_path / "2", "translate", "translate_with_options")
    message = fails(without_options, {"beam_size": 2})
    assert "decoding_options.json: can't be read as the options of an export" in message
    assert message.endswith("export the model again")


@pytest.mark.parametrize("options", ["", "[4]", '{"beam": 4}'])
def test_an_exports_damaged_options(tmp_path, options):
    folder = of_something_else(tmp_path / "1", "translate_with_options")
    (folder / "assets.extra").mkdir(exist_ok=True)
    (folder / "assets.extra" / "decoding_options.json").write_text(options)
    assert "decoding_options.json: can't be read as the options of an export" in fails(folder, {"beam_size": 2})


def test_one_string_is_not_taken_letter_by_letter(translate):
    with pytest.raises(UserError, match=r"^texts is one string; give a list of strings"):
        translate_texts(shout, "a dog")
    with pytest.raises(UserError, match=r"^texts is one string; give a list of strings"):
        translate("a dog")


def test_a_run_s_translator_has_its_recipe_s_options_but_for_those_given(tiny_run_directory):
    translator = load_translator(tiny_run_directory.path, beam_size=2)
    assert (translator.options.beam_size, translator.options.alpha, translator.options.extra_length) == (2, 0.6, 10)
    texts = [source for source, _ in PAIRS]
    with eagerly():
        assert [text.decode() for text in translator.translate(texts)["translation"].numpy()] == [t for _, t in PAIRS]
    with pytest.raises(UserError, match=r"^unknown option beam; choose from beam_size"):
        load_translator(tiny_run_directory.path, beam=2)


def test_a_single_checkpoint_translates_with_its_own_weights(tiny_run_directory, tmp_path):
    first, *_, last = tiny_run_directory.step_checkpoints()
    for path in first, last:
        model = load_translator(path).model
        for own, there in zip(model.get_weights(), load_model(path).get_weights(), strict=True):
            np.testing.assert_array_equal(own, there)
    with eagerly():
        by_checkpoint = list(translate_texts(load_translate(last), [source for source, _ in PAIRS]))
        assert load_attend(last)(tf.constant([PAIRS[0][0]]))["translation"].numpy()[0].decode() == PAIRS[0][1]
    assert [one.text for one in by_checkpoint] == [target for _, target in PAIRS]  # as the run itself does it
    alone = shutil.copy(last, tmp_path / "alone.keras")
    assert "a checkpoint outside its run, without the recipe and tokenizers that translating needs" in fails(alone)
    missing = first.with_name("step-999999.keras")
    assert "no such checkpoint" in fails(missing)
    assert "no such checkpoint" in fails(tmp_path / "none" / "step-1.keras")


def test_a_saved_model_has_a_loader_of_its_own(tiny_saved_model):
    with pytest.raises(UserError, match=r": a SavedModel, not a run; load it with tf\.saved_model\.load$"):
        load_translator(tiny_saved_model)


def test_an_option_that_can_not_be(tiny_run_directory):
    with pytest.raises(UserError, match="beam_size is 0; it must be at least 1"):
        load_translate(tiny_run_directory.path, {"beam_size": 0})


@pytest.mark.parametrize("name", ["extra_length", "length_offset"])
def test_what_is_fixed_in_an_export_is_not_ignored(tiny_saved_model, tiny_loaded, name):
    def load(changes):
        return load_translate(tiny_saved_model, changes, load=lambda path, name: tiny_loaded.signatures[name])

    own = getattr(own_options(tiny_saved_model), name)
    assert load({name: own})
    with pytest.raises(UserError, match=f"^{name} of an export can't be changed; export the run again"):
        load({name: own + 1})


def test_no_model_and_no_batch():
    for load in load_translate, load_translator:
        with pytest.raises(UserError, match="no model is given"):
            load([])
    for wrong in {"batch_size": 0}, {"batch_size": -1}, {"streams": 0}:
        with pytest.raises(UserError, match="must be at least 1"):
            list(translate_texts(shout, ["a"], **wrong))


def test_engines(tiny_run_directory, tmp_path):
    with pytest.raises(UserError, match="engine is marian; choose from tensorflow, ctranslate2"):
        load_translate(tiny_run_directory.path, engine="marian")
    (tmp_path / "model.bin").touch()
    assert fails(tmp_path).endswith("a CTranslate2 model; use translate or evaluate with --engine ctranslate2")


@pytest.mark.parametrize("kept", [0, 0.5])
def test_a_damaged_saved_model(tiny_saved_model, tmp_path, kept):
    damaged = tmp_path / "damaged"
    shutil.copytree(tiny_saved_model, damaged)
    graph = (tiny_saved_model / "saved_model.pb").read_bytes()
    (damaged / "SHA256SUMS").unlink()  # as an earlier version wrote it
    (damaged / "saved_model.pb").write_bytes(graph[: int(kept * len(graph))])
    assert "export it again" in fails(damaged)


def test_a_run_without_a_checkpoint_or_a_tokenizer(tiny_run_directory, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_run_directory.path, copy)
    (copy / "tokenizer" / "tokenizer.json").unlink()
    assert "tokenizer.json" in fails(copy)
    shutil.rmtree(copy / "checkpoints")
    assert "no checkpoint yet" in fails(copy)
