"""A folder has one writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenweir.export.folder_lock import FolderLock
from tokenweir.export.sink import SinkUnavailableError, SinkUnusableError


def test_one_at_a_time(tmp_path: Path) -> None:
    """The second is kept out until the first has left."""
    first, second = FolderLock(tmp_path / "a" / "b"), FolderLock(tmp_path / "a" / "b")
    first.acquire()
    first.acquire()
    with pytest.raises(SinkUnavailableError, match="another exporter"):
        second.acquire()
    first.release()
    first.release()
    second.acquire()
    second.release()


def test_a_folder_that_can_not_be(tmp_path: Path) -> None:
    """A folder that can't be made is told of, and what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(SinkUnusableError, match="Give a folder"):
        FolderLock(tmp_path / "file" / "a").acquire()
