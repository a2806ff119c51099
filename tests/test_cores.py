"""How many CPUs a process may use: what it is bound to, and the quota of its container."""

import pytest

from tf_transformer import cores as module
from tf_transformer.cores import cores


@pytest.fixture
def quotas(tmp_path, monkeypatch):
    """Writes the line that names the process's group, and the quota of groups by their paths. It is bound to 64."""
    monkeypatch.setattr(module, "bound_cores", lambda: 64)
    monkeypatch.setattr(module, "OWN_GROUP", tmp_path / "self")
    monkeypatch.setattr(module, "GROUPS", tmp_path / "groups")

    def write(own, files):
        (tmp_path / "self").write_text(f"1:cpu:/other\n{own}\n")
        for group, quota in files.items():
            folder = tmp_path / "groups" / group
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cpu.max").write_text(quota)

    return write


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {".": "400000 100000\n"}, 4),
        ("0::/", {".": "250000 100000\n"}, 3),
        ("0::/", {".": "1000 100000\n"}, 1),
        ("0::/", {".": "12800000 100000\n"}, 64),
        ("0::/", {".": "max 100000\n"}, 64),
        ("0::/pod/main", {"pod/main": "200000 100000", "pod": "700000 100000", "other": "100000 100000"}, 2),
        ("0::/pod/main", {"pod/main": "max 100000", "pod": "700000 100000"}, 7),
        ("0::/../elsewhere", {".": "500000 100000"}, 5),
        ("0::/gone (deleted)", {".": "max 100000"}, 64),
        ("0::/", {}, 64),
        ("2:cpu:/", {".": "400000 100000"}, 64),
        ("0::/", {".": ""}, 64),
        ("0::/", {".": "400000 0"}, 64),
        ("0::/", {".": "many CPUs"}, 64),
        ("0::/", {".": "0 100000"}, 1),
    ],
)
def test_a_quota_counts_where_it_is_lower(quotas, own, files, expected):
    quotas(own, files)
    assert cores() == expected


def test_without_control_groups_all_cores_count(quotas):
    assert cores() == 64
