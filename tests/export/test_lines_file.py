"""Lines are added whole, durably, and read whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tokenweir.export.lines_file import (
    append_lines,
    read_lines,
    read_tail,
    sync_folder,
)


def test_lines_are_added(tmp_path: Path) -> None:
    """A file is made by its first lines; more lines come behind them."""
    path = tmp_path / "some.jsonl"
    append_lines(path, ["ä", "b"])
    append_lines(path, ["c"])

    assert path.read_text() == "ä\nb\nc\n"
    assert list(read_lines(path)) == [(1, "ä\n".encode()), (2, b"b\n"), (3, b"c\n")]
    assert path.stat().st_mode & 0o007 == 0


@pytest.mark.parametrize("half", [b"h", b"x" * 200_000])
@pytest.mark.parametrize("before", [b"", b"a\n"])
def test_half_a_line_is_cut_off(tmp_path: Path, half: bytes, before: bytes) -> None:
    """Half a line, of whatever length, is not read, and gone when more is added."""
    path = tmp_path / "some.jsonl"
    path.write_bytes(before + half)
    assert b"".join(line for _, line in read_lines(path)) == before
    append_lines(path, ["b"])

    assert path.read_bytes() == before + b"b\n"


@pytest.mark.parametrize("cut", range(12))
def test_wherever_a_writer_was_killed(tmp_path: Path, cut: int) -> None:
    """After any cut the file has whole lines only, and no whole line is lost."""
    path = tmp_path / "some.jsonl"
    whole = b"one\ntwo\nthree\n"
    path.write_bytes(whole[:cut])
    append_lines(path, [])

    kept = path.read_bytes()
    assert whole.startswith(kept)
    assert kept.count(b"\n") == whole[:cut].count(b"\n")
    assert not kept or kept.endswith(b"\n")


def test_the_tail(tmp_path: Path) -> None:
    """The tail is the last whole lines; a file that is not there has none."""
    path = tmp_path / "some.jsonl"
    assert list(read_tail(path, 10)) == []
    path.write_bytes(b"one\ntwo\nthree\nhal")

    assert list(read_tail(path, 100)) == [b"one\n", b"two\n", b"three\n"]
    assert list(read_tail(path, 12)) == [b"three\n"]


def test_it_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are on the disk when the call returns, and so is a new file's name."""
    synced: list[str] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", noting)
    path = tmp_path / "some.jsonl"
    append_lines(path, ["a"])
    append_lines(path, ["b"])

    assert synced == [str(path), str(tmp_path), str(path)]


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    """Whatever the system refuses is an OSError."""
    with pytest.raises(OSError, match="No such file"):
        append_lines(tmp_path / "gone" / "some.jsonl", ["a"])
    with pytest.raises(OSError, match="No such file"):
        sync_folder(tmp_path / "gone")
