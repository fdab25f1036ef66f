"""Who may open what is made while files are private."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tokenweir.transport.private_files import private_files


def mode(path: Path) -> int:
    """Create a file at *path*, and return who may do what with it."""
    path.touch(0o666)
    return stat.S_IMODE(path.stat().st_mode)


def test_private(tmp_path: Path) -> None:
    """A file belongs to this user alone, from its first moment on."""
    with private_files():
        assert mode(tmp_path / "private") == 0o600


def test_later(tmp_path: Path) -> None:
    """What is created later has the rights that it would have had, also after errors."""
    before = mode(tmp_path / "before")
    with pytest.raises(OSError, match="in use"), private_files():
        raise OSError("in use")

    assert mode(tmp_path / "after") == before
    old = os.umask(0o022)
    os.umask(old)
    assert old != 0o177
