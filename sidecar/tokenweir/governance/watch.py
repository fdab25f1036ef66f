"""
Following what is published.

Once an interval the newest versions are asked for. One that was not seen before is
read, verified, and handed to whoever takes it. What can't be used (forged, damaged, not
newer than what is in force, or not valid here) is told once and changes nothing; it
is tried again when a newer one is published, when a file that it refers to has
changed, or when an operator asks.

A start begins with what is kept on disk, and then looks into the ledger. If there is
nothing good in either place, older versions in the ledger are tried, the newest first:
a pod that starts while a broken one is published comes up like the others.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tokenweir.config.watch import PolicyEvents
from tokenweir.core.errors import LedgerUnavailableError, PolicyError
from tokenweir.ending import end_tasks
from tokenweir.governance.envelope import Envelope, EnvelopeError, verify
from tokenweir.governance.last_good import LastGood
from tokenweir.governance.takers import Taker

# Every processor of a fleet asks as often, so they must not fall into step.
INTERVAL_SECONDS = 1.0
_SHORTEST = 0.7
# For a ledger that does not answer, at a start.
START_SECONDS = 2.0
# How far a start without anything goes back.
WALK_VERSIONS = 10


class Source(Protocol):
    """Where envelopes are read: see `tokenweir.governance.channel.Channel`."""

    async def versions(self) -> dict[str, int]:
        """Return the newest version of each document; 0: there is none."""

    async def read(self, name: str, version: int) -> Envelope | None:
        """Return a version, unverified; None: it is not there."""

    async def history(self, name: str, count: int) -> list[Envelope]:
        """Return up to *count* versions, unverified, the newest first."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    What was not used.

    Attributes:
        version: Of the document; 0: not known.
        problems: Why, a line each.
        envelope: What it was, if it was signed and may do another time.
    """

    version: int
    problems: tuple[str, ...]
    envelope: Envelope | None = None


@dataclass(slots=True)
class _Followed:
    """One document."""

    taker: Taker
    in_force: Envelope | None = None
    refusal: Refusal | None = None
    looked_at: int | None = None
    source: str = "ledger"

    @property
    def version(self) -> int:
        """The version in force; 0: none."""
        return self.in_force.version if self.in_force else 0


class Watcher:
    """
    Follows documents. Used within one event loop.

    Args:
        source: Where they are published.
        public_keys: Whose signatures count.
        takers: By name of the document.
        events: Told of what is refused.
        last_good: Keeps what is in force; None: nobody does, so that a start waits for
            the ledger as long as it takes.
        interval_seconds: The longest time between two looks.
    """

    def __init__(
        self,
        source: Source,
        public_keys: Sequence[Ed25519PublicKey],
        takers: Mapping[str, Taker],
        events: PolicyEvents,
        last_good: LastGood | None,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._source = source
        self._public_keys = public_keys
        self._followed = {name: _Followed(taker) for name, taker in takers.items()}
        self._events = events
        self._last_good = last_good
        self._interval_seconds = interval_seconds
        self._silence: str | None = "has not been asked yet"
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def refusals(self) -> Mapping[str, Refusal]:
        """What can't be used at present, by document."""
        return {
            name: followed.refusal
            for name, followed in self._followed.items()
            if followed.refusal is not None
        }

    @property
    def silence(self) -> str | None:
        """Why the ledger does not tell what is published; None: it does."""
        return self._silence

    async def first(self) -> None:
        """Look on disk, then into the ledger, unless that takes too long."""
        for name, followed in self._followed.items():
            try:
                await self._recall(name, followed)
            except Exception as error:  # noqa: BLE001 -- the ledger may do better
                self._events.fault("last_good", error)
        try:
            patience = None if self._last_good is None else START_SECONDS
            async with asyncio.timeout(patience):
                await self._look(asked=False)
        except TimeoutError:
            self._silence = f"no answer for {START_SECONDS:.0f} s"

    def start(self) -> None:
        """Follow from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Follow no longer. May be called without `start`."""
        task, self._task = self._task, None
        await end_tasks(task, where="governance", on_fault=self._events.fault)

    def reload(self) -> None:
        """Look now, and try again what was refused: an operator has asked."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            asked = await self._wait()
            await self._look(asked=asked)

    async def _wait(self) -> bool:
        share = _SHORTEST + (1 - _SHORTEST) * random.random()  # noqa: S311 - no secret
        try:
            async with asyncio.timeout(self._interval_seconds * share):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True

    async def _recall(self, name: str, followed: _Followed) -> None:
        if self._last_good is None:
            return
        try:
            kept = await asyncio.to_thread(self._last_good.read, name)
        except EnvelopeError as error:
            self._refuse(name, followed, Refusal(0, (str(error),)))
            return
        if kept is not None:
            await self._take(name, followed, kept, "last_good")

    async def _look(self, *, asked: bool) -> None:
        try:
            newest = await self._versions()
            for name, followed in self._followed.items():
                if newest is None:
                    await self._refresh(name, followed)
                else:
                    version = newest.get(name, 0)
                    await self._follow(name, followed, version, asked=asked)
        except LedgerUnavailableError as error:
            self._silence = str(error)
        except Exception as error:  # noqa: BLE001 -- the next version must be seen
            self._events.fault("governance", error)

    async def _versions(self) -> dict[str, int] | None:
        try:
            newest = await self._source.versions()
        except LedgerUnavailableError as error:
            self._silence = str(error)
            return None
        self._silence = None
        return newest

    async def _follow(
        self, name: str, followed: _Followed, newest: int, *, asked: bool
    ) -> None:
        if newest == followed.looked_at and not asked:
            await self._refresh(name, followed)
            return
        await self._newest(name, followed, newest)
        followed.looked_at = newest

    async def _newest(self, name: str, followed: _Followed, newest: int) -> None:
        """Act on the *newest* version there is. Raises: LedgerUnavailableError."""
        followed.refusal = None
        in_force = followed.in_force
        if in_force is not None and newest == in_force.version:
            await self._take(name, followed, in_force, "ledger")
        elif newest < followed.version:
            # An older one again, or none: the ledger was restored, or emptied.
            kept = self._last_good.path(name) if self._last_good else f"{name}.json"
            problem = (
                f"is no newer than {followed.version}, which stays in force: bring that "
                f"back with `tokenweir policy restore {kept}`, or "
                f"publish with --above {followed.version}"
            )
            self._refuse(name, followed, Refusal(newest, (problem,)))
        elif newest:
            await self._read(name, followed, newest)
            if followed.in_force is None:
                await self._walk_back(name, followed, newest)

    async def _read(self, name: str, followed: _Followed, version: int) -> None:
        try:
            envelope = await self._source.read(name, version)
        except EnvelopeError as error:
            self._refuse(name, followed, Refusal(version, (str(error),)))
            return
        if envelope is None:
            problem = "is not there, though it is said to be"
            self._refuse(name, followed, Refusal(version, (problem,)))
            return
        await self._judge(name, followed, envelope)

    async def _judge(self, name: str, followed: _Followed, envelope: Envelope) -> None:
        try:
            verify(envelope, self._public_keys)
        except EnvelopeError as error:
            self._refuse(name, followed, Refusal(envelope.version, (str(error),)))
        else:
            await self._take(name, followed, envelope, "ledger")

    async def _walk_back(self, name: str, followed: _Followed, newest: int) -> None:
        """Try the versions before *newest*; that one stays refused."""
        refusal = followed.refusal
        for envelope in await self._source.history(name, WALK_VERSIONS):
            if followed.in_force is None and envelope.version < newest:
                await self._judge(name, followed, envelope)
        followed.refusal = refusal

    async def _refresh(self, name: str, followed: _Followed) -> None:
        """Read again what refers to files that have changed."""
        refused = followed.refusal.envelope if followed.refusal else None
        for envelope in (followed.in_force, refused):
            if envelope and await followed.taker.outdated(envelope.version):
                await self._take(name, followed, envelope, followed.source)

    async def _take(
        self, name: str, followed: _Followed, envelope: Envelope, source: str
    ) -> None:
        try:
            await followed.taker.take(envelope, source)
        except PolicyError as error:
            refusal = Refusal(envelope.version, error.problems, envelope)
            self._refuse(name, followed, refusal)
            return
        followed.in_force, followed.source = envelope, source
        if followed.refusal and followed.refusal.version <= envelope.version:
            followed.refusal = None
        if self._last_good is None:
            return
        try:
            await asyncio.to_thread(self._last_good.write, envelope)
        except OSError as error:
            self._events.fault("last_good", error)

    def _refuse(self, name: str, followed: _Followed, refusal: Refusal) -> None:
        followed.refusal = refusal
        what = f"{name} {refusal.version}" if refusal.version else name
        self._events.policy_refused(
            tuple(f"{what}: {problem}" for problem in refusal.problems)
        )
