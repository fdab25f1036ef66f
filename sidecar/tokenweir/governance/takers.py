"""What becomes of a document that is signed and new: it is read, and put in force."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tokenweir.config.files import Files
from tokenweir.config.issued_keys import parse_issued_keys
from tokenweir.config.load import parse_policy
from tokenweir.config.outside import LookUp, look_up
from tokenweir.config.watch import Prepare, nothing_to_prepare
from tokenweir.governance.envelope import Envelope
from tokenweir.governance.in_force import InForce, IssuedKeys
from tokenweir.telemetry.hooks import Origin


class Taker(Protocol):
    """Uses the versions of one document."""

    async def take(self, envelope: Envelope, source: str) -> None:
        """
        Put *envelope*, which is verified, in force. *source* is as in `Origin`.

        Raises: PolicyError, if it can't be used here: then nothing has changed.
        """

    async def outdated(self, version: int) -> bool:
        """Tell if files that *version* refers to have changed since it was read."""


@dataclass(slots=True)
class _Read:
    """Files that a version refers to: as they were when it was read, and last seen."""

    files: Files
    last_seen: Mapping[pathlib.Path, str] = field(default_factory=dict)


class PolicyTaker:
    """
    Takes policies.

    Args:
        in_force: Where they go.
        env: The environment that ``env:NAME`` means in them.
        look: How secrets and prices are looked up.
        prepare: See `tokenweir.config.watch.PolicyWatcher`.
    """

    def __init__(
        self,
        in_force: InForce,
        env: Mapping[str, str],
        look: LookUp = look_up,
        prepare: Prepare = nothing_to_prepare,
    ) -> None:
        self._prepare = prepare
        self._in_force = in_force
        self._env = env
        self._look = look
        # Of the one in force, and of a newer one that could not be used.
        self._read: dict[int, _Read] = {}

    async def take(self, envelope: Envelope, source: str) -> None:
        """See `Taker`."""
        files = Files()
        try:
            policy = await asyncio.to_thread(
                parse_policy,
                envelope.content.encode(),
                self._env,
                files=files,
                look=self._look,
            )
        finally:
            self._read[envelope.version] = _Read(files, files.seen)
            for version in sorted(self._read)[:-2]:
                del self._read[version]
        origin = Origin(
            source,
            envelope.version,
            envelope.by,
            envelope.published_at_ms,
            envelope.comment,
        )
        await self._prepare(policy)
        self._in_force.take_policy(policy, origin)
        self._in_force.policy_loaded(policy.digest)

    async def outdated(self, version: int) -> bool:
        """See `Taker`. A change counts once it was seen twice: it may be half written."""
        read = self._read.get(version)
        if read is None or not read.files.seen:
            return False
        now = await asyncio.to_thread(read.files.now)
        settled, read.last_seen = now == read.last_seen, now
        return settled and now != read.files.seen


class KeysTaker:
    """Takes issued keys, to *in_force*."""

    def __init__(self, in_force: InForce) -> None:
        self._in_force = in_force

    async def take(self, envelope: Envelope, source: str) -> None:
        """See `Taker`."""
        del source  # it is told of policies only
        entries = await asyncio.to_thread(parse_issued_keys, envelope.content)
        self._in_force.take_keys(
            IssuedKeys(entries, envelope.version, envelope.by, envelope.published_at_ms)
        )
        if self._in_force.policy is not None:
            self._in_force.policy_loaded(self._in_force.policy.digest)

    async def outdated(self, version: int) -> bool:
        """See `Taker`. Keys refer to no files."""
        del version
        return False
