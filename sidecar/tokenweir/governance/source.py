"""
Where a processor has its policy from: a file, or the ledger; and its issued keys.

Signatures are only verified, and their library only imported, where something
published is followed.
"""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenweir.config.outside import LookUp, look_up
from tokenweir.config.watch import PolicyWatcher, Prepare, nothing_to_prepare
from tokenweir.core.policy import Policy
from tokenweir.governance.in_force import InForce
from tokenweir.ledger.link import Link
from tokenweir.telemetry.hooks import Events

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from tokenweir.governance.watch import Watcher

# How often it is looked if there is a policy by now.
AWAIT_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """
    Attributes:
        path: The policy file; None: the policy is published in the ledger.
        public_keys: Of those who may publish; empty: nothing published is followed.
        last_good: Folder that keeps what was published last; None: none does.
        look: How secrets and prices of a published policy are looked up.
    """

    path: pathlib.Path | None
    public_keys: Sequence[Ed25519PublicKey] = ()
    last_good: pathlib.Path | None = pathlib.Path("tokenweir-last-good")
    look: LookUp = look_up


class PolicySource:
    """
    Follows a policy and issued keys.

    Args:
        settings: Where they are.
        env: The environment that ``env:NAME`` means in a policy.
        link: To the ledger.
        use: Is given each snapshot that is in force from then on.
        events: Told of each, and of what can't be used.
        prepare: See `tokenweir.config.watch.PolicyWatcher`.

    Attributes:
        in_force: What is in force.
    """

    def __init__(
        self,
        settings: SourceSettings,
        env: Mapping[str, str],
        link: Link,
        use: Callable[[Policy], None],
        events: Events,
        *,
        prepare: Prepare = nothing_to_prepare,
    ) -> None:
        self.in_force = in_force = InForce(use, events)
        self._file: PolicyWatcher | None = None
        if settings.path:
            self._file = PolicyWatcher(
                settings.path, env, in_force.take_policy, in_force, prepare=prepare
            )
        self._published: Watcher | None = None
        if settings.public_keys:
            self._published = _watcher(settings, env, link, in_force, prepare)

    async def first(self, policy: Policy | None) -> None:
        """
        Return once something is in force.

        *policy* is the file's. Without one it may take for ever; see `awaited`.
        """
        await self.look(policy)
        if self._published is not None:
            self._published.start()
        if policy is not None:
            if self._file is not None:
                self._file.start(policy)
            self.in_force.policy_loaded(policy.digest)
        # Polled: it comes from a task that nobody else waits for, once.
        while self.in_force.policy is None:  # noqa: ASYNC110
            await asyncio.sleep(AWAIT_SECONDS)

    async def look(self, policy: Policy | None) -> None:
        """Look once; see `awaited` if nothing is in force then. *policy*: see `first`."""
        if policy is not None:
            self.in_force.take_policy(policy)
        if self._published is not None:
            await self._published.first()

    async def stop(self) -> None:
        """Follow no longer. May be called without `first`."""
        if self._file is not None:
            await self._file.stop()
        if self._published is not None:
            await self._published.stop()

    def reload(self) -> None:
        """Look everywhere now: an operator has asked."""
        for watcher in (self._file, self._published):
            if watcher is not None:
                watcher.reload()

    def awaited(self) -> str:
        """Return what is missing as long as no policy is in force."""
        watcher = self._published
        if watcher is None:
            return "none is loaded"
        if watcher.refusals:
            return f"what was published can't be used: {'; '.join(_told(watcher))}"
        if watcher.silence is not None:
            return (
                "no last good one is on disk, and the ledger does not tell what is "
                f"published: {watcher.silence}"
            )
        return "none is published: `tokenweir policy publish` does"

    @property
    def silence(self) -> str | None:
        """Why the ledger does not tell what is published; None: it does, or is not asked."""
        return self._published.silence if self._published else None

    @property
    def refused(self) -> tuple[str, ...]:
        """What is published and can't be used, a line each with the first problem."""
        return tuple(_told(self._published)) if self._published else ()

    def described(self) -> Mapping[str, object]:
        """Return what is in force and what is refused, for operators."""
        shown = dict(self.in_force.described())
        watcher = self._published
        if self.in_force.policy is None:
            shown["awaited"] = self.awaited()
        if watcher is not None:
            shown["ledger"] = watcher.silence or "ok"
            shown["refused"] = {
                name: {"version": each.version, "problems": list(each.problems)}
                for name, each in watcher.refusals.items()
            }
        return shown


def _watcher(
    settings: SourceSettings,
    env: Mapping[str, str],
    link: Link,
    in_force: InForce,
    prepare: Prepare,
) -> Watcher:
    from tokenweir.governance import envelope  # noqa: PLC0415 -- see above
    from tokenweir.governance.channel import Channel  # noqa: PLC0415
    from tokenweir.governance.last_good import LastGood  # noqa: PLC0415
    from tokenweir.governance.takers import (  # noqa: PLC0415
        KeysTaker,
        PolicyTaker,
        Taker,
    )
    from tokenweir.governance.watch import Watcher  # noqa: PLC0415

    takers: dict[str, Taker] = {envelope.KEYS: KeysTaker(in_force)}
    if settings.path is None:
        policies = PolicyTaker(in_force, env, settings.look, prepare)
        takers = {envelope.POLICY: policies, **takers}
    keys = settings.public_keys
    kept = LastGood(settings.last_good, keys) if settings.last_good else None
    return Watcher(Channel(link), keys, takers, in_force, kept)


def _told(watcher: Watcher) -> list[str]:
    return [
        f"{name} {each.version}: {each.problems[0]}"
        for name, each in watcher.refusals.items()
    ]
