"""
How a processor leaves: step by step, and in bounded time whatever hangs.

Each step has the time that it may take when all is well. Beyond that all of them share
some seconds to spare: each may use half of what is left, so that one that hangs leaves
those behind it their turn. A step that takes longer is told, by its name, and ended; the
next one follows all the same, also after one that broke.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from tokenweir.ending import OnFault, end_tasks

SPARE_SECONDS = 8.0
# When nothing is left to spare.
LEAST_SECONDS = 0.1

# Told of a step that hangs, and after how many seconds. Must not raise.
OnHung = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Step:
    """
    Attributes:
        name: For operators.
        work: What is to do.
        seconds: How long that may take when all is well; most take no time.
    """

    name: str
    work: Callable[[], Coroutine[Any, Any, object]]
    seconds: float = 0.0


async def leave(
    steps: Sequence[Step],
    on_hung: OnHung,
    on_fault: OnFault,
    *,
    spare_seconds: float = SPARE_SECONDS,
) -> None:
    """Take *steps*, one after the other; `longest_seconds` is how long that may take."""
    loop = asyncio.get_running_loop()
    spare = spare_seconds
    for step in steps:
        began = loop.time()
        task = asyncio.create_task(step.work())
        patience = step.seconds + max(spare / 2, LEAST_SECONDS)
        await asyncio.wait({task}, timeout=patience)
        if not task.done():
            on_hung(step.name, loop.time() - began)
        await end_tasks(task, where=f"stop_{step.name}", on_fault=on_fault)
        spare = max(spare - max(loop.time() - began - step.seconds, 0.0), 0.0)


def longest_seconds(
    steps: Sequence[Step], spare_seconds: float = SPARE_SECONDS
) -> float:
    """Return how long *steps* take at most, if each can be ended when it hangs."""
    least = LEAST_SECONDS * len(steps)
    return sum(step.seconds for step in steps) + spare_seconds + least
