"""The vocabulary of prepared data: found, shared, learned again."""

import shutil
from collections import Counter

from rich.console import Console

from tests.cli.command import contents
from tests.runs.prepared_data import nothing_is_prepared, with_data
from tests.tiny_run import PAIRS, write_pairs
from tf_transformer import experiment
from tf_transformer.data.lines import LineFile
from tf_transformer.data.prepared import preparing
from tf_transformer.experiment import preparing as experiment_preparing
from tf_transformer.experiment import vocabulary
from tf_transformer.tokenizers import TokenizerPair


def passes_over_files(monkeypatch):
    """From now on, counts how often each open file of text is read."""
    passes, read = Counter(), LineFile.__iter__

    def counted(file):
        passes[file] += 1
        return read(file)

    monkeypatch.setattr(LineFile, "__iter__", counted)
    return passes


def test_another_vocabulary_is_learned_where_the_recipe_or_the_text_has_changed(short, tmp_path):
    shared = with_data(short, prepared=str(tmp_path / "shared"))
    experiment.prepare(shared, tmp_path / "run", Console(quiet=True))
    learned = (tmp_path / "shared" / "tokenizer" / "joint.model").read_bytes()
    smaller = shared.model_copy(update={"tokenizer": shared.tokenizer.model_copy(update={"vocab_size": 400})})
    experiment.prepare(smaller, tmp_path / "run", Console(quiet=True))
    assert (tmp_path / "shared" / "tokenizer" / "joint.model").read_bytes() != learned
    experiment.prepare(shared, tmp_path / "run", Console(quiet=True))
    assert (tmp_path / "shared" / "tokenizer" / "joint.model").read_bytes() == learned
    write_pairs(tmp_path, [*PAIRS[:-1], ("Zebras zoom.", "Zebras zoomen.")])
    experiment.prepare(shared, tmp_path / "run", Console(quiet=True))
    assert (tmp_path / "shared" / "tokenizer" / "joint.model").read_bytes() != learned


def test_a_damaged_vocabulary_is_learned_again_and_one_is_read_by_many_at_once(short, tmp_path, console, monkeypatch):
    shared = with_data(short, prepared=str(tmp_path / "shared"))
    experiment.prepare(shared, tmp_path / "run", console)
    before = contents(tmp_path / "shared")
    (tmp_path / "shared" / "tokenizer" / "joint.model").write_bytes(b"")
    experiment.prepare(shared, tmp_path / "run", console)
    assert "tokenizer: the learned vocabulary is damaged; learning it again" in console.file.getvalue()
    assert contents(tmp_path / "shared") == before

    class NobodyWaits(Console):
        def print(self, told, **how):
            assert "waiting" not in told

    nothing_is_prepared(monkeypatch)
    with preparing.locked(tmp_path / "shared", console, shared=True):  # by another that checks what lies there
        experiment.prepare(shared, tmp_path / "run", NobodyWaits())


def test_of_copied_files_nothing_is_learned_or_tokenised_again(short, tmp_path, console, monkeypatch):
    """Unless other texts were prepared since, here as by a fine-tuning that keeps the tokenizers of its origin."""
    here = with_data(short, prepared=str(tmp_path / "shared"))
    experiment.prepare(here, tmp_path / "run", Console(quiet=True))
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "shared", copy / "shared")
    for path in tmp_path.glob("*.[de]?"):
        shutil.copyfile(path, copy / path.name)
    copied = with_data(short, root=str(copy), prepared=str(copy / "shared"))
    with monkeypatch.context() as patch:
        nothing_is_prepared(patch)
        passes = passes_over_files(patch)
        experiment.prepare(copied, tmp_path / "run", console)
        assert set(passes.values()) == {1}  # for the vocabulary and for the pairs alike
        patch.setattr(vocabulary, "fingerprint", None)  # the second time nothing is read
        experiment.prepare(copied, tmp_path / "run", console)
    assert "again" not in console.file.getvalue()
    kept = TokenizerPair.load(copy / "shared" / "tokenizer")
    write_pairs(copy, [*PAIRS[:-1], ("Zebras zoom.", "Zebras zoomen.")])
    with monkeypatch.context() as patch:
        patch.setattr(experiment_preparing, "learned_tokenizers", lambda *given: kept)
        experiment.prepare(copied, tmp_path / "run", Console(quiet=True))
    experiment.prepare(copied, tmp_path / "run", console)
    assert "tokenizer: the learned vocabulary differs in the text files; learning it again" in console.file.getvalue()
    assert not TokenizerPair.load(copy / "shared" / "tokenizer").same_as(kept)
