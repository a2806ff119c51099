"""A CTranslate2 folder is served as a SavedModel is, beside another model."""

import pytest

from tests.server.running import client_of, save_echo, serving_here, until
from tests.tiny_run import PAIRS
from tf_transformer.server.app import create_app
from tf_transformer.server.models import Models, find_sources
from tf_transformer.server.settings import Settings

pytest.importorskip("ctranslate2")
SOURCES, TARGETS = map(list, zip(*PAIRS[:5], strict=True))


@pytest.fixture(scope="module")
def url(tiny_run_directory, tmp_path_factory):
    """Of a server in this process."""
    from tf_transformer.experiment.exporting import export_run_ctranslate2

    folder = tmp_path_factory.mktemp("ctranslate2")
    export_run_ctranslate2(tiny_run_directory, folder / "small", "int8")
    (folder / "echo").mkdir()
    save_echo(folder / "echo" / "7", "seven")
    models = Models(find_sources([folder / "small", folder / "echo" / "7"]))
    with serving_here(create_app(models, Settings())) as (_, port):
        until(f"http://127.0.0.1:{port}/health/ready", 200)
        yield f"http://127.0.0.1:{port}"


def test_it_answers_in_both_interfaces(url):
    with client_of(url) as client:
        asked = {"q": SOURCES, "source": "en", "target": "de-AT", "alternatives": 2}
        answer = client.post("/translate", json=asked).json()
        assert answer == {"translatedText": TARGETS, "alternatives": [[]] * 5}
        rows = client.post("/v1/models/small:predict", json={"instances": SOURCES}).json()["predictions"]
        assert [row["translation"] for row in rows] == TARGETS
        assert not any(row["truncated"] for row in rows)
        metadata = client.get("/v1/models/small/metadata").json()["metadata"]["signature_def"]["signature_def"]
        assert metadata["translate"]["inputs"]["text"]["dtype"] == "DT_STRING"


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("en", "de", "a CTranslate2 model uses its export's options"),
        ("und", "und", "the model has no signature translate_with_options; leave protect out"),  # the SavedModel
    ],
)
def test_an_option_that_a_model_lacks_is_named_and_none_that_it_takes(url, source, target, why):
    with client_of(url) as client:
        asked = {"q": SOURCES, "source": source, "target": target, "alternatives": 1}
        assert client.post("/translate", json=asked).status_code == 200
        answer = client.post("/translate", json={**asked, "protect": True})
        assert (answer.status_code, answer.json()) == (400, {"error": f"protect can't be chosen: {why}"})


def test_two_models_side_by_side(url):
    with client_of(url) as client:
        told = client.post("/v1/models/echo:predict", json={"instances": ["a"]}).json()
        assert told["predictions"][0]["translation"] == "seven a"
        assert client.get("/v1/models/echo/versions/7").status_code == 200
        pairs = {(each["code"], target) for each in client.get("/languages").json() for target in each["targets"]}
        assert pairs == {("en", "de"), ("und", "und")}
        assert client.post("/detect", json={"q": "a"}).status_code == 501
        several = client.post("/translate", json={"q": "a", "source": "auto", "target": "und"})
        assert several.json()["translatedText"] == "seven a"
