"""Where others run it: blanks and Korean letters in paths, no home, no network, an ASCII locale, read-only folders."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bounded import SECONDS
from tests.cli import several_commands
from tests.cli.command import COMMAND, Outcome, assert_mistake, contents
from tests.tiny_run import PAIRS, RECIPE, settings, write_pairs

# As a plain server has it. Python is told not to help itself with UTF-8.
ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def works(*words: str) -> bool:
    """Whether a command of Linux is there and may be used here."""
    if not shutil.which(words[0]):
        return False
    return subprocess.run([*words, "true"], capture_output=True, timeout=240).returncode == 0


def run_all(folder: Path, commands: list[list], within: list[str], **environment: str | None) -> list[dict]:
    """Runs commands in one process within others' surroundings; a variable that is None is taken out."""
    question, answers = folder / "commands.json", folder / "outcomes.json"
    question.write_text(json.dumps([[str(word) for word in words] for words in commands]), encoding="utf-8")
    root = str(Path(__file__).parents[2])
    chosen = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path]), **environment}
    process = subprocess.run(
        [*within, sys.executable, several_commands.__file__, question, answers],
        cwd=folder,
        env={name: value for name, value in chosen.items() if value is not None},
        capture_output=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr.decode("utf-8", "replace")
    return json.loads(answers.read_text(encoding="utf-8"))


def assert_one_line(outcome: dict, *told: str) -> None:
    assert_mistake(Outcome(outcome["status"], outcome["out"].encode(), outcome["err"]), *told)


# -- strange names, no home, no network, no UTF-8 ----


@pytest.fixture(scope="module")
def korean(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("surroundings") / "나의 작업"
    data = folder / "말뭉치 하나"
    data.mkdir(parents=True)
    source, _ = write_pairs(data)
    source.rename(data / "영어 글.en")
    shutil.copy(RECIPE, folder / "조리 법.yaml")
    return folder


@pytest.fixture(scope="module")
def outcomes(korean, tmp_path_factory) -> dict[str, dict]:
    """All commands, by a user whom the system does not know, who has no home, no network, and another Keras."""
    data = korean / "말뭉치 하나"
    source = data / "영어 글.en"
    both = "[영어 글.en, pairs.de]"
    sizes = {"tokenizer__vocab_size": 330, "model__d_model": 16, "evaluation__beam_size": 1}
    small = {"training__steps": 2, "training__validate_every": 2, **sizes}
    chosen = settings(data, **{f"data__{split}": both for split in ("train", "validation", "test")}, **small)
    run, export = korean / "첫 실행", korean / "내보낸 것"
    settings_of_keras = tmp_path_factory.mktemp("keras")
    told = {"floatx": "float16", "epsilon": 1e-7, "backend": "torch", "image_data_format": "channels_first"}
    (settings_of_keras / "keras.json").write_text(json.dumps(told))
    commands = {
        "train": [korean / "조리 법.yaml", "--run-dir", run, *(word for each in chosen for word in ("--set", each))],
        "translate": [run, source, "--beam-size", 1],
        "evaluate": [run, "--source", source, "--reference", data / "pairs.de", "--beam-size", 1],
        "export": [run, export],
        "inspect": [export / "1", "강아지가 A man sees", "--html", korean / "쪽 하나.html"],
    }
    within = [words for words in (["unshare", "--net"], ["unshare", "--map-user=12345"]) if works(*words)]
    outcomes = run_all(
        korean,
        [[name, *words] for name, words in commands.items()],
        [word for words in within for word in words],
        HOME=None,
        XDG_CACHE_HOME=None,
        KERAS_BACKEND="no such backend",
        KERAS_HOME=str(settings_of_keras),
        **ASCII,
    )
    return dict(zip(commands, outcomes, strict=True))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["train", "translate", "evaluate", "export", "inspect"])
def test_every_command_works_in_strange_surroundings(outcomes, name):
    assert outcomes[name]["status"] == 0, outcomes[name]["err"]
    assert "Traceback" not in outcomes[name]["err"]


@pytest.mark.thorough
def test_what_they_wrote_is_where_it_was_asked_for(outcomes, korean):
    made = {"첫 실행", "내보낸 것", "쪽 하나.html"}
    given = {"말뭉치 하나", "조리 법.yaml", "commands.json", "outcomes.json"}
    assert {path.name for path in korean.iterdir()} == made | given
    assert outcomes["export"]["out"] == f"{korean / '내보낸 것' / '1'}\n"
    assert (korean / "첫 실행" / "checkpoints" / "best.keras").is_file()
    assert list((korean / "첫 실행" / "logs").rglob("events.*"))
    assert "강아지가" in (korean / "쪽 하나.html").read_text(encoding="utf-8")
    assert outcomes["translate"]["out"].count("\n") == len(PAIRS)
    scores = json.loads((korean / "첫 실행" / "scores.json").read_text(encoding="utf-8"))
    assert scores["source"] == str(korean / "말뭉치 하나" / "영어 글.en")


@pytest.mark.parametrize(
    "encoding",
    [ASCII, pytest.param({"LC_ALL": "C", "PYTHONUTF8": "1"}, marks=pytest.mark.thorough), {"LC_ALL": "C"}],
)
def test_the_command_itself_tells_a_korean_path_in_any_locale(korean, encoding):
    """A real process of its own: the words of the command line come in the locale's encoding."""
    environment = {name: value for name, value in os.environ.items() if name not in ASCII}
    words = [COMMAND, "train", korean / "조리 법.yaml", "--set", "data.root=강아지", "--set", "model.num_heads=5"]
    process = subprocess.run(words, env={**environment, **encoding}, capture_output=True, timeout=SECONDS)
    assert (process.returncode, process.stdout) == (2, b"")
    assert process.stderr.decode("utf-8").count("\n") == 1
    words = [COMMAND, "train", korean / "없는 법.yaml"]
    process = subprocess.run(words, env={**environment, **encoding}, capture_output=True, timeout=SECONDS)
    assert process.stderr.decode("utf-8").startswith(f"tf-transformer: {korean / '없는 법.yaml'}: there is no such")


def test_pictures_are_not_drawn_as_a_notebook_says(command, monkeypatch):
    """Matplotlib reads the variable when it is imported, which fails if there is no such package."""
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    assert command("presets").status == 0
    assert os.environ["MPLBACKEND"] == "agg"


# -- read-only ----


def read_only(folder: Path) -> list[str]:
    """What a process is started with so that a folder, for it alone, is on a disk that nobody can write to."""
    if not works("unshare", "--mount"):
        pytest.skip("needs unshare, and the right to mount")
    where = shlex.quote(str(folder))
    script = f'mount --bind {where} {where} && mount -o remount,ro,bind {where} && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


@pytest.mark.thorough
def test_a_read_only_folder(tiny_run_directory, tmp_path):
    locked = tmp_path / "locked"
    run = locked / "run"
    shutil.copytree(tiny_run_directory.path, run)
    source, target = write_pairs(locked)
    (locked / "log").mkdir()
    before = contents(locked)
    inspect = ["inspect", run, "A man sees a house."]
    commands = [
        ["translate", run, source, "--beam-size", 1],
        ["evaluate", run, "--source", source, "--reference", target, "--beam-size", 1],
        ["average", run, "--last", 2],
        ["export", run, locked / "export"],
        ["train", RECIPE, "--run-dir", locked / "another"],
        [*inspect, "--html", locked / "page.html"],
        [*inspect, "--logdir", locked / "log"],
        [*inspect, "--logdir", locked / "new" / "log"],
    ]
    # Their home is there too.
    translated, evaluated, *refused = run_all(tmp_path, commands, read_only(locked), HOME=str(locked))
    assert translated["status"] == 0
    assert translated["out"] == "".join(f"{target}\n" for _, target in PAIRS)
    # The figures are shown all the same.
    assert evaluated["out"].startswith("BLEU 100.00")
    assert_one_line(evaluated, "scores", "Read-only file system")
    for outcome, told in zip(refused, ("average", "export", "another", "page.html", "log", "log"), strict=True):
        assert_one_line(outcome, str(locked), told)
        assert outcome["status"] == 2
    assert contents(locked) == before


def test_a_home_to_write_to_is_left_as_it_is(tmp_path):
    imports = "import os\nfrom tf_transformer.terminal.process import some_home\n"
    program = f"{imports}with some_home(): print(os.environ['HOME'])"

    def home(given: str | None) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "HOME"}
        environment |= {"HOME": given} if given else {}
        words = [sys.executable, "-c", program]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240).stdout

    assert home(str(tmp_path)) == f"{tmp_path}\n"
    temporary = home(str(tmp_path / "none")).strip()
    assert temporary != str(tmp_path / "none") and not Path(temporary).exists()
