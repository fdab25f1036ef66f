"""
The way to Redis: deadlines, connections, and what its errors mean.

A call has until its deadline, waiting for a connection and connecting included. A
caller that is cancelled leaves it to end by itself. A connection that takes longer than
its call is there for the next one: see `tokenweir.ledger.pool`.

A script's call goes out on a connection that it shares, in one write with all that are
made in the same turn of the event loop: see `tokenweir.ledger.lane`. Where that ends
well it costs no task; whatever else is to do is a task of its own.

What may be repeated here:

* NOSCRIPT: the script did not run. It is sent along, and runs.
* READONLY: the script did not run either. The server is a replica by now; its
  connections are dropped, so that the name is looked up again, and the call is
  repeated once.
* What a Cluster answers with where to ask: see `tokenweir.ledger.cluster`.

Nothing else is: after a timeout or a broken connection the call may have been
applied. Calls are idempotent by hold id, so who wants to repeat one can.

A server that has restarted, or that has taken over from another, may have forgotten what
was answered last. Whoever can say that again is told once there is an answer, after
connections were lost or servers have changed: see `Link.when_back`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from redis.exceptions import (
    AskError,
    NoScriptError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from tokenweir.core.errors import (
    LedgerRefusedError,
    LedgerUnavailableError,
    NewerFormatError,
)
from tokenweir.ending import end_tasks, within
from tokenweir.ledger.evaluation import Command, Evaluation, packed
from tokenweir.ledger.faults import NEWER_FORMAT, is_readonly, is_state, reason_of
from tokenweir.ledger.scripts import Script
from tokenweir.ledger.servers import connect
from tokenweir.ledger.store import Contact
from tokenweir.telemetry.hooks import LedgerEvents

DEADLINE_SECONDS = 0.2

# For what no exchange waits for: sweeping and reading back.
PATIENT_SECONDS = 5.0

# For closing connections.
CLOSE_SECONDS = 1.0

# Keys that a server looks at in one step of a search.
SCAN_COUNT = 1_000

# What a call may meet. redis-py raises ValueError on errors that it can't take apart.
_FAULTS = (RedisError, OSError, TimeoutError, ValueError)
# What of it says that the script did not run, and may run after all.
_NOT_RUN = (NoScriptError, AskError, TryAgainError)

Attempt = Callable[[], Coroutine[Any, Any, Any]]


class Link:
    """
    Connections to one Redis or Valkey server, or to the nodes of a Cluster.

    Args:
        url: See `tokenweir.ledger.address`.
        events: Told of every call, and of faults.
        deadline_seconds: Of a call that an exchange waits for.
    """

    def __init__(
        self,
        url: str,
        events: LedgerEvents,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._servers = connect(url)
        self._events = events
        self._deadline_seconds = deadline_seconds
        self._calls: set[asyncio.Task[Any]] = set()
        self._contact = Contact()
        self._broken = 0
        self._losses = 0
        self._told_back: list[Callable[[], None]] = []

    @property
    def contact(self) -> Contact:
        """How long ago the server was heard of; what it refuses is no answer."""
        return self._contact

    def when_back(self, tell: Callable[[], None]) -> None:
        """Have *tell* called whenever servers answer that may have forgotten something."""
        self._told_back.append(tell)

    async def run(
        self, script: Script, key: str, arguments: Command, *, patient: bool = False
    ) -> Any:
        """
        Run *script*.

        Args:
            script: Out of `tokenweir.ledger.scripts`.
            key: KEYS[1].
            arguments: ARGV.
            patient: No exchange waits for it.

        Raises:
            LedgerUnavailableError: It may have run all the same.
        """
        seconds = self._deadline_seconds
        if patient:
            seconds = max(seconds, PATIENT_SECONDS)
        call = Evaluation(script, key, arguments, seconds)
        lane = self._servers.lane(key)
        if lane is None:
            return await self._finish(call)
        slot = lane.send(call.by_name(), seconds, partial(self._inherit, call))
        try:
            reply = await slot
        except asyncio.CancelledError:
            if not slot.cancelled():  # the answer was there already
                self._inherit(call, slot.exception() or slot.result())
            raise
        except _FAULTS as error:
            return await self._finish(call, error)
        self._end(call.script.name, call.began, "")
        return reply

    async def ping(self) -> None:
        """Ask for any answer. Raises like `run`."""
        await self._call(
            "ping", lambda: self._servers.execute("PING"), self._deadline_seconds
        )

    async def info(self, section: str) -> Sequence[Mapping[str, Any]]:
        """
        Return a *section* of what each server tells of itself, patiently.

        One that this user may not ask, or that does not tell, is left out. Raises like
        `run`.
        """
        found: list[Mapping[str, Any]] = await self._timed(
            "info", lambda: self._told(section), PATIENT_SECONDS
        )
        return found

    async def scan(self, pattern: str) -> set[str]:
        """Return the keys like *pattern*, patiently. Raises like `run`."""
        found: set[str] = set()
        for node in await self._timed("read", self._servers.nodes, PATIENT_SECONDS):
            cursor, is_begun = 0, False
            while cursor or not is_begun:
                step = ("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
                cursor, names = await self._timed(
                    "read", partial(node.execute, *step), PATIENT_SECONDS
                )
                found.update(name.decode() for name in names)
                is_begun = True
        return found

    async def run_all(
        self, script: Script, keys: Sequence[str], arguments: Command
    ) -> list[Any]:
        """Run *script* once for each of *keys*, patiently. Raises like `run`."""
        calls = [Evaluation(script, key, arguments, PATIENT_SECONDS) for key in keys]
        found: list[Any] = await self._timed(
            script.name, lambda: self._evaluate_all(calls), PATIENT_SECONDS
        )
        return found

    async def read(
        self, commands: Sequence[Command], *, verb: str = "read"
    ) -> list[Any]:
        """
        Return what *commands* answer, patiently. Raises like `run`.

        *verb* is what the call is reported as.
        """
        found: list[Any] = await self._timed(
            verb, lambda: self._all(_packed_all(commands)), PATIENT_SECONDS
        )
        return found

    async def close(self) -> None:
        """
        Wait for the calls in flight, as long as any may take, and give connections back.

        With TLS a server that says nothing could keep one open for long.
        """
        longest = max(self._deadline_seconds, PATIENT_SECONDS) + CLOSE_SECONDS
        await end_tasks(*self._calls, patience_seconds=longest)
        closing = asyncio.create_task(self._servers.close())
        await end_tasks(
            closing,
            where="ledger",
            on_fault=self._events.fault,
            patience_seconds=longest,
        )

    def _inherit(self, call: Evaluation, reply: Any) -> None:
        """End a *call* whose caller was cancelled."""
        if isinstance(reply, Exception):
            self._keep(asyncio.create_task(self._finished(call, reply)))
        else:
            self._end(call.script.name, call.began, "")

    async def _finish(self, call: Evaluation, error: Exception | None = None) -> Any:
        """Return what is answered in the end to *call*, which has met *error* so far."""
        finishing = asyncio.create_task(self._finished(call, error))
        self._keep(finishing)
        return await asyncio.shield(finishing)

    async def _finished(self, call: Evaluation, error: Exception | None) -> Any:
        if error is not None and not isinstance(error, ResponseError):
            self._servers.doubt()
        return await self._timed(
            call.script.name,
            lambda: self._evaluate(call, error),
            call.seconds,
            began=call.began,
        )

    async def _call(self, verb: str, attempt: Attempt, deadline_seconds: float) -> Any:
        call = asyncio.create_task(self._timed(verb, attempt, deadline_seconds))
        self._keep(call)
        return await asyncio.shield(call)

    def _keep(self, call: asyncio.Task[Any]) -> None:
        self._calls.add(call)
        call.add_done_callback(self._ended)

    async def _timed(
        self,
        verb: str,
        attempt: Attempt,
        deadline_seconds: float,
        *,
        began: float | None = None,
    ) -> Any:
        started = time.perf_counter() if began is None else began
        left_seconds = deadline_seconds - (time.perf_counter() - started)
        reason = "CancelledError"
        try:
            reply = await within(left_seconds, attempt())
            reason = ""
        except _FAULTS as error:
            reason = reason_of(error)
            self._broken += isinstance(error, RedisConnectionError)
            raise self._unavailable(error) from error
        finally:
            self._end(verb, started, reason)
        return reply

    def _end(self, verb: str, started: float, reason: str) -> None:
        """Tell that a call has ended; *reason*: what it failed for, or ``""``."""
        self._note(is_answer=not reason)
        seconds = time.perf_counter() - started
        self._events.ledger_call(verb, seconds, failed=bool(reason), reason=reason)

    def _note(self, *, is_answer: bool) -> None:
        if is_answer:
            self._contact = Contact(time.monotonic())
            losses = self._servers.losses + self._broken
            if losses != self._losses:
                self._losses = losses
                for tell in self._told_back:
                    tell()
        else:
            missed = self._contact.unanswered + 1
            self._contact = replace(self._contact, unanswered=missed)

    async def _told(self, section: str) -> list[Mapping[str, Any]]:
        told: list[Mapping[str, Any]] = []
        for node in await self._servers.nodes():
            with contextlib.suppress(ResponseError):
                told.append(await node.execute("INFO", section))
        return told

    async def _all(self, commands: Sequence[Sequence[str | bytes]]) -> list[Any]:
        replies = await self._servers.pipelined(commands)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    async def _evaluate_all(self, calls: Sequence[Evaluation]) -> list[Any]:
        """Make all of *calls*, at once where the script is known."""
        replies: dict[int, Any] = {}
        left = list(range(len(calls)))
        while left:
            found = await self._servers.pipelined([calls[n].command for n in left])
            replies.update(zip(left, found, strict=True))
            left = [n for n in left if isinstance(replies[n], NoScriptError)]
            if left:  # each server is sent it once, and may forget it at any time
                first = left.pop(0)
                replies[first] = await self._evaluate_once(calls[first])
        for reply in replies.values():
            if isinstance(reply, Exception):
                raise reply
        return [replies[number] for number in range(len(calls))]

    async def _evaluate(self, call: Evaluation, error: Exception | None = None) -> Any:
        """Make *call*, or go on with it after *error*."""
        if not is_readonly(error):
            try:
                return await self._evaluate_once(call, error)
            except ResponseError as refusal:
                if not is_readonly(refusal):
                    raise
        await self._servers.drop(call.made)
        return await self._evaluate_once(call)

    async def _evaluate_once(
        self, call: Evaluation, error: Exception | None = None
    ) -> Any:
        if error is not None and not isinstance(error, _NOT_RUN):
            raise error
        if not isinstance(error, NoScriptError):
            with contextlib.suppress(NoScriptError):
                return await self._servers.call(call.key, call.by_name(), call.seconds)
        return await self._servers.call(call.key, call.in_full(), call.seconds)

    def _unavailable(self, error: Exception) -> LedgerUnavailableError:
        if reason_of(error) == NEWER_FORMAT:
            newer = NewerFormatError("written by a newer Tokenweir: upgrade this one")
            self._events.fault("ledger", newer)
            return newer
        is_answer = isinstance(error, ResponseError | ValueError)
        if is_answer and not is_state(error):
            self._events.fault("ledger", error)
            return LedgerRefusedError(f"refused: {type(error).__name__}")
        return LedgerUnavailableError(f"no answer: {reason_of(error)}")

    def _ended(self, call: asyncio.Task[Any]) -> None:
        self._calls.discard(call)
        # Whoever waited for it may be gone: then nobody else asks how it ended.
        if not call.cancelled():
            call.exception()


def _packed_all(commands: Sequence[Command]) -> list[list[str | bytes]]:
    # Names stay text, by which redis-py knows how to read the answer.
    return [[str(name), *packed(rest)] for name, *rest in commands]
