"""Checksums of a folder: what they find, and what `sha256sum` makes of them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tf_transformer.errors import UserError
from tf_transformer.files.checksums import CHECKSUMS, check_checksums, write_checksums


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "inner").mkdir()
    (tmp_path / "letter.txt").write_bytes(b"dear")
    (tmp_path / "inner" / "빈 칸.bin").write_bytes(bytes(range(256)))
    write_checksums(tmp_path)
    return tmp_path


def told(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        check_checksums(folder, "copy it again")
    message = str(caught.value)
    assert message.endswith("; copy it again") and "\n" not in message
    return message


def test_whole_files_pass_and_so_does_a_folder_of_an_earlier_version(folder):
    check_checksums(folder, "")
    (folder / "more.txt").write_text("not listed")
    check_checksums(folder, "")
    (folder / "letter.txt").write_bytes(b"bear")
    (folder / CHECKSUMS).unlink()
    check_checksums(folder, "")


@pytest.mark.parametrize("name", ["letter.txt", "inner/빈 칸.bin"])
def test_what_is_damaged_or_gone_is_told_by_name(folder, name):
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole + b"\n")
    assert told(folder).startswith(f"{folder / name}: damaged, ")
    (folder / name).unlink()
    assert told(folder).startswith(f"{folder / name}: can't be read (No such file or directory)")


def test_sha256sum_checks_the_same(folder):
    if not shutil.which("sha256sum"):
        pytest.skip("needs sha256sum")
    assert subprocess.run(["sha256sum", "--strict", "-c", CHECKSUMS], cwd=folder, capture_output=True).returncode == 0
    (folder / "letter.txt").write_bytes(b"bear")
    assert subprocess.run(["sha256sum", "--strict", "-c", CHECKSUMS], cwd=folder, capture_output=True).returncode == 1


ZEROS = "0" * 64


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 100,
        b"\xff\n",
        b"\n",
        ZEROS.encode(),
        f"{ZEROS}  letter.txt".encode(),  # the line is not ended
        f"{ZEROS} letter.txt\n".encode(),
        f"{ZEROS}0  letter.txt\n".encode(),
        f"{ZEROS}  ../letter.txt\n".encode(),
        f"{ZEROS}  /dev/zero\n".encode(),  # whose sum is never done
        f"{ZEROS}  a\0b\n".encode(),
    ],
)
def test_a_damaged_list_of_checksums_is_told(folder, content):
    (folder / CHECKSUMS).write_bytes(content)
    assert told(folder).startswith(f"{folder / CHECKSUMS}: ")
