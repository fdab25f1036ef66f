"""A log for tests, and what it wrote."""

import io
import json
from typing import Any

from tokenweir.telemetry.logs import JsonLog, UserIds

NOON_S = 1_767_268_800.5


class Clock:
    """A wall clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = NOON_S

    def __call__(self) -> float:
        return self.now_s


class Sink:
    """A log, and the lines that it wrote."""

    def __init__(self, user_ids: UserIds = UserIds.HASHED) -> None:
        self.clock = Clock()
        self._stream = io.StringIO()
        self.log = JsonLog(self._stream, user_ids=user_ids, clock=self.clock)

    def text(self) -> str:
        """Close the log and return what it wrote."""
        assert self.log.close(30)
        return self._stream.getvalue()

    def lines(self) -> list[dict[str, Any]]:
        """Close the log and return its lines, read."""
        return [json.loads(line) for line in self.text().splitlines()]

    def line(self) -> dict[str, Any]:
        """Close the log and return its only line."""
        (line,) = self.lines()
        return line
