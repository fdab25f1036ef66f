"""Files are read bounded, and remembered by content."""

from __future__ import annotations

import os
import pathlib

import pytest

from tokenweir.config.files import Files, UnreadableFileError


def test_content_is_read_up_to_a_limit(tmp_path: pathlib.Path) -> None:
    """A file of exactly the limit is read; one byte more is too much."""
    path = tmp_path / "file"
    path.write_bytes(b"12345")

    assert Files().read(path, 5) == b"12345"
    with pytest.raises(UnreadableFileError, match=r"^is larger than 4 bytes$"):
        Files().read(path, 4)


def test_what_is_no_file(tmp_path: pathlib.Path) -> None:
    """An absent file, a folder, and a FIFO, which nobody may ever write to."""
    os.mkfifo(tmp_path / "fifo")

    with pytest.raises(UnreadableFileError, match=r"^can't be read: no such file"):
        Files().read(tmp_path / "absent", 5)
    with pytest.raises(UnreadableFileError, match=r"^is a folder, not a file$"):
        Files().read(tmp_path, 5)
    with pytest.raises(UnreadableFileError, match=r"^is not a regular file$"):
        Files().read(tmp_path / "fifo", 5)


def test_changes_are_seen_by_content(tmp_path: pathlib.Path) -> None:
    """Same content is no change, whatever happened to the file; other content is."""
    path, absent = tmp_path / "file", tmp_path / "absent"
    path.write_bytes(b"1")
    files = Files()
    files.read(path, 5)
    with pytest.raises(UnreadableFileError):
        files.read(absent, 5)
    before = files.seen

    path.unlink()
    path.write_bytes(b"1")
    assert files.now() == before
    path.write_bytes(b"2")
    assert files.now() != before
    path.write_bytes(b"1")
    assert files.now() == before
    absent.write_bytes(b"")
    assert files.now() != before
    assert files.seen == before


def test_a_file_that_goes_away_is_a_change(tmp_path: pathlib.Path) -> None:
    """And one that has grown above its limit too."""
    path = tmp_path / "file"
    path.write_bytes(b"1")
    files = Files()
    files.read(path, 5)

    path.unlink()
    gone = files.now()
    path.write_bytes(b"123456")

    assert gone != files.seen
    assert files.now() == gone
