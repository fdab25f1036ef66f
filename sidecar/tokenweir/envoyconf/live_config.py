"""
A policy is in force once Envoy knows what it needs, and not before.

What blocks (files, Envoy's answers, rendering) happens in a thread. What renders is only
imported where an Envoy follows: it is slow, and large.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy
from tokenweir.ending import end_tasks
from tokenweir.envoyconf.envoy_admin import Verdict
from tokenweir.envoyconf.settings import EnvoySettings

if TYPE_CHECKING:
    from tokenweir.envoyconf.live import LiveEnvoy

# Between two looks for what earlier policies have left behind.
TIDY_SECONDS = 10.0

T = TypeVar("T")


def following(
    settings: EnvoySettings | None, binary: Path | None = None
) -> Callable[[], LiveEnvoy] | None:
    """Return what makes the Envoy of *settings*; None: none follows. See `live_envoy`."""
    if settings is None:
        return None

    def make() -> LiveEnvoy:
        from tokenweir.envoyconf.live import live_envoy  # noqa: PLC0415 -- see above

        return live_envoy(settings, binary)

    return make


class LiveConfig:
    """
    Keeps an Envoy on the policy that is in force. Used within one event loop.

    Args:
        make: Makes the Envoy; None: there is none that follows, and nothing to do.
        told: Is given what became of each change.
        on_fault: Is told what broke, and where.
    """

    def __init__(
        self,
        make: Callable[[], LiveEnvoy] | None,
        told: Callable[[Verdict], None],
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        self._make = make
        self._envoy: LiveEnvoy | None = None
        self._told = told
        self._on_fault = on_fault
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def follows(self) -> bool:
        """Whether there is an Envoy that follows."""
        return self._make is not None

    async def begin(self, policy: Policy) -> None:
        """Have all there that Envoy starts with. Raises: PolicyError."""
        await self._bring(lambda envoy: envoy.begin(policy))

    async def prepare(self, policy: Policy) -> None:
        """
        Have Envoy know what *policy* needs.

        Raises: PolicyError, and then Envoy works as before.
        """
        verdict = await self._bring(lambda envoy: envoy.apply(policy))
        if verdict is not None:
            self._told(verdict)

    def start(self) -> None:
        """Tidy up from time to time."""
        if self.follows:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Do so no longer. May be called without `start`."""
        task, self._task = self._task, None
        await end_tasks(task, where="envoy", on_fault=self._on_fault)

    async def _bring(self, act: Callable[[LiveEnvoy], T]) -> T | None:
        try:
            return await self._perform(act)
        except PolicyError:
            self._told(Verdict.REFUSED)
            raise
        except OSError as error:
            self._told(Verdict.REFUSED)
            why = (error.strerror or "it takes too long").lower()
            where = f"{error.filename}: " if error.filename else ""
            raise PolicyError([f"envoy: can't be told: {where}{why}"]) from None

    async def _perform(self, act: Callable[[LiveEnvoy], T]) -> T | None:
        if self._make is None:
            return None
        async with self._turn:
            if self._envoy is None:
                self._envoy = await asyncio.to_thread(self._make)
            return await asyncio.to_thread(act, self._envoy)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            try:
                await self._perform(lambda envoy: envoy.tidy())
            except Exception as error:  # noqa: BLE001 -- the next look may do better
                self._on_fault("envoy", error)
