"""What records are exported to: declarations, and no logic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tokenweir.core.errors import TokenweirError
from tokenweir.export.record import BadEntry, Row


class SinkUnavailableError(TokenweirError):
    """
    A sink can't take records now, and may do so later. The text says why.

    It quotes neither records nor secrets.
    """


class SinkUnusableError(TokenweirError):
    """A sink can't be used until somebody mends it. The text says what, and how."""


class UnreadableExportError(TokenweirError):
    """What was exported can't be read back. The text says what is wrong, and where."""


class Sink(Protocol):
    """
    Where records go. Its calls block, and come one at a time.

    Whatever is written twice must do no harm, and of two records of one hold the one
    of the greater `tokenweir.export.record.Rank` must win, in whatever order they come.
    """

    @property
    def place(self) -> str:
        """What it is called in logs: no secret in it."""

    def open(self) -> None:
        """
        Get ready to write; may be called again after a failure.

        Raises:
            SinkUnavailableError: It may be tried again.
            SinkUnusableError: Not before somebody has mended it.
        """

    def write(self, rows: Sequence[Row], bad: Sequence[BadEntry]) -> int:
        """
        Make *rows* durable, and keep *bad* apart, for people to look at.

        Returns:
            How many rows it could not take, and has kept like *bad* ones.

        Raises:
            SinkUnavailableError: Some of it may be written. `open` comes next.
            SinkUnusableError: Likewise, and somebody has to mend it.
        """

    def close(self) -> None:
        """Let go of it. May be called twice, or without `open`."""
