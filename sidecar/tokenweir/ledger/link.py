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

Nothing else is: after a timeout or a broken connection the call may have been
applied. Calls are idempotent by hold id, so who wants to repeat one can.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
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

from tokenweir.core.errors import LedgerRefusedError, LedgerUnavailableError
from tokenweir.ledger.pool import PatientPool
from tokenweir.ledger.scripts import Script
from tokenweir.ledger.store import Contact
from tokenweir.ledger.wire import Argument
from tokenweir.telemetry.hooks import LedgerEvents

DEADLINE_SECONDS = 0.2

# For what no exchange waits for: sweeping and reading back.
PATIENT_SECONDS = 5.0

# At once. More calls than that wait for each other: one Redis thread runs them all.
MAX_CONNECTIONS = 32

# How many commands go out together, so that no reply has to be kept waiting long.
BATCH = 128

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

Command = Sequence[Argument]
Attempt = Callable[[], Awaitable[Any]]


class Link:
    """
    A pool of connections to one Redis or Valkey server.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``.
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
        # Errors are ours to judge, so redis-py repeats nothing.
        retry = Retry(NoBackoff(), 0)
        self._pool = PatientPool.from_url(url, retry=retry)
        self._client = Redis.from_pool(self._pool)
        self._execute: Callable[..., Awaitable[Any]] = self._client.execute_command
        self._events = events
        self._deadline_seconds = deadline_seconds
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
        self._calls: set[asyncio.Task[Any]] = set()
        self._contact = Contact()

    @property
    def contact(self) -> Contact:
        """How long ago the server was heard of; what it refuses is no answer."""
        return self._contact

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
        packed = _packed([key, *arguments])
        seconds = self._deadline_seconds
        if patient:
            seconds = max(seconds, PATIENT_SECONDS)
        return await self._call(
            script.name, lambda: self._evaluate(script, packed), seconds
        )

    async def ping(self) -> None:
        """Ask for any answer. Raises like `run`."""
        await self._call("ping", lambda: self._execute("PING"), self._deadline_seconds)

    async def info(self, section: str) -> Mapping[str, Any] | None:
        """
        Return a *section* of what the server tells of itself, patiently.

        None: this user may not ask, or the server does not tell. Raises like `run`.
        """
        found: Mapping[str, Any] | None = await self._timed(
            "info", lambda: self._if_told("INFO", section), PATIENT_SECONDS
        )
        return found

    async def run_all(
        self, script: Script, keys: Sequence[str], arguments: Command
    ) -> list[Any]:
        """Run *script* once for each of *keys*, patiently. Raises like `run`."""
        load: Command = ("SCRIPT", "LOAD", script.source)
        commands: list[Command] = []
        for number, key in enumerate(keys):
            if number % (BATCH - 1) == 0:  # it may be flushed between two batches
                commands.append(load)
            commands.append(("EVALSHA", script.sha, 1, key, *arguments))
        replies = await self._timed(
            script.name, lambda: self._pipelined(commands), PATIENT_SECONDS
        )
        answered = zip(commands, replies, strict=True)
        return [reply for command, reply in answered if command is not load]

    async def read(
        self, commands: Sequence[Command], *, verb: str = "read"
    ) -> list[Any]:
        """
        Return what *commands* answer, patiently. Raises like `run`.

        *verb* is what the call is reported as.
        """
        replies = await self._timed(
            verb, lambda: self._pipelined(commands), PATIENT_SECONDS
        )
        return list(replies)

    async def close(self) -> None:
        """Wait for the calls in flight and give connections back."""
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._client.aclose()
        await self._pool.aclose()

    async def _call(self, verb: str, attempt: Attempt, deadline_seconds: float) -> Any:
        call = asyncio.create_task(self._timed(verb, attempt, deadline_seconds))
        self._calls.add(call)
        call.add_done_callback(self._ended)
        return await asyncio.shield(call)

    async def _timed(self, verb: str, attempt: Attempt, deadline_seconds: float) -> Any:
        started = time.perf_counter()
        reason = "CancelledError"
        try:
            async with asyncio.timeout(deadline_seconds), self._free:
                reply = await attempt()
            reason = ""
        # redis-py raises ValueError on errors that it can't take apart.
        except (RedisError, OSError, TimeoutError, ValueError) as error:
            reason = _reason(error)
            raise self._unavailable(error) from error
        finally:
            seconds = time.perf_counter() - started
            self._note(is_answer=not reason)
            self._events.ledger_call(verb, seconds, failed=bool(reason), reason=reason)
        return reply

    def _note(self, *, is_answer: bool) -> None:
        if is_answer:
            self._contact = Contact(time.monotonic())
        else:
            missed = self._contact.unanswered + 1
            self._contact = replace(self._contact, unanswered=missed)

    async def _if_told(self, *command: str) -> Any:
        try:
            return await self._execute(*command)
        except ResponseError:
            return None

    async def _pipelined(self, commands: Sequence[Command]) -> list[Any]:
        replies: list[Any] = []
        for start in range(0, len(commands), BATCH):
            pipeline = self._client.pipeline(transaction=False)
            for name, *arguments in commands[start : start + BATCH]:
                pipeline.execute_command(str(name), *_packed(arguments))
            replies += await pipeline.execute()
        return replies

    async def _evaluate(self, script: Script, packed: list[bytes]) -> Any:
        try:
            return await self._evaluate_once(script, packed)
        except ResponseError as error:
            if not (isinstance(error, ReadOnlyError) or "READONLY" in str(error)):
                raise
        await self._pool.disconnect(inuse_connections=False)
        return await self._evaluate_once(script, packed)

    async def _evaluate_once(self, script: Script, packed: list[bytes]) -> Any:
        try:
            return await self._execute("EVALSHA", script.sha, 1, *packed)
        except NoScriptError:
            return await self._execute("EVAL", script.source, 1, *packed)

    def _unavailable(self, error: Exception) -> LedgerUnavailableError:
        is_answer = isinstance(error, ResponseError | ValueError)
        if is_answer and not _is_state(error):
            self._events.fault("ledger", error)
            return LedgerRefusedError(f"refused: {type(error).__name__}")
        return LedgerUnavailableError(f"no answer: {type(error).__name__}")

    def _ended(self, call: asyncio.Task[Any]) -> None:
        self._calls.discard(call)
        # Whoever waited for it may be gone: then nobody else asks how it ended.
        if not call.cancelled():
            call.exception()


def _reason(error: Exception) -> str:
    """Return what to call *error*: its type, or the word that the server has for it."""
    if type(error) is ResponseError:
        text = str(error)
        return next((w for w in _UNAVAILABLE_WORDS if w in text), "ResponseError")
    return type(error).__name__


def _is_state(error: Exception) -> bool:
    """Tell if *error* says in which state the server is, and not what we did wrong."""
    return isinstance(error, _UNAVAILABLE) or any(
        word in str(error) for word in _UNAVAILABLE_WORDS
    )


def _packed(command: Command) -> list[bytes]:
    """Return *command* as bytes: text out of a request need not be valid Unicode."""
    return [str(argument).encode("utf-8", "replace") for argument in command]
