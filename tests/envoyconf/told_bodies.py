"""Bodies of every API, and what is known of each if all of it is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.compatible_servers import SERVERS
from tests.every_dialect import ROWS
from tests.recorded import framed, recordings
from tokenweir.core.dialects import dialect_of
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.excerpt import Excerpt
from tokenweir.core.response import ResponseReader

SSE = "text/event-stream"
JSON = "application/json"
CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Body:
    """
    A response.

    Attributes:
        name: For the test's id.
        path: That was asked for.
        content_type: Of the response.
        pieces: As it was sent.
    """

    name: str
    path: str
    content_type: str
    pieces: tuple[bytes, ...]

    @property
    def data(self) -> bytes:
        """All of it."""
        return b"".join(self.pieces)

    def facts(self, pieces: Iterable[bytes], coding: str = "") -> ResponseFacts:
        """Return what is known once *pieces* have been read."""
        dialect = dialect_of(self.path)
        assert dialect is not None
        reader = ResponseReader(
            dialect,
            status=200,
            content_type=self.content_type,
            content_encoding=coding,
        )
        for piece in pieces:
            reader.feed(piece)
        reader.end()
        return reader.facts

    def facts_in(self, excerpt: Excerpt) -> ResponseFacts:
        """Return what is known by all units of *excerpt*."""
        return self.facts(
            (unit.data for unit in excerpt.units), excerpt.content_encoding
        )


def scripted() -> list[Body]:
    """Return what the tests themselves have providers say."""
    rows = (
        Body(row.name, row.path, row.answered[1], row.pieces)
        for row in ROWS
        if dialect_of(row.path) and row.is_read
    )
    servers = (Body(each.name, CHAT, SSE, tuple(each.stream)) for each in SERVERS)
    return [*rows, *servers]


def recorded() -> list[Body]:
    """Return what providers have said; nothing where there are no recordings."""
    return [
        Body(each.name, each.path, each.content_type, (each.response,))
        for each in (*recordings(), *framed())
        if dialect_of(each.path) and each.status < 400 and each.response
    ]
