"""
A policy that is followed while it changes.

Everything that a policy is made from is read again once an interval, and
compared by content. A change is acted on when two reads in a row have found the
same: a file that is being written in place is not taken for a policy that ends
early, for YAML that is cut off may still be a policy, of fewer tenants.

What can't be used changes nothing: the last good policy stays.
"""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from tokenweir.config.files import Files
from tokenweir.config.load import load_policy
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy
from tokenweir.ending import end_tasks


class PolicyEvents(Protocol):
    """What a watcher tells: the part of `tokenweir.telemetry.hooks.Events` it needs."""

    def policy_loaded(self, digest: str) -> None:
        """A policy snapshot is in use from now on."""

    def policy_refused(self, problems: tuple[str, ...]) -> None:
        """A changed policy can't be used: the last good one stays."""

    def fault(self, where: str, error: BaseException) -> None:
        """Something of ours broke."""


Prepare = Callable[[Policy], Awaitable[None]]


async def nothing_to_prepare(_: Policy) -> None:
    """Is a `Prepare` where nobody else has to know of a policy."""


class PolicyWatcher:
    """
    Hands changed policies on. Used within one event loop; files are read in a thread.

    Args:
        path: The policy file, or a symlink to it.
        env: The environment that ``env:NAME`` means.
        on_change: Is given each new snapshot, in the event loop.
        events: Is told which were loaded and which refused.
        interval_s: Between two reads.
        prepare: Has done what must be done before a policy is handed on; raises
            PolicyError if that can't be done.
    """

    def __init__(
        self,
        path: pathlib.Path,
        env: Mapping[str, str],
        on_change: Callable[[Policy], None],
        events: PolicyEvents,
        interval_s: float = 1.0,
        *,
        prepare: Prepare = nothing_to_prepare,
    ) -> None:
        self._prepare = prepare
        self._path = path
        self._env = env
        self._on_change = on_change
        self._events = events
        self._interval_s = interval_s
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._policy: Policy | None = None
        self._refused = False
        # What was read when it was last acted on, and when it was last looked at.
        self._files = Files()
        self._last_seen: Mapping[pathlib.Path, str] = {}

    def start(self, policy: Policy | None = None) -> None:
        """Begin. *policy* is the one that is in use: it is not handed on again."""
        self._policy = policy
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End. Nothing is handed on from now on."""
        task, self._task = self._task, None
        await end_tasks(task, where="policy_watcher", on_fault=self._events.fault)

    def reload(self) -> None:
        """Read everything now and act on it, changed or not: an operator has asked."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            asked = await self._wait()
            try:
                await self._look(asked=asked)
            except Exception as error:  # noqa: BLE001 -- the next policy must be seen
                self._events.fault("policy_watcher", error)

    async def _wait(self) -> bool:
        try:
            async with asyncio.timeout(self._interval_s):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True

    async def _look(self, *, asked: bool) -> None:
        now = await asyncio.to_thread(self._files.now)
        if now and now == self._files.seen and not asked:
            self._last_seen = now
            return
        files = Files()
        outcome = await asyncio.to_thread(self._load, files)
        settled = files.seen == self._last_seen
        self._last_seen = files.seen
        if settled or asked:
            self._files = files
            self._act(await self._prepared(outcome), asked=asked)

    def _load(self, files: Files) -> Policy | PolicyError:
        try:
            return load_policy(self._path, self._env, files=files)
        except PolicyError as error:
            return error

    async def _prepared(self, outcome: Policy | PolicyError) -> Policy | PolicyError:
        if isinstance(outcome, PolicyError) or outcome == self._policy:
            return outcome
        try:
            await self._prepare(outcome)
        except PolicyError as error:
            return error
        return outcome

    def _act(self, outcome: Policy | PolicyError, *, asked: bool) -> None:
        if isinstance(outcome, PolicyError):
            self._refused = True
            self._events.policy_refused(outcome.problems)
            return
        changed = outcome != self._policy
        if changed:
            self._on_change(outcome)
            self._policy = outcome
        if changed or asked or self._refused:
            self._refused = False
            self._events.policy_loaded(outcome.digest)
