"""
The way to Redis: deadlines, connections, and what its errors mean.

A call has until its deadline, waiting for a connection and connecting included.
It is a task of its own: a caller that is cancelled leaves it to end by itself, so
that no reply is left in a connection and no connection is lost. A connection that
takes longer than its call is there for the next one: see `tokenweir.ledger.pool`.

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
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
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
from tokenweir.ledger import keys as ledger_keys
from tokenweir.ledger.credentials import PasswordFileError
from tokenweir.ledger.scripts import Script
from tokenweir.ledger.servers import connect
from tokenweir.ledger.store import Contact
from tokenweir.ledger.wire import Argument
from tokenweir.telemetry.hooks import LedgerEvents

DEADLINE_SECONDS = 0.2

# For what no exchange waits for: sweeping and reading back.
PATIENT_SECONDS = 5.0

# Keys that a server looks at in one step of a search.
SCAN_COUNT = 1_000

# What a server says that is in no state to answer, or that does not answer us: one node
# of a cluster (a MovedError is an AskError), or one with other ideas of our rights.
# Anything else is our mistake, and a fault.
_UNAVAILABLE = (
    AskError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)
# The same, and more, as servers before Redis 7 wrap it into a script's error.
_UNAVAILABLE_WORDS = (
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOPERM",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
)

# Why a greeting came to nothing.
_UNGREETED = (ssl.SSLError, AuthenticationError, PasswordFileError)

# What our scripts say of a tag that a newer version has written.
_NEWER_FORMAT = "NEWFORMAT"

Command = Sequence[Argument]
Attempt = Callable[[], Awaitable[Any]]
_Packed = list[bytes]


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
        packed = _packed([*_named(script, key), *arguments])
        seconds = self._deadline_seconds
        if patient:
            seconds = max(seconds, PATIENT_SECONDS)
        return await self._call(
            script.name, lambda: self._evaluate(script, packed), seconds
        )

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
        packed = [_packed([*_named(script, key), *arguments]) for key in keys]
        found: list[Any] = await self._timed(
            script.name, lambda: self._evaluate_all(script, packed), PATIENT_SECONDS
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
        """Wait for the calls in flight and give connections back."""
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._servers.close()

    async def _call(self, verb: str, attempt: Attempt, deadline_seconds: float) -> Any:
        call = asyncio.create_task(self._timed(verb, attempt, deadline_seconds))
        self._calls.add(call)
        call.add_done_callback(self._ended)
        return await asyncio.shield(call)

    async def _timed(self, verb: str, attempt: Attempt, deadline_seconds: float) -> Any:
        started = time.perf_counter()
        reason = "CancelledError"
        try:
            async with asyncio.timeout(deadline_seconds):
                reply = await attempt()
            reason = ""
        # redis-py raises ValueError on errors that it can't take apart.
        except (RedisError, OSError, TimeoutError, ValueError) as error:
            reason = reason_of(error)
            self._broken += isinstance(error, RedisConnectionError)
            raise self._unavailable(error) from error
        finally:
            seconds = time.perf_counter() - started
            self._note(is_answer=not reason)
            self._events.ledger_call(verb, seconds, failed=bool(reason), reason=reason)
        return reply

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

    async def _evaluate_all(self, script: Script, packed: list[_Packed]) -> list[Any]:
        """Run *script* for each of *packed*, at once where it is known."""
        replies: dict[int, Any] = {}
        left = list(range(len(packed)))
        while left:
            found = await self._servers.pipelined(
                [("EVALSHA", script.sha, _keys_of(script), *packed[n]) for n in left]
            )
            replies.update(zip(left, found, strict=True))
            left = [n for n in left if isinstance(replies[n], NoScriptError)]
            if left:  # each server is sent it once, and may forget it at any time
                first = left.pop(0)
                replies[first] = await self._evaluate_once(script, packed[first])
        for reply in replies.values():
            if isinstance(reply, Exception):
                raise reply
        return [replies[number] for number in range(len(packed))]

    async def _evaluate(self, script: Script, packed: _Packed) -> Any:
        began = time.monotonic()
        try:
            return await self._evaluate_once(script, packed)
        except ResponseError as error:
            if not (isinstance(error, ReadOnlyError) or "READONLY" in str(error)):
                raise
        await self._servers.drop(began)
        return await self._evaluate_once(script, packed)

    async def _evaluate_once(self, script: Script, packed: _Packed) -> Any:
        execute, count = self._servers.execute, _keys_of(script)
        try:
            return await execute("EVALSHA", script.sha, count, *packed)
        except NoScriptError:
            return await execute("EVAL", script.source, count, *packed)

    def _unavailable(self, error: Exception) -> LedgerUnavailableError:
        if reason_of(error) == _NEWER_FORMAT:
            newer = NewerFormatError("written by a newer Tokenweir: upgrade this one")
            self._events.fault("ledger", newer)
            return newer
        is_answer = isinstance(error, ResponseError | ValueError)
        if is_answer and not _is_state(error):
            self._events.fault("ledger", error)
            return LedgerRefusedError(f"refused: {type(error).__name__}")
        return LedgerUnavailableError(f"no answer: {reason_of(error)}")

    def _ended(self, call: asyncio.Task[Any]) -> None:
        self._calls.discard(call)
        # Whoever waited for it may be gone: then nobody else asks how it ended.
        if not call.cancelled():
            call.exception()


def reason_of(error: BaseException) -> str:
    """Return what to call *error*: its type, or the word that the server has for it."""
    if type(error) is ResponseError:
        text = str(error)
        words = (_NEWER_FORMAT, *_UNAVAILABLE_WORDS)
        return next((word for word in words if word in text), "ResponseError")
    cause: BaseException | None = error
    while cause is not None:  # redis-py takes whatever ends a handshake for the same
        if isinstance(cause, _UNGREETED):
            return type(cause).__name__
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def _is_state(error: Exception) -> bool:
    """Tell if *error* says in which state the server is, and not what we did wrong."""
    return isinstance(error, _UNAVAILABLE) or any(
        word in str(error) for word in _UNAVAILABLE_WORDS
    )


def _named(script: Script, key: str) -> list[str]:
    """Return the keys that *script* is given."""
    return [key, ledger_keys.guard(key)] if script.is_rooted else [key]


def _keys_of(script: Script) -> int:
    return 2 if script.is_rooted else 1


def _packed(command: Command) -> _Packed:
    """Return *command* as bytes: text out of a request need not be valid Unicode."""
    return [str(argument).encode("utf-8", "replace") for argument in command]


def _packed_all(commands: Sequence[Command]) -> list[list[str | bytes]]:
    # Names stay text, by which redis-py knows how to read the answer.
    return [[str(name), *_packed(rest)] for name, *rest in commands]
