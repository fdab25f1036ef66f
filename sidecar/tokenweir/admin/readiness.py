"""
Whether this processor can take exchanges, and if not, what is missing.

Theory of operation. A pod that is not ready gets no traffic, and the ledger is the
same for all pods: so its silence must be real before it counts. It is real if nothing
was answered (no call of an exchange, of the sweeper, no ping) for `PATIENCE_S` and for
`PATIENCE_CALLS` calls in a row; the first answer ends it. Readiness asks whether the
ledger is there, not whether it does what it is asked: one that only refuses (a replica,
full memory) makes no pod unready, since another pod would fare no better.

Where the policy admits some caller without the ledger (`on_ledger_failure: open`, in
the quotas of its key too), the pod is of use without it, and stays ready.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.identify import Caller
from tokenweir.core.policy import ApiKey, KeyEnd, OnLedgerFailure, Policy
from tokenweir.ledger.store import Contact

OK = "ok"
# Shorter, and a failover of Redis would take every pod out of service at once.
PATIENCE_S = 10.0
# Calls and pings in a row without an answer. One that is slow says nothing, however
# long ago the one before it was.
PATIENCE_CALLS = 3


@dataclass(frozen=True, slots=True)
class Readiness:
    """
    What a readiness probe is told.

    Attributes:
        ready: Whether to send exchanges here.
        checks: By name: ``"ok"``, or what is wrong.
    """

    ready: bool
    checks: Mapping[str, str]


class ReadinessProbe:
    """
    Asks what readiness depends on, at each call.

    Args:
        policy: Returns the policy in use, or why there is none.
        ping: Asks the ledger for an answer (`Ledger.ping`).
        contact: Tells how long ago it answered anything: real calls too.
        stale: Returns what of the policy Envoy was not rendered from; None: unknown.
            It is told, but keeps nobody from coming: the rest is served.
        patience_s: How long the ledger may be silent.
        clock: Seconds, monotonic.

    Attributes:
        draining: Set it once no new exchanges are taken.
    """

    def __init__(
        self,
        policy: Callable[[], Policy | str],
        ping: Callable[[], Awaitable[None]],
        contact: Callable[[], Contact],
        *,
        stale: Callable[[], tuple[str, ...] | None] = lambda: None,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.draining = False
        self._policy = policy
        self._ping = ping
        self._contact = contact
        self._stale = stale
        self._patience_s = patience_s
        self._clock = clock

    async def __call__(self) -> Readiness:
        """Return whether exchanges can be taken now."""
        policy = self._policy()
        silence = await self._ledger_silence()
        missing = {
            "draining": "no new exchanges are taken" if self.draining else None,
            "policy": policy if isinstance(policy, str) else None,
            # There may be many keys, so they are looked at only if it matters.
            "ledger": silence if silence and _closed_without_ledger(policy) else None,
        }
        checks = {name: problem or OK for name, problem in missing.items()}
        if silence and checks["ledger"] == OK:
            admits = isinstance(policy, Policy)
            checks["ledger"] = silence + "; the policy admits without it" * admits
        checks["envoy"] = _envoy(self._stale())
        return Readiness(not any(missing.values()), checks)

    async def _ledger_silence(self) -> str | None:
        """Return for how long the ledger has been silent, if that is too long."""
        with contextlib.suppress(LedgerUnavailableError):
            await self._ping()
        contact = self._contact()
        if contact.answered_at is None:
            return "no answer yet"
        silent_s = self._clock() - contact.answered_at
        if silent_s > self._patience_s and contact.unanswered >= PATIENCE_CALLS:
            return f"no answer for {silent_s:.0f} s"
        return None


def _envoy(stale: tuple[str, ...] | None) -> str:
    if stale is None:
        return "has not called yet"
    return f"is to be rendered anew for {', '.join(stale)}" if stale else OK


def _closed_without_ledger(policy: Policy | str) -> bool:
    return isinstance(policy, Policy) and closed_without_ledger(policy)


def closed_without_ledger(policy: Policy) -> bool:
    """Tell if *policy* refuses every caller while the ledger is silent."""
    return all(_closed(caller) for caller in _callers(policy))


def _callers(policy: Policy) -> Iterator[Caller]:
    """Yield whoever may call, as in `core.identify`; revoked keys may not."""
    if policy.single_tenant is not None:
        tenant = policy.tenants[policy.single_tenant]
        yield Caller(tenant, ApiKey("-", tenant.name))
        return
    for key in policy.keys.values():
        if key.ends_at_ms is None or key.end is not KeyEnd.REVOKED:
            yield Caller(policy.tenants[key.tenant], key)


def _closed(caller: Caller) -> bool:
    """Tell it of one caller: one closed quota closes, as in `core.admission`."""
    modes = [quota.on_ledger_failure for quota in caller.quotas if not quota.shadow]
    # What is bounded is soon closed.
    refusing = {OnLedgerFailure.CLOSED, OnLedgerFailure.BOUNDED}
    return not refusing.isdisjoint(modes or [caller.tenant.on_ledger_failure])
