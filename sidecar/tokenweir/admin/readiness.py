"""Whether this processor can take exchanges, and if not, what is missing."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.policy import OnLedgerFailure, Policy, Tenant

OK = "ok"
# Shorter, and a failover of Redis would take every pod out of service at once.
PATIENCE_S = 10.0


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
        policy: Returns the policy in use, or None.
        ping: Asks the ledger for an answer (`Ledger.ping`).
        patience_s: How long the ledger may be silent.
        clock: Seconds, monotonic.

    Attributes:
        draining: Set it once no new exchanges are taken.
    """

    def __init__(
        self,
        policy: Callable[[], Policy | None],
        ping: Callable[[], Awaitable[None]],
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.draining = False
        self._policy = policy
        self._ping = ping
        self._patience_s = patience_s
        self._clock = clock
        self._answered_at: float | None = None

    async def __call__(self) -> Readiness:
        """Return whether exchanges can be taken now."""
        policy = self._policy()
        silence = await self._ledger_silence()
        missing = {
            "draining": "no new exchanges are taken" if self.draining else None,
            "policy": "none is loaded" if policy is None else None,
            "ledger": silence if policy and closed_without_ledger(policy) else None,
        }
        checks = {name: problem or OK for name, problem in missing.items()}
        if silence and checks["ledger"] == OK:
            checks["ledger"] = f"{silence}; the policy admits without it"
        return Readiness(not any(missing.values()), checks)

    async def _ledger_silence(self) -> str | None:
        """Return for how long the ledger has been silent, if that is too long."""
        try:
            await self._ping()
        except LedgerUnavailableError:
            if self._answered_at is None:
                return "no answer yet"
            silent_s = self._clock() - self._answered_at
            if silent_s > self._patience_s:
                return f"no answer for {silent_s:.0f} s"
        else:
            self._answered_at = self._clock()
        return None


def closed_without_ledger(policy: Policy) -> bool:
    """Tell if *policy* refuses every tenant while the ledger is silent."""
    return all(_closed(tenant) for tenant in policy.tenants.values())


def _closed(tenant: Tenant) -> bool:
    """Tell it of one tenant: one closed quota closes, as in `core.admission`."""
    modes = [quota.on_ledger_failure for quota in tenant.quotas if not quota.shadow]
    return OnLedgerFailure.CLOSED in (modes or [tenant.on_ledger_failure])
