"""Files that are written whole: what is told where they can't be."""

import pytest

from tests.cli.command import contents
from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_once, written_whole


@pytest.mark.parametrize("written", [written_whole, written_once])
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
