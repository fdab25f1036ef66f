"""
One connection that many calls share.

Calls of one turn of the event loop are written at once, and a server answers in the
order in which it was asked: so each reply belongs to the oldest call that has none. A
call that nobody waits for any more, since it was cancelled or its deadline has passed,
keeps its place until its reply comes, which is dropped. So it touches no other call.

A call that was given up although nothing at all was heard since it was sent is a sign
that the connection is dead. Such a lane is retired: no call is sent on it any more, and
it is closed once nobody waits for what it may still bring.

redis-py's own connections carry one call at a time, at several times the cost in CPU
(see docs/performance.md). They greet the server, and then are taken over: `Lane.over`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis

# redis-py has no other name for what turns the words of a server into its exceptions.
from redis._parsers import BaseParser
from redis.exceptions import ConnectionError as RedisConnectionError

# Before a command of a slot that its server is only just being given.
_ASKING = hiredis.pack_command(("ASKING",))

_INCOMPLETE = object()

Heir = Callable[[Any], None]


class _Refusal(Exception):  # noqa: N818 - a reply, which is not raised
    """What a server says in place of an answer."""


class Slot(asyncio.Future[Any]):
    """
    One call, until it is answered: a future of its reply, or of a server's error.

    Attributes:
        sent_at: By the loop's clock, in seconds.
        deadline: Ditto: after it the call ends with a `TimeoutError`.
        heir: Told the reply, or the error, if whoever waited was cancelled.
    """

    sent_at: float
    deadline: float
    heir: Heir | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether anybody wants to hear the reply."""
        return not self.done() or self.heir is not None

    def answer(self, reply: Any) -> None:
        """Give *reply*, which may be an error, to whoever waits for it."""
        if not self.done():
            self.heir = None
            if isinstance(reply, Exception):
                self.set_exception(reply)
            else:
                self.set_result(reply)
        elif self.heir is not None:
            heir, self.heir = self.heir, None
            heir(reply)


class Lane(asyncio.Protocol):
    """
    Args:
        connection: Greeted, and with nothing to read: a connection of redis-py.
        ended: Called once it is closed.

    Attributes:
        connection: See above.
        is_open: Whether calls may be sent.
    """

    def __init__(self, connection: Any, ended: Callable[[Lane], None]) -> None:
        self.connection = connection
        self.is_open = True
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport = connection._writer.transport  # noqa: SLF001
        self._former = self._transport.get_protocol()
        self._reader = hiredis.Reader(
            replyError=_Refusal, notEnoughData=_INCOMPLETE, encoding=None
        )
        self._slots: deque[Slot | None] = deque()
        self._unsent: list[bytes] = []
        self._heard_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def over(cls, connection: Any, ended: Callable[[Lane], None]) -> Lane:
        """Return the lane that takes *connection* over."""
        lane = cls(connection, ended)
        lane._transport.set_protocol(lane)
        if lane._transport.is_closing():
            lane.is_open = False
        return lane

    def send(
        self,
        command: bytes,
        seconds: float,
        heir: Heir | None = None,
        *,
        is_asking: bool = False,
    ) -> Slot:
        """
        Send *command*, packed, at the end of this turn of the loop; return its slot.

        Args:
            command: As RESP has it.
            seconds: Until its deadline.
            heir: See `Slot`.
            is_asking: It is about a slot that is on its way to the server.
        """
        now = self._loop.time()
        slot = Slot(loop=self._loop)
        slot.sent_at, slot.deadline, slot.heir = now, now + seconds, heir
        if not self._unsent:
            self._loop.call_soon(self._flush)
        if is_asking:
            self._unsent.append(_ASKING)
            self._slots.append(None)
        self._unsent.append(command)
        self._slots.append(slot)
        if self._timer is None or slot.deadline < self._timer.when():
            self._watch(slot.deadline)
        return slot

    def retire(self) -> None:
        """Take no more calls, and close once nobody waits for a reply."""
        self.is_open = False
        self._close_if_idle()

    async def closed(self) -> None:
        """Return once it is closed."""
        await asyncio.shield(self._closed)

    # === the connection ========================================================

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._heard_at = self._loop.time()
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not _INCOMPLETE:
                self._answer(reply)
        except hiredis.ProtocolError:
            self._transport.abort()  # what was no reply is no server
        if not self.is_open:
            self._close_if_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for slot in self._slots:
            if slot is not None:
                slot.answer(RedisConnectionError("Connection closed by server."))
        self._slots.clear()
        self._unsent.clear()
        self._former.connection_lost(exc)
        if not self._closed.done():
            self._closed.set_result(None)
        self._ended(self)

    def _flush(self) -> None:
        if self._unsent:
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()

    def _answer(self, reply: Any) -> None:
        if isinstance(reply, hiredis.PushNotification):
            return
        if not self._slots:
            raise hiredis.ProtocolError("an answer to nobody")
        slot = self._slots.popleft()
        if slot is not None:
            slot.answer(_error_of(reply) if isinstance(reply, _Refusal) else reply)

    # === deadlines =============================================================

    def _watch(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        """End the calls whose deadline has passed; retire if nothing was heard."""
        self._timer = None
        now, is_silent = self._loop.time(), False
        left = []
        for slot in filter(None, tuple(self._slots)):
            if slot.deadline <= now:
                is_silent = is_silent or self._heard_at <= slot.sent_at
                if slot.is_awaited:
                    slot.answer(TimeoutError())
            else:
                left.append(slot.deadline)
        if left:
            self._watch(min(left))
        if is_silent or not self.is_open:
            self.retire()

    def _close_if_idle(self) -> None:
        if not any(slot is not None and slot.is_awaited for slot in self._slots):
            self._transport.abort()


def _error_of(refusal: _Refusal) -> Exception:
    parse: Callable[[str], Exception] = BaseParser.parse_error
    try:
        return parse(str(refusal))
    except ValueError as nonsense:  # on what says MOVED, but not where to
        return nonsense
