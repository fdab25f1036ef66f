"""
Lines of text to a stream, without waiting for it.

Theory of operation. Whoever logs puts a line into a queue; a thread writes what
has gathered. It rests a moment after each write, so that a busy processor wakes
it some twenty times a second and not once a line. When nobody reads the stream
(a stuck log driver), the thread waits, the queue fills, and further lines are
dropped and counted: traffic matters more. Once lines flow again, one of them
says how many are missing.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TextIO

MAX_WAITING = 10_000  # lines; some 10 MB, and ten seconds of 1,000 exchanges a second
MAX_BATCH = 500
REST_S = 0.05


class LineWriter:
    """
    Writes lines to *stream* from a thread of its own.

    Args:
        stream: Written and flushed by the thread only.
        gap: Makes the line that tells of so many dropped lines.
        on_dropped: Called for each dropped line, by whoever wrote it.
    """

    def __init__(
        self,
        stream: TextIO,
        gap: Callable[[int], str],
        on_dropped: Callable[[], None] = lambda: None,
        *,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._stream = stream
        self._gap = gap
        self._on_dropped = on_dropped
        self._max_waiting = max_waiting
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._dropped = 0
        # A daemon: a stream that nobody reads must not keep the process alive.
        self._thread = threading.Thread(
            target=self._run, name="tokenweir-log", daemon=True
        )
        self._thread.start()

    def write(self, line: str) -> None:
        """Queue *line*, which has no line end. Never blocks; may drop it."""
        if self._closing.is_set() or self._waiting.qsize() >= self._max_waiting:
            self._dropped += 1
            self._on_dropped()
            return
        self._tell_gap()
        self._waiting.put(line)

    def close(self, timeout_s: float = 2.0) -> bool:
        """Write what waits, *timeout_s* at the most; tell if all was written."""
        self._closing.set()
        self._tell_gap()
        self._waiting.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _tell_gap(self) -> None:
        if self._dropped:
            missing, self._dropped = self._dropped, 0
            self._waiting.put(self._gap(missing))

    def _run(self) -> None:
        while True:
            lines, ended = self._gathered()
            # A closed or full stream can't be reported anywhere else.
            with contextlib.suppress(OSError, ValueError):
                self._stream.write("".join(f"{line}\n" for line in lines))
                self._stream.flush()
            if ended:
                return
            self._closing.wait(REST_S)

    def _gathered(self) -> tuple[list[str], bool]:
        """Wait for a line and return what is there; true if it was the end."""
        lines: list[str] = []
        line = self._waiting.get()
        while line is not None:
            lines.append(line)
            if len(lines) >= MAX_BATCH or self._waiting.empty():
                return lines, False
            line = self._waiting.get()
        return lines, True
