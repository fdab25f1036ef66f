"""How calls of gRPC end."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """gRPC's status codes: those that are used here."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class StatusError(Exception):
    """
    A call ends with *status*, and nothing is broken.

    Attributes:
        status: What the peer is told.
        text: Beside it.
    """

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
