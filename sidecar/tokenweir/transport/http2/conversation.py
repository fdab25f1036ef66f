"""
A stream as gRPC has it: a call, its messages one after the other, and its end.

Theory of operation. Messages wait in a queue while an answer is awaited, or while what
was answered does not leave; the window of the stream keeps that queue short. An answer
that is there at once is sent at once, without a task.

Whoever ends the stream, the call is told once, and last: after what it awaited is over,
be it that this was cancelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from tokenweir.telemetry.hooks import Events
from tokenweir.transport.base import FAULT, Call
from tokenweir.transport.http2.methods import Method
from tokenweir.transport.http2.statuses import Status, StatusError


class Replies(Protocol):
    """Where answers go."""

    @property
    def stuck(self) -> bool:
        """Whether something that was sent does not leave."""

    def send(self, message: bytes) -> None:
        """Send a message."""

    def finish(self, status: Status, text: str = "") -> None:
        """End the stream. Nothing may be sent after that; it may be said twice."""

    def caught_up(self) -> None:
        """Hear that what was awaited has come, and nothing waits any more."""


class Conversation:
    """One call, from the moment on that its method is known."""

    __slots__ = (
        "_call",
        "_events",
        "_inbox",
        "_leaving",
        "_method",
        "_on_closed",
        "_peer_is_done",
        "_replies",
        "_task",
        "_timer",
        "over",
    )

    def __init__(
        self,
        method: Method,
        replies: Replies,
        events: Events,
        on_closed: Callable[[], None],
    ) -> None:
        """*on_closed* is called last of all, once."""
        self._method = method
        self._replies = replies
        self._events = events
        self._on_closed = on_closed
        self._call: Call | None = None
        self._inbox: deque[bytes] = deque()
        self._task: asyncio.Future[bytes | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._leaving = False
        self._peer_is_done = False
        self.over = False

    @property
    def idle(self) -> bool:
        """Whether all that has arrived is dealt with."""
        return not self._inbox and self._task is None

    def begin(self, metadata: Mapping[str, str], timeout_seconds: float | None) -> None:
        """Open the call."""
        try:
            call = self._method.open(metadata, self._push)
        except Exception as error:  # noqa: BLE001 - its text must not reach Envoy's log
            self._fail(error)
            return
        if call is None:
            self._end(Status.INVALID_ARGUMENT, self._method.refusal)
            return
        self._call = call
        if timeout_seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(
                timeout_seconds, self._expire
            )
        if call.finished:
            self._end(Status.OK)

    def take(self, messages: list[bytes]) -> None:
        """Deal with *messages*, now or once those before are."""
        self._inbox.extend(messages)
        self.go_on()

    def peer_done(self) -> None:
        """The peer has said all."""
        self._peer_is_done = True
        self.go_on()

    def go_on(self) -> None:
        """Deal with what waits, if nothing is awaited."""
        while not self.over and self._task is None and not self._replies.stuck:
            if self._inbox:
                self._receive(self._inbox.popleft())
                continue
            if self._peer_is_done and not self._method.stays:
                if self._method.last_word is not None:
                    self._replies.send(self._method.last_word)
                self._end(Status.OK)
            return

    def terminate(self, status: Status, text: str) -> None:
        """End the stream from our side, whatever it waits for."""
        self._replies.finish(status, text)
        self.abandon()

    def abandon(self) -> None:
        """The stream is over: cancel what is awaited, and tell the call."""
        if self.over:
            return
        self._inbox.clear()
        if self._task is None:
            self._close()
        elif not self._leaving:
            self._leaving = True
            self._task.cancel()

    # === one message ===============================================================

    def _receive(self, message: bytes) -> None:
        assert self._call is not None
        try:
            answer = self._call.receive(message)
        except StatusError as error:
            self._end(error.status, error.text)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - ditto
            self._fail(error)
        else:
            if answer is None or isinstance(answer, bytes):
                self._answer(answer)
            else:
                self._await(answer)

    def _await(self, answer: Awaitable[bytes | None]) -> None:
        task = asyncio.ensure_future(answer)
        self._task = task
        task.add_done_callback(self._arrived)

    def _arrived(self, task: asyncio.Future[bytes | None]) -> None:
        self._task = None
        # Cancelled, and not by us: some task that the call has waited for.
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if self._leaving:
            if error is not None and not task.cancelled():
                self._events.fault(self._method.name, error)
            self._close()
        elif error is not None:
            self._fail(error)
        else:
            self._answer(task.result())
            self.go_on()
            if self.idle and not self.over:
                self._replies.caught_up()

    def _answer(self, answer: bytes | None) -> None:
        assert self._call is not None
        if answer is not None:
            self._replies.send(answer)
        if self._call.finished:
            self._end(Status.OK)

    def _push(self, message: bytes) -> None:
        if not self.over:
            self._replies.send(message)

    # === the end ===================================================================

    def _expire(self) -> None:
        self.terminate(Status.DEADLINE_EXCEEDED, "deadline exceeded")

    def _fail(self, error: BaseException) -> None:
        self._events.fault(self._method.name, error)
        self._end(Status.INTERNAL, FAULT)

    def _end(self, status: Status, text: str = "") -> None:
        if self._close():
            self._replies.finish(status, text)
        else:
            self._replies.finish(Status.INTERNAL, FAULT)

    def _close(self) -> bool:
        """Tell the call, and tell if it has taken it well."""
        self.over = True
        self._inbox.clear()
        if self._timer is not None:
            self._timer.cancel()
        call, self._call = self._call, None
        try:
            if call is not None:
                call.closed()
        except Exception as error:  # noqa: BLE001 - ditto
            self._events.fault(self._method.name, error)
            return False
        else:
            return True
        finally:
            self._on_closed()
