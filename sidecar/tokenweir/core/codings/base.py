"""What a content coding does. Memory and work between two pieces are bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class CodingError(Exception):
    """The bytes are not what their coding says."""


class Coding(Protocol):
    """One body, in one coding."""

    @property
    def streams(self) -> int:
        """How many members or frames have come to their end, one after the other."""

    @property
    def whole(self) -> bool:
        """Whether what came so far is a whole body in this coding."""

    def decode(self, piece: bytes) -> Iterator[bytes]:
        """
        Take the next *piece*; yield what it decodes to, in bounded pieces.

        Raises:
            CodingError: It is none of this coding. What stood before it was yielded.
        """
