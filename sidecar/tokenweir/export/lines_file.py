"""
A file of lines to which lines are added durably.

A process may be killed, or a disk fill up, in the middle of a line. Half a line is
nobody's: whoever wrote it never said that it was written. So it is cut off before
anything is added; what is read ends at the last whole line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

# Who else may read it is for the folder to say.
MODE = 0o640
_BLOCK_BYTES = 65_536


def append_lines(path: Path, lines: Sequence[str]) -> None:
    """
    Add *lines* to the file, which is made if need be, and wait for the disk.

    Raises: OSError. Then some of them may be there, the last one not whole.
    """
    is_new = not path.exists()
    with open(path, "a+b", opener=_opener) as file:
        file.truncate(_whole_bytes(file.fileno()))
        file.write("".join(f"{line}\n" for line in lines).encode())
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait for the disk to have the names of *folder*'s files. Raises: OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Return the whole lines with their numbers, from 1. Raises: OSError."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                yield number, line


def read_tail(path: Path, most_bytes: int) -> Iterator[bytes]:
    """Return the whole lines in the last *most_bytes*; none if there is no file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        skipped = max(0, file.seek(0, os.SEEK_END) - most_bytes)
        file.seek(skipped)
        if skipped:
            file.readline()
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, MODE)


def _whole_bytes(descriptor: int) -> int:
    """Return how long the file is without half a line at its end."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _BLOCK_BYTES)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
