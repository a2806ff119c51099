"""The commands of docs/serving.md, on a real server."""

import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bounded import SECONDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(?:curl|python) .*$", PAGE, re.M)


def test_the_page_has_commands():
    assert len(COMMANDS) >= 8


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_answered(server, command):
    port = server.url.rpartition(":")[2]
    words = shlex.split(command.replace(":8501", f":{port}").replace("models/demo", "models/tiny"))
    if words[0] == "python":
        words = [sys.executable, *words[1:], "--port", port, "--model", "tiny"]
    process = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip()
    assert '"error"' not in process.stdout


def test_the_units_start_what_there_is():
    unit = (ROOT / "serving" / "tf-transformer.service").read_text(encoding="utf-8")
    (started,) = re.findall(r"^ExecStart=\S+/tf-transformer (\w+)", unit, re.M)
    image = (ROOT / "serving" / "Dockerfile").read_text(encoding="utf-8")
    assert f'ENTRYPOINT ["tf-transformer", "{started}", "--host", "0.0.0.0"]' in image
    assert "USER 65532" in image
    for source in re.findall(r"^COPY (.*) \S+$", image, re.M):
        assert all((ROOT / path).exists() for path in source.split())


def test_the_unit_leaves_the_metrics_of_the_process_what_they_are_read_from():
    """Prometheus's client library gives none without the time since boot, of /proc/stat."""
    unit = (ROOT / "serving" / "tf-transformer.service").read_text(encoding="utf-8")
    assert not re.search(r"^ProcSubset=pid", unit, re.M)


def test_the_unit_lets_a_machine_of_many_cores_have_its_threads():
    """About five a core, with one model."""
    unit = (ROOT / "serving" / "tf-transformer.service").read_text(encoding="utf-8")
    (tasks,) = re.findall(r"^TasksMax=(\d+)", unit, re.M)
    assert int(tasks) > 5 * 512


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_the_unit_is_one_and_hardened(tmp_path):
    unit = (ROOT / "serving" / "tf-transformer.service").read_text(encoding="utf-8")
    copy = tmp_path / "tf-transformer.service"
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit, flags=re.M))
    for words in (["verify"], ["security", "--offline=true", "--threshold=20"]):
        process = subprocess.run(["systemd-analyze", *words, copy], capture_output=True, text=True, timeout=SECONDS)
        assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="knows the calls of x86-64 Linux")
def test_the_unit_s_filter_lets_numpy_be_loaded():
    """Whose library tries a call of @resources."""
    unit = (ROOT / "serving" / "tf-transformer.service").read_text(encoding="utf-8")
    assert "@resources" in unit
    verdict = re.findall(r"^SystemCallErrorNumber=(\w+)", unit, re.M)
    words = [sys.executable, "-m", "tests.server.forbidden_calls", *verdict]
    process = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert (process.returncode, process.stdout) == (0, "27000000.0\n"), process.stderr
