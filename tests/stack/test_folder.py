"""The private folder."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from tokenweir.stack.failure import LogFolderError
from tokenweir.stack.folder import MAX_SOCKET_PATH_BYTES, StateFolder


def test_a_folder_is_private_and_goes() -> None:
    """Only its owner can enter, and nothing is left of it."""
    with StateFolder() as folder:
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        assert stat.S_IMODE(folder.logs.stat().st_mode) == 0o700
        folder.policy.write_text("version: 1")

    assert not folder.path.exists()


def test_logs_can_stay(tmp_path: Path) -> None:
    """A folder for logs that was asked for is made, and stays."""
    logs = tmp_path / "a" / "b"
    with StateFolder(logs) as folder:
        folder.log("envoy").write_text("a line")

    assert (logs / "envoy.log").read_text() == "a line"
    assert not folder.path.exists()


def test_logs_that_can_not_be_made_leave_nothing(tmp_path: Path) -> None:
    """If the logs' folder is impossible, the private one goes at once."""
    (tmp_path / "file").touch()
    folder = StateFolder(tmp_path / "file" / "logs")

    with pytest.raises(LogFolderError, match=r"not a directory\. Name another"), folder:
        raise AssertionError

    assert not folder.path.exists()


def test_sockets_fit_into_their_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is too deep for a unix socket is passed over."""
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with StateFolder() as folder:
        paths = [folder.ledger, folder.envoy_admin, folder.processor(999)]

        assert all(len(str(path).encode()) <= MAX_SOCKET_PATH_BYTES for path in paths)
    assert list(deep.iterdir()) == []


def test_nothing_is_in_the_same_place() -> None:
    """Every socket and file has a path of its own."""
    with StateFolder() as folder:
        paths = [
            folder.policy,
            folder.envoy_config,
            folder.envoy_admin,
            folder.ledger,
            folder.processor(0),
            folder.processor(1),
        ]

        assert len(set(paths)) == len(paths)
        assert {path.parent for path in paths} == {folder.path}
