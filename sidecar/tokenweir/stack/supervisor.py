"""
Keeps children running.

Children come in tiers. A tier starts when the one before it is ready, and stops
when the one after it has ended, so that nobody calls what is not there. Within a
tier all happens at once.

At the first start a child that does not become ready ends everything: its
settings are wrong. Later, a child that dies is started again, see `backoff`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence

from tokenweir.stack.backoff import (
    FIRST_DELAY_SECONDS,
    MAX_DEATHS,
    Backoff,
)
from tokenweir.stack.child import Child, ChildSpec
from tokenweir.stack.failure import ChildFailedError


class Supervisor:
    """
    Runs *tiers*.

    Args:
        tiers: What to run.
        report: Told, in a line or more, of each death and return.
        hurry: Once it is set, `stop` kills instead of asking.
        first_delay_seconds: Between a first death and the restart.
    """

    def __init__(
        self,
        tiers: Sequence[Sequence[ChildSpec]],
        report: Callable[[str], None],
        hurry: asyncio.Event,
        first_delay_seconds: float = FIRST_DELAY_SECONDS,
    ) -> None:
        self._tiers = [[Child(spec) for spec in tier] for tier in tiers]
        self._report = report
        self._hurry = hurry
        self._first_delay_seconds = first_delay_seconds

    @property
    def children(self) -> list[Child]:
        """All children, in the order of their start."""
        return [child for tier in self._tiers for child in tier]

    async def start(self) -> None:
        """Return once all are ready. Raises: ChildFailedError; then call `stop`."""
        for tier in self._tiers:
            for child in tier:
                child.start()
            await _all(child.wait_until_ready() for child in tier)

    async def watch(self) -> None:
        """Restart whoever dies. Raises: ChildFailedError, if one dies too often."""
        await _all(self._keep(child) for child in self.children)

    async def stop(self) -> None:
        """End all, the last tier first. To be called whatever has happened."""
        for tier in reversed(self._tiers):
            await _all(child.stop(self._hurry) for child in tier)

    async def _keep(self, child: Child) -> None:
        backoff = Backoff(self._first_delay_seconds)
        while True:
            ready_since = time.monotonic()
            await child.wait()
            delay_seconds = backoff.after_death(time.monotonic() - ready_since)
            death: str | None = child.obituary()
            while death is not None:
                death = await self._restart(child, death, delay_seconds)
                delay_seconds = backoff.after_death(0) if death else None

    async def _restart(
        self, child: Child, death: str, delay_seconds: float | None
    ) -> str | None:
        """Start *child* again after a while; return how that failed, or None."""
        name = child.spec.name
        if delay_seconds is None:
            raise ChildFailedError(
                f"{death}\n{name} died {MAX_DEATHS + 1} times: giving up."
            )
        self._report(f"{death}\nStarting {name} again in {delay_seconds:g} s.")
        await asyncio.sleep(delay_seconds)
        try:
            child.start()
            await child.wait_until_ready()
        except ChildFailedError as error:
            return str(error)
        self._report(f"{name} is back.")
        return None


async def _all(coroutines: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all at once; the first failure ends the others, and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
