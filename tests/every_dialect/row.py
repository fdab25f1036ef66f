"""What a row of the table is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.every_dialect.speaker import Speaker
from tests.scripted_upstream import LAST_CHUNK, Headers, Step, chunk, head, reply

JSON = ("content-type", "application/json")
EVENTS = ("content-type", "text/event-stream")
CHUNKED = ("transfer-encoding", "chunked")


@dataclass(frozen=True)
class Row:
    """
    An exchange.

    Attributes:
        name: Of it.
        speaker: Whose API it is.
        path: Asked for; with a query, if any.
        request: The body.
        pieces: Of the answer, in their order; one if it is not streamed.
        usage: What the provider reports, input and output; None: it reports nothing.
        streamed: Whether the answer comes in chunks.
        passed: How many of *pieces* have come where a stream breaks off.
        texts: What these have generated.
        seen_input: The input that they have reported; None: what was reserved is owed.
        seen_output: The output that they have reported; None: *texts* are counted.
        extra: The event that only we have asked for, and the app must not get.
        sent: Of the request, if that is not JSON.
        answered: Of the answer.
        costs_tokens: Else it is limited by requests only.
        is_read: The request's body is read.
        generates: There is an output, which is estimated where it can't be read.
    """

    name: str
    speaker: Speaker
    path: str
    request: bytes
    pieces: tuple[bytes, ...]
    usage: tuple[int, int] | None
    streamed: bool = False
    passed: int = 0
    texts: tuple[str, ...] = ()
    seen_input: int | None = None
    seen_output: int | None = None
    extra: bytes = b""
    sent: tuple[str, str] = JSON
    answered: tuple[str, str] = JSON
    costs_tokens: bool = True
    is_read: bool = True
    generates: bool = True

    @property
    def body(self) -> bytes:
        """The answer's body."""
        return b"".join(self.pieces)

    @property
    def seen(self) -> bytes:
        """What the app gets of it."""
        return self.body.replace(self.extra, b"") if self.extra else self.body

    def steps(self, pieces: Sequence[bytes] | None = None) -> list[Step]:
        """Return how the provider answers, with *pieces* in place of its own."""
        pieces = self.pieces if pieces is None else pieces
        if not self.streamed:
            return [reply(b"".join(pieces), headers=[self.answered])]
        return [self.head(), *map(chunk, pieces), LAST_CHUNK]

    def head(self, *more: tuple[str, str]) -> bytes:
        """Return the head of the answer, with *more* headers."""
        framing: Headers = [CHUNKED] if self.streamed else []
        return head(headers=[self.answered, *framing, *more])

    def at(self, speaker: Speaker, path: str, name: str) -> Row:
        """Return the same exchange by another API's *path*."""
        return replace(self, speaker=speaker, path=path, name=name)
