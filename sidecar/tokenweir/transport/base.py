"""
The seam between servers and what they serve.

A *service* is one gRPC method. It opens a *call* for each stream that a peer begins.
A server gives the call each message, one after the other; sends what it returns (or
what that awaits to) before it gives it the next; ends the stream, well, once the call
is `finished` or the peer has said all; and says `closed` when the stream is over,
whoever ended it. Neither knows the other: services see no gRPC, servers no messages.

What breaks in a call is a fault: it is reported under the service's `name`, and the
peer reads `FAULT` and nothing else of it. That may be secret, and ends in its log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol

# Above the largest body that policy allows (64 MiB), with room for the envelope.
MAX_MESSAGE_BYTES = 72 * 1024 * 1024
# Envoy keeps one connection for each of its workers; streams on it are exchanges.
MAX_STREAMS = 100_000
# What Envoy was rendered from is told with each stream: eleven bytes a provider.
MAX_METADATA_BYTES = 32 * 1024

FAULT = "processor fault"


class Call(Protocol):
    """One stream of messages."""

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be said: the server ends the stream."""

    def receive(self, message: bytes) -> bytes | Awaitable[bytes | None] | None:
        """
        Return the one answer to *message*; None: it is not answered.

        An answer that is awaited may be cancelled: the peer is gone.

        Raises:
            Exception: The stream ends with a fault. ValueError, if *message* is none
                that this stream may carry.
        """

    def closed(self) -> None:
        """
        The stream is over. Called once, also after an error.

        An answer that was awaited has come by then, or its waiting was cancelled.
        """


class Service(Protocol):
    """One method, such as Envoy's ``ExternalProcessor/Process``."""

    @property
    def path(self) -> str:
        """As in HTTP: ``"/package.Service/Method"``."""

    @property
    def name(self) -> str:
        """What faults in its calls are reported as; a word."""

    @property
    def refusal(self) -> str:
        """What a peer reads whose call is not opened."""

    @property
    def last_word(self) -> bytes | None:
        """
        The message that a peer is owed once it has said all.

        So it is where only the client streams. None: nothing is owed.
        """

    def open(self, metadata: Mapping[str, str]) -> Call | None:
        """
        Return a call for a stream that begins with *metadata*, or None to refuse it.

        *metadata*'s names are in lower case; of several values of a name, the last
        one counts. It is not to be changed. A refused peer reads INVALID_ARGUMENT.
        """


class Server(Protocol):
    """Serves any number of services on one socket, and health beside them."""

    async def start(self) -> None:
        """Bind the socket, for this user only, and serve. Raises: OSError."""

    async def drain(self) -> None:
        """Tell health checkers that no new stream is welcome; all are still served."""

    async def stop(self, grace_seconds: float) -> None:
        """Refuse new streams, give open ones *grace_seconds*, then cancel them."""
