"""Mistakes that are told before a pipeline starts, in one line; Apache Beam is not needed to find them."""

import pytest

from tf_transformer.apache_beam.checks import check_on_this_machine, is_local, runs_here
from tf_transformer.errors import UserError


@pytest.fixture
def paths(tmp_path):
    """A SavedModel and a CTranslate2 model, as far as these are known without loading them, and a file."""
    for model, file in ("saved", "saved_model.pb"), ("ct2", "model.bin"):
        (tmp_path / model).mkdir()
        (tmp_path / model / file).touch()
    (tmp_path / "news.en").write_text("A dog runs.\n")
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"model": "ct2", "engine": "ctranslate2"}, None),
        ({"source": "gs://bucket/news.en", "output": "gs://bucket/news"}, None),
        ({"output": "new/folder/news"}, None),
        ({"model": "missing"}, "missing: neither a run nor a SavedModel (no such folder); give the folder of one"),
        ({"model": "ct2"}, "a CTranslate2 model; use translate or evaluate with --engine ctranslate2"),
        ({"model": "news.en"}, "news.en: a file, but a model is expected"),
        ({"model": "saved", "engine": "ctranslate2"}, "saved: not a CTranslate2 model; give a folder that"),
        ({"model": "missing", "engine": "ctranslate2"}, "missing: not a CTranslate2 model; give a folder that"),
        ({"source": "missing.en"}, "missing.en does not exist"),
        ({"source": "saved"}, "saved is not a regular file"),
        ({"output": "news.en/out"}, "news.en is not a folder you can write to; give another path"),
    ],
)
def test_what_the_workers_of_this_machine_would_stumble_over(paths, monkeypatch, changes, message):
    monkeypatch.chdir(paths)
    before = sorted(paths.rglob("*"))
    given = {"model": "saved", "engine": "tensorflow", "source": "news.en", "output": "news", **changes}
    if message is None:
        check_on_this_machine(**given)
    else:
        with pytest.raises(UserError) as raised:
            check_on_this_machine(**given)
        assert message in str(raised.value) and "\n" not in str(raised.value)
    assert sorted(paths.rglob("*")) == before


def test_where_a_pipeline_runs():
    assert all(map(runs_here, [None, "DirectRunner", "direct", "BundleBasedDirectRunner"]))
    assert not any(map(runs_here, ["DataflowRunner", "FlinkRunner", "SparkRunner", "PortableRunner"]))
    assert is_local("data/news.en") and not is_local("hdfs://host/news.en")
