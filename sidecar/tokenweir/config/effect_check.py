"""
Looks at each policy that comes into force for quotas that can't have any effect.

That takes a while for a policy with thousands of tenants, so it is done in a thread, and
not anew for each of many changes: what came meanwhile is looked at as a whole, and no
more than a tenth of the time is spent on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tokenweir.config.ineffective import ineffective
from tokenweir.config.matching import without_ended_keys
from tokenweir.core.policy import Policy
from tokenweir.ending import end_tasks
from tokenweir.telemetry.hooks import Events

# Of the time that a look has taken, before the next one.
PAUSES = 9


class EffectCheck:
    """
    Used within one event loop.

    Args:
        events: Told what was found, and of faults.
        now_ms: The time of day, by which keys end.
    """

    def __init__(self, events: Events, now_ms: Callable[[], int]) -> None:
        self._events = events
        self._now_ms = now_ms
        self._next: Policy | None = None
        self._task: asyncio.Task[None] | None = None

    def use_policy(self, policy: Policy) -> None:
        """Let *policy* be looked at, instead of any before it. Returns at once."""
        self._next = policy
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End: nothing is told from now on. May be called at any time."""
        task, self._task = self._task, None
        await end_tasks(task, where="effect_check", on_fault=self._events.fault)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._next is not None:
            policy, self._next = self._next, None
            begun_s = loop.time()
            try:
                found = await asyncio.to_thread(_found, policy, self._now_ms())
            except Exception as error:  # noqa: BLE001 -- the next policy must be seen
                self._events.fault("effect_check", error)
            else:
                if self._next is None:  # else its labels are another policy's
                    self._events.quotas_ineffective(policy.digest, found)
            await asyncio.sleep((loop.time() - begun_s) * PAUSES)


def _found(policy: Policy, now_ms: int) -> Mapping[str, str]:
    working = without_ended_keys(policy, now_ms)
    return {each.quota.id: each.why.value for each in ineffective(working)}
