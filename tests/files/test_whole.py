"""Files that are written whole: what is told where they can't be, and file systems without hard links."""

import errno
import os
from pathlib import Path

import pytest

from tests.cli.command import contents
from tf_transformer.errors import UserError
from tf_transformer.files.whole import (
    folder_written_new,
    folder_written_once,
    folder_written_whole,
    sync,
    written_at_end,
    written_new,
    written_once,
    written_whole,
)


@pytest.mark.parametrize("written", [written_whole, written_once, written_new])
@pytest.mark.parametrize(
    ("name", "told"),
    [("file/notes", "Not a directory"), ("no/notes", "No such file"), ("n" * 250, "File name too long")],
    ids=["in a file", "in no folder", "long"],
)
def test_what_can_t_even_be_begun_is_told_of_its_own_name(tmp_path, written, name, told):
    (tmp_path / "file").write_text("here before")
    path = tmp_path / name
    with pytest.raises(UserError) as raised, written(path, "the notes", "try again") as partial:
        partial.write_text("whole")
    assert str(raised.value).startswith(f"{path}: the notes can't be written: {told}")
    assert contents(tmp_path) == {"file": b"here before"}


def no_links(number):
    def link(source, target):
        raise OSError(number, os.strerror(number))

    return link


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_without_hard_links_the_first_stays_too(tmp_path, monkeypatch, number):
    monkeypatch.setattr("tf_transformer.files.whole.os.link", no_links(number))
    path = tmp_path / "notes"
    for text in "first", "second":
        with written_once(path, "the notes") as partial:
            partial.write_text(text)
    assert contents(tmp_path) == {"notes": b"first"}
    with written_once(tmp_path / "others", "the notes") as partial:
        partial.write_text("slow")
        monkeypatch.setattr("tf_transformer.files.whole.Path.exists", lambda path: False)  # it comes after the look
        (tmp_path / "others").write_text("quick")
    assert contents(tmp_path) == {"notes": b"first", "others": b"quick"}


def no_sync(number, of_what):
    """An `os.fsync` that fails for what is of some kind: `os.path.isdir` or `os.path.isfile`."""

    def fsync(descriptor):
        if of_what(descriptor):
            raise OSError(number, os.strerror(number))

    return fsync


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_where_folders_are_not_synced_all_is_written(tmp_path, monkeypatch, number):
    """Of a file that is not synced nobody knows whether it is there."""
    monkeypatch.setattr("tf_transformer.files.whole.os.fsync", no_sync(number, os.path.isdir))
    for written in written_whole, written_once, written_new:
        with written(tmp_path / written.__name__, "the notes") as partial:
            partial.write_text("whole")
    with folder_written_once(tmp_path / "folder", tmp_path / ".partial", "the notes") as partial:
        (partial / "text").write_text("whole")
    with folder_written_whole(tmp_path / "other") as partial:
        (partial / "text").write_text("whole")
    files = ("written_whole", "written_once", "written_new", "folder/text", "other/text")
    assert contents(tmp_path) == {"folder": None, "other": None, **dict.fromkeys(files, b"whole")}
    monkeypatch.setattr("tf_transformer.files.whole.os.fsync", no_sync(number, os.path.isfile))
    with pytest.raises(OSError):
        sync(tmp_path / "written_whole")


def test_another_failure_to_sync_a_folder_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("tf_transformer.files.whole.os.fsync", no_sync(errno.EIO, os.path.isdir))
    told = pytest.raises(UserError, match="can't be written: Input/output error")
    with told, written_whole(tmp_path / "notes", "the notes") as partial:
        partial.write_text("whole")


def test_what_fails_after_its_name_was_taken_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tf_transformer.files.whole.os.link", no_links(errno.EPERM))
    monkeypatch.setattr("tf_transformer.files.whole.Path.replace", lambda *paths: no_links(errno.EIO)(*paths))
    told = pytest.raises(UserError, match="can't be written: Input/output error")
    with told, written_once(tmp_path / "notes", "the notes") as partial:
        partial.write_text("whole")
    assert contents(tmp_path) == {}


def test_a_folder_that_can_not_be_replaced_keeps_its_name(tmp_path, monkeypatch):
    with folder_written_whole(tmp_path / "folder") as partial:
        (partial / "text").write_text("old")
    renames = iter([False, True, False])  # away with the old; the new one, which fails; the old one back
    rename = Path.rename

    def some(path, target):
        return no_links(errno.EIO)(path, target) if next(renames) else rename(path, target)

    monkeypatch.setattr("tf_transformer.files.whole.Path.rename", some)
    with pytest.raises(OSError, match="Input/output"), folder_written_whole(tmp_path / "folder") as partial:
        (partial / "text").write_text("new")
    assert contents(tmp_path) == {"folder": None, "folder/text": b"old"}


def test_another_failure_to_link_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("tf_transformer.files.whole.os.link", no_links(errno.EDQUOT))
    told = pytest.raises(UserError, match="can't be written: Disk quota exceeded")
    with told, written_once(tmp_path / "notes", "the notes") as partial:
        partial.write_text("whole")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without links"])
def test_a_new_file_is_its_own_or_an_error(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr("tf_transformer.files.whole.os.link", no_links(errno.EPERM))
    with written_new(tmp_path / "notes", "the notes") as partial:
        partial.write_text("new")
    told = pytest.raises(UserError, match="others: the notes can't be written: another command has created this file")
    with told, written_new(tmp_path / "others", "the notes") as partial:
        partial.write_text("slow")
        (tmp_path / "others").write_text("quick")
    assert contents(tmp_path) == {"notes": b"new", "others": b"quick"}


def test_text_written_at_the_end_replaces_no_other(tmp_path):
    told = pytest.raises(UserError, match="notes: the notes can't be written: another command has created this file")
    with told, written_at_end(tmp_path / "notes", "the notes") as file:
        print("slow", file=file)
        (tmp_path / "notes").write_text("quick")
    assert contents(tmp_path) == {"notes": b"quick"}


def test_what_a_killed_process_left_is_in_no_folder_s_way(tmp_path):
    """In a container each process may have the same number."""

    def killed():
        with folder_written_new(tmp_path / "model", "the model") as partial:
            (partial / "weights").write_text("half")
            yield

    process = killed()
    next(process)  # and never goes on
    left = contents(tmp_path)
    with folder_written_new(tmp_path / "model", "the model") as partial:
        (partial / "weights").write_text("whole")
    assert contents(tmp_path) == left | {"model": None, "model/weights": b"whole"}


def test_a_new_folder_replaces_no_other(tmp_path):
    told = pytest.raises(UserError, match="model: the model can't be written: Directory not empty; try again$")
    with told, folder_written_new(tmp_path / "model", "the model", "try again") as partial:
        (partial / "weights").write_text("slow")
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "weights").write_text("quick")
    kept = {"model": None, "model/weights": b"quick"}
    assert contents(tmp_path) == kept
    (tmp_path / "empty").mkdir()
    with folder_written_new(tmp_path / "empty", "the model") as partial:
        (partial / "weights").write_text("whole")
    with pytest.raises(KeyError), folder_written_new(tmp_path / "other", "the model") as partial:
        raise KeyError
    assert contents(tmp_path) == kept | {"empty": None, "empty/weights": b"whole"}


@pytest.mark.parametrize("there", [True, False])
def test_a_link_to_an_empty_folder_stays_a_link(tmp_path, there):
    """Also where it names a folder that is not there yet."""
    if there:
        (tmp_path / "disk").mkdir()
    (tmp_path / "model").symlink_to(tmp_path / "disk")
    with folder_written_new(tmp_path / "model", "the model") as partial:
        (partial / "weights").write_text("whole")
    assert (tmp_path / "model").is_symlink() and (tmp_path / "model" / "weights").read_text() == "whole"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "model"]


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    folder = tmp_path / "model"
    for left in ".partial-model", ".replaced-model":  # of processes that were killed
        (tmp_path / left).mkdir()
        (tmp_path / left / "half").touch()
    with folder_written_whole(folder) as partial:
        (partial / "weights").write_text("old")
        (partial / "more").touch()
    with (folder / "weights").open() as reader:
        with folder_written_whole(folder) as partial:
            (partial / "weights").write_text("new")
            assert (folder / "weights").read_text() == "old"
        assert reader.read() == "old"
    new = {"model": None, "model/weights": b"new"}
    assert contents(tmp_path) == new
    with pytest.raises(KeyError), folder_written_whole(folder) as partial:
        (partial / "weights").write_text("half")
        raise KeyError
    assert contents(tmp_path) == new
    with pytest.raises(NotADirectoryError), folder_written_whole(folder / "weights" / "model"):
        pass
    assert contents(tmp_path) == new


def test_a_link_to_a_folder_stays_a_link_each_time_that_it_is_replaced(tmp_path):
    (tmp_path / "train").symlink_to(tmp_path / "disk")
    for text in "first", "second", "third":
        with folder_written_whole(tmp_path / "train") as partial:
            (partial / "ids").write_text(text)
        assert (tmp_path / "train").is_symlink() and (tmp_path / "train" / "ids").read_text() == text
        assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "train"]
