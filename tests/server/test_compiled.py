"""A server of a model whose search XLA compiles."""

import pytest

from tests.server.running import serving
from tf_transformer.experiment.exporting import export_run


@pytest.mark.slow
def test_the_next_server_compiles_nothing_again(tiny_run_directory, tmp_path, monkeypatch):
    monkeypatch.delenv("TF_XLA_FLAGS", raising=False)
    export_run(tiny_run_directory, tmp_path / "tiny", compiled=True)

    def serve():
        with serving(tmp_path, tmp_path / "tiny", XDG_CACHE_HOME=str(tmp_path / "cache")) as running:
            assert running.end() == 0
        programs = list((tmp_path / "cache" / "tf_transformer" / "xla").glob("*/*"))
        return {program.name: program.stat().st_mtime_ns for program in programs}

    first = serve()
    assert first
    assert serve() == first
