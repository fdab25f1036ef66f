"""Services for peers that test: they answer what they are told to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from tokenweir.transport.base import Call

PATH = "/test.Echo/Talk"
STREAM_PATH = "/test.Echo/Listen"
SECRET = RuntimeError("sk-CANARY-in-an-exception")


async def raising(error: BaseException) -> None:
    """Raise *error*."""
    raise error


class EchoCall:
    """
    Answers what it is told.

    A message may be a command: ``b"last"`` is answered and ends the call, ``b"quiet"``
    is not answered, ``b"break"`` raises, ``b"wait"`` is answered once the gate opens,
    ``b"cancelled"`` awaits what was cancelled, ``b"large N"`` is answered by N bytes.
    """

    def __init__(self, service: Echo, metadata: Mapping[str, str]) -> None:
        self.finished = "finished" in metadata
        self.service = service
        self.got: list[bytes] = []
        self.closes = 0
        self.waits = 0

    def receive(self, message: bytes) -> bytes | Awaitable[bytes | None] | None:
        """See `Call`."""
        assert self.closes == 0
        assert self.waits == 0
        self.got.append(message)
        word, _, rest = message.partition(b" ")
        if word == b"break":
            raise SECRET
        if word in (b"wait", b"stubborn", b"cancelled"):
            return self._later(message)
        if word == b"large":
            return b"x" * int(rest)
        self.finished = word == b"last"
        return None if word == b"quiet" else message

    def closed(self) -> None:
        """See `Call`."""
        assert self.waits == 0
        self.closes += 1
        if self.service.breaks_closing:
            raise SECRET

    async def _later(self, message: bytes) -> bytes:
        self.waits += 1
        try:
            if message == b"cancelled":
                await raising(asyncio.CancelledError("sk-CANARY"))
            await self.service.gate.wait()
            if message == b"wait and break":
                await raising(SECRET)
        except asyncio.CancelledError:
            if message == b"stubborn":
                raise SECRET from None
            raise
        finally:
            self.waits -= 1
        return message


class Echo:
    """
    Opens calls, and remembers them. See `tokenweir.transport.base.Service`.

    Metadata may be commands, too: ``finished``, ``refuse``, ``break``.
    """

    name = "echo"
    refusal = "nobody of yours"

    def __init__(self, path: str = PATH, last_word: bytes | None = None) -> None:
        self.path = path
        self.last_word = last_word
        self.calls: list[EchoCall] = []
        self.metadata: list[Mapping[str, str]] = []
        self.gate = asyncio.Event()
        self.breaks_closing = False

    def open(self, metadata: Mapping[str, str]) -> Call | None:
        """See `Service`."""
        self.metadata.append(metadata)
        if "refuse" in metadata:
            return None
        if "break" in metadata:
            raise SECRET
        self.calls.append(EchoCall(self, metadata))
        return self.calls[-1]
