"""
By which policy an exchange is decided, while an Envoy goes over to another one.

Envoy takes the routes of a request when its head begins to come, and keeps them to its
end. So a request can reach the processor that is on the routes of the policy before, for
as long as a head may take. It is decided by that policy too: what it names is there. All
others go by the newest policy, from the first one on whose routes lead where it wants.

What an earlier policy allowed counts for such requests only, and for a short time; and a
policy that changes nothing of Envoy's takes the place of the one before at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tokenweir.core.policy import Policy

# Envoy's limit for a head, and what it takes to be told.
STAY_SECONDS = 40.0
MAX_SNAPSHOTS = 8
_MAX_TEXTS = 32


@dataclass(slots=True)
class _Snapshot:
    policy: Policy
    providers: frozenset[str]
    left_at: float | None = None


class Snapshots:
    """The policies that may decide. *clock*: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._newest_first: list[_Snapshot] = []
        self._texts: dict[str, frozenset[str]] = {}

    def use(self, policy: Policy) -> None:
        """Have *policy* decide from now on, where Envoy knows its providers."""
        digests = frozenset(each.digest for each in policy.providers.values())
        snapshots = self._newest_first
        if snapshots and snapshots[0].providers == digests:
            snapshots[0].policy = policy
            return
        if snapshots:
            snapshots[0].left_at = self._clock()
        snapshots.insert(0, _Snapshot(policy, digests))
        del snapshots[MAX_SNAPSHOTS:]

    def fit(self, text: str) -> Policy:
        """Return what decides for an Envoy that says *text*; see `Rendering`."""
        newest = self._newest_first[0]
        rendered = self._read(text)
        if not text or newest.providers <= rendered:
            return newest.policy
        since = self._clock() - STAY_SECONDS
        for each in self._newest_first[1:]:
            if each.providers <= rendered and (each.left_at or 0.0) >= since:
                return each.policy
        return newest.policy

    def _read(self, text: str) -> frozenset[str]:
        found = self._texts.get(text)
        if found is None:
            if len(self._texts) >= _MAX_TEXTS:
                self._texts.clear()
            found = self._texts[text] = frozenset(text.split(","))
        return found
