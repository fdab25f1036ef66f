"""The states of an exchange, and what one step of it yields."""

from __future__ import annotations

import enum

from tokenweir.core.commands import Command


class State(enum.Enum):
    """Where an exchange stands."""

    NEW = enum.auto()
    AWAITING_BODY = enum.auto()
    ESTIMATING = enum.auto()
    RESERVING = enum.auto()
    ABANDONED = enum.auto()  # answered or left, while the reserve is in flight
    FORWARDED = enum.auto()  # the request side is done, no response yet
    RESPONDING = enum.auto()
    COUNTING = enum.auto()  # the response is over, its tokens are being counted
    DONE = enum.auto()


Step = tuple[State, list[Command]]
"""Where an exchange stands after an event, and what is to be done, in order."""
