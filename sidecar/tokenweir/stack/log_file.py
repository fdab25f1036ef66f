"""
A child's log: read while it grows, and kept from growing for ever.

The child appends (O_APPEND), so the file may be shortened under its hands.
"""

from __future__ import annotations

from pathlib import Path

# Of a file that is followed: some 100,000 exchanges.
MAX_LOG_BYTES = 64 * 1024 * 1024
MAX_READ_BYTES = 1024 * 1024  # at once, so that a burst delays nobody
TAIL_BYTES = 64 * 1024


class LogFile:
    """
    The log at *path*, followed from where it ends now.

    It is created if it is missing, readable by its owner only.
    """

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self.path = path
        self._read_to = self._size()
        self._marked_at = self._read_to

    def mark(self) -> None:
        """Forget what is there: `tail` shows nothing of it."""
        self._marked_at = self._size()

    def tail(self, lines: int, unlike: str = "") -> list[str]:
        """Return the last *lines* since `mark`, without those that hold *unlike*."""
        size = self._size()
        start = max(min(self._marked_at, size), size - TAIL_BYTES)
        text = self._read(start, size).decode(errors="replace")
        found = [line for line in text.splitlines() if line.strip()]
        if unlike:
            found = [line for line in found if unlike not in line]
        return found[-lines:]

    def new_lines(self) -> list[str]:
        """Return the lines that were completed since the last call, bounded."""
        size = self._size()
        if size < self._read_to:  # somebody has shortened it
            self._read_to = 0
        data = self._read(self._read_to, min(size, self._read_to + MAX_READ_BYTES))
        complete = data.rfind(b"\n") + 1
        if not complete and len(data) == MAX_READ_BYTES:
            complete = len(data)  # no line of ours is that long
        self._read_to += complete
        if self._read_to == size and size > MAX_LOG_BYTES:
            self._shorten()
        return data[:complete].decode(errors="replace").splitlines()

    def _shorten(self) -> None:
        with self.path.open("r+b") as file:
            file.truncate(0)
        self._read_to = self._marked_at = 0

    def _read(self, start: int, end: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(max(0, end - start))

    def _size(self) -> int:
        return self.path.stat().st_size
