"""A recipe, a model or an archive from a stranger: nothing in it is run, and nothing is written outside its folder."""

import ast
import json
import re
import zipfile
from pathlib import Path

import keras
import pytest
import yaml

import tf_transformer
from tests.cli.command import contents
from tests.mistakes import refused
from tests.tiny_run import RECIPE, tiny_run
from tf_transformer.files.model_formats import OPTIONS_FILE
from tf_transformer.marian.folder import read_config
from tf_transformer.model_card.files import FACTS, read_card
from tf_transformer.recipe import load_recipe, reading
from tf_transformer.runs.directory import CARD
from tf_transformer.runs.loading import load_model
from tf_transformer.shards.manifest import MANIFEST, check_folder
from tf_transformer.tokenizers import TokenizerPair
from tf_transformer.translation.loading import known_options

SOURCES_FOLDER = Path(tf_transformer.__file__).parent
SOURCES = sorted(SOURCES_FOLDER.rglob("*.py"))


# -- the package's own source ----


def is_call(node: ast.AST, *names: str) -> bool:
    """Whether it calls one of these, by the name that stands last."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    return name in names


def dangers(source: str) -> list[str]:
    """What in a program may run, or write anywhere, what a file says."""
    found = []
    for node in ast.walk(ast.parse(source)):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        found += {"pickle", "cPickle", "dill", "marshal", "shelve", "joblib", "tarfile"} & set(modules)
        builtin = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if builtin and is_call(node, "eval", "exec", "compile", "__import__"):
            found.append(node.func.id)
        if is_call(
            node, "unsafe_load", "full_load", "enable_unsafe_deserialization", "system", "extract", "extractall"
        ):
            found.append(ast.unparse(node.func))
        if is_call(node, "load_all") or (is_call(node, "load") and ast.unparse(node.func) == "yaml.load"):
            loaders = [ast.unparse(argument) for argument in (*node.args[1:], *(k.value for k in node.keywords))]
            found += ["yaml.load"] if loaders != ["_Loader"] else []
        for keyword in getattr(node, "keywords", []):
            told = keyword.arg, getattr(keyword.value, "value", None)
            if told in (("allow_pickle", True), ("safe_mode", False), ("shell", True)):
                found.append(keyword.arg)
    return found


# PyTorch's files are pickles. The reader knows the names of tensors alone, which tests/marian/test_pickled.py attacks.
READS_PICKLES = Path("marian", "pickled.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_source_runs_nothing_that_a_file_says(path):
    source = path.read_text(encoding="utf-8")
    if path == SOURCES_FOLDER / READS_PICKLES:
        assert dangers(source) == ["pickle"]
        assert set(re.findall(r"pickle\.(\w+)", source)) <= {"Unpickler", "UnpicklingError"}
    else:
        assert dangers(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "eval(text)",
        "np.load(file, allow_pickle=True)",
        "yaml.load(text, yaml.Loader)",
        "yaml.load(text, Loader=yaml.UnsafeLoader)",
        "yaml.unsafe_load(text)",
        "keras.saving.load_model(file, safe_mode=False)",
        "keras.config.enable_unsafe_deserialization()",
        "archive.extractall(folder)",
        "subprocess.run(text, shell=True)",
    ],
)
def test_the_search_would_find_it(source):
    assert len(dangers(source)) == 1


# -- recipes ----


def test_the_recipes_loader_is_a_safe_one():
    assert issubclass(reading._Loader, yaml.SafeLoader)
    assert reading._Loader.yaml_constructors is yaml.SafeLoader.yaml_constructors


TAGS = [
    "!!python/object/apply:os.system ['touch {}']",
    "!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{}']]",
    "!!python/object/new:os.system ['touch {}']",
    "!!python/object:subprocess.Popen {{args: [touch, '{}']}}",
    "!!python/name:os.system",
    "!!python/module:os",
    "!!python/tuple [1, 2]",
]


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("way", ["a recipe", "one that it extends", "an override"])
def test_a_tag_that_makes_an_object_runs_nothing(tmp_path, tag, way):
    made = tmp_path / "made"
    evil = tag.format(made)
    path = tmp_path / "evil.yaml"
    path.write_text(f"name: {evil}\n")
    if way == "an override":
        message = refused(load_recipe, RECIPE, [f"name={evil}"])
    elif way == "one that it extends":
        (tmp_path / "good.yaml").write_text("extends: evil.yaml\n")
        message = refused(load_recipe, tmp_path / "good.yaml")
    else:
        message = refused(load_recipe, path)
    assert "could not determine a constructor for the tag" in message
    assert not made.exists()


def test_pyyaml_would_have_run_it(tmp_path):
    """The tags above are no dead ones."""
    yaml.unsafe_load(TAGS[0].format(tmp_path / "made"))
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize("content", ["a: " + 600 * "[" + 600 * "]", "a: " + 600 * "{a: " + 600 * "}", "- " * 600])
def test_a_recipe_nested_without_end(tmp_path, content):
    (tmp_path / "deep.yaml").write_text(content)
    assert "not valid YAML" in refused(load_recipe, tmp_path / "deep.yaml")


def _card(path: Path) -> None:
    (path / "model.bin").touch()
    (path / CARD).touch()
    read_card(path)


NESTED = {
    "a run's tokenizer": ("tokenizer.json", TokenizerPair.load),
    "a MarianMT model": ("config.json", read_config),
    "a model card": (FACTS, _card),
    "a SavedModel": (f"assets.extra/{OPTIONS_FILE}", known_options),
    "shards": (MANIFEST, lambda path: check_folder(path, {})),
}


@pytest.mark.parametrize("what", NESTED)
def test_json_nested_without_end(tmp_path, what):
    name, load = NESTED[what]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"[" * 100_000)
    message = refused(load, tmp_path)
    assert str(tmp_path) in message and "\n" not in message


def test_a_recipe_that_grows_without_end(tmp_path):
    """Ten of ten of ten ... written out it would fill any memory."""
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)), "name: *a29"]
    (tmp_path / "laughs.yaml").write_text("\n".join(lines))
    assert "unknown key a0" in refused(load_recipe, tmp_path / "laughs.yaml")


@pytest.mark.parametrize(
    "name", ["..", ".", "../x", "/tmp/x", "a/b", "a\\b", "~", "a\0b", "a\nb", "", "-rf", "a/../../b", ".hidden", "a..b"]
)
def test_a_name_leads_out_of_no_folder(name):
    assert "name" in refused(load_recipe, RECIPE, [f"name={json.dumps(name)}"])


@pytest.mark.parametrize("dataset", ["huggingface:glue", "huggingface:a/b", "kaggle:x", "some-one:their_set/de-en"])
def test_a_dataset_whose_program_would_be_fetched(dataset):
    words = ["data.kind=tfds", f"data.dataset={dataset}", "data.train=train", "data.validation=validation"]
    assert "without a namespace: else its program would be fetched and run" in refused(load_recipe, RECIPE, words)


@pytest.mark.parametrize("dataset", ["wmt14_translate/de-en", "wmt14_translate/de-en:1.0.0", "para_crawl:1.2.0"])
def test_a_dataset_with_a_version_is_no_such(dataset):
    words = ["data.kind=tfds", f"data.dataset={dataset}", "data.train=train", "data.validation=validation"]
    assert load_recipe(RECIPE, [*words, "data.test=null"]).data.dataset == dataset


# -- models ----


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> dict[str, bytes]:
    """What is in a checkpoint."""
    with zipfile.ZipFile(tiny_run(tmp_path_factory.getbasetemp()).best_checkpoint()) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, parts: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def test_a_model_with_a_program_in_it_is_refused(tmp_path):
    made = tmp_path / "made"
    # From its text: Keras saves a function without what it takes from around it.
    run = keras.layers.Lambda(eval(f"lambda x: (open({str(made)!r}, 'w').close(), x)[1]"))
    path = tmp_path / "evil.keras"
    keras.Sequential([keras.Input([2]), run]).save(path)
    made.unlink()
    message = refused(load_model, path)
    assert message.startswith(f"{path}: ") and "Lambda" in message
    assert not made.exists()
    keras.saving.load_model(path, safe_mode=False)
    assert made.exists()  # it is no dead one


@pytest.mark.parametrize("place", ["the model", "d_model", "dtype"])
@pytest.mark.parametrize(
    "evil",
    [
        {"module": "os", "class_name": "system", "config": "touch {}", "registered_name": None},
        {"module": "subprocess", "class_name": "Popen", "config": {"args": ["touch", "{}"]}, "registered_name": None},
        {"module": "builtins", "class_name": "function", "config": "os.system", "registered_name": "function"},
        {"class_name": "__lambda__", "config": {"value": "4wAAAAA="}},
    ],
)
def test_a_model_that_names_others_programs_is_refused(parts, tmp_path, evil, place):
    made = tmp_path / "made"
    evil = json.loads(json.dumps(evil).replace("{}", str(made)))
    config = json.loads(parts["config.json"])
    if place == "the model":
        config = evil
    else:
        config["config"][place] = evil
    path = write(tmp_path / "evil.keras", {**parts, "config.json": json.dumps(config).encode()})
    assert re.match(rf"{re.escape(str(path))}: ", refused(load_model, path))
    assert not made.exists()


@pytest.mark.filterwarnings("ignore:Skipping invalid path:UserWarning")
def test_names_in_a_model_lead_out_of_no_folder(parts, tmp_path):
    """Keras unpacks an archive that has more in it than it needs."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    evil = ["../escaped", "assets/../../escaped", str(tmp_path / "escaped"), "..\\escaped"]
    path = write(inner / "evil.keras", {**parts, **dict.fromkeys(evil, b"evil")})
    before = contents(tmp_path)
    assert load_model(path).d_model == 32
    assert contents(tmp_path) == before
    assert not list(Path("/tmp").glob("escaped"))
