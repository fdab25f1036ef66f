"""
Ending tasks and waits for sure.

A cancellation can get lost. `asyncio.wait_for` returns what it waited for if that comes
at the same moment; a library may take a CancelledError for a broken connection and go on.
A task that loops then goes on as well, and whoever waits for its end waits for ever. So
it is cancelled again, and after a while it is left alone, which is told.

For the same reason a deadline has to hold whatever is done about it: see `within`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

# After each cancellation. What a task does at its end (it gives back connections) takes
# milliseconds, and the next cancellation would cut that off.
PAUSE_SECONDS = 0.5
CANCELLATIONS = 3
# After a deadline, for who ends as it is told to.
GRACE_SECONDS = 0.1

T = TypeVar("T")

# What nothing refers to may be collected before it has ended.
_left_alone: set[asyncio.Task[Any]] = set()

OnFault = Callable[[str, BaseException], None]


class EndlessTaskError(Exception):
    """A task goes on, however often it is cancelled. It was left alone."""


async def end_tasks(
    *tasks: asyncio.Task[Any] | None,
    where: str = "task",
    on_fault: OnFault | None = None,
    patience_seconds: float = 0.0,
) -> bool:
    """
    End *tasks*, whatever they do about it; return whether all have ended.

    It takes at most `CANCELLATIONS` times `PAUSE_SECONDS` beyond *patience_seconds*, and
    raises nothing of the tasks'. If this call is cancelled, so are they, once.

    Args:
        tasks: None: one that was never begun.
        where: What faults are told as.
        on_fault: Told what tasks ended with, unless that is their cancellation; and of
            those that don't end.
        patience_seconds: For tasks that are about to end by themselves.
    """
    left = {task for task in tasks if task is not None}
    ended = set(left)
    if patience_seconds > 0:
        left = await _wait(left, patience_seconds)
    for _ in range(CANCELLATIONS):
        for task in left:
            task.cancel()
        left = await _wait(left, PAUSE_SECONDS)
    faults = [fault for task in ended - left if (fault := _fault_of(task)) is not None]
    faults += [EndlessTaskError("cancelled in vain") for _ in left]
    if on_fault is not None:
        for fault in faults:
            on_fault(where, fault)
    return not left


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """
    Return what *work* does.

    As `asyncio.timeout`, but for who swallows a cancellation: that one is left alone,
    `GRACE_SECONDS` after its deadline.

    Raises:
        TimeoutError: It took longer than *seconds*.
        Exception: What it raises.
    """
    task = asyncio.create_task(work)
    left = await _wait({task}, max(seconds, 0.0))
    if left:
        task.cancel()
        if await _wait(left, GRACE_SECONDS):
            _left_alone.add(task)
            task.add_done_callback(_over)
        else:
            _fault_of(task)  # nobody else asks for it
        raise TimeoutError
    return task.result()


def _over(task: asyncio.Task[Any]) -> None:
    _left_alone.discard(task)
    _fault_of(task)


async def _wait(
    tasks: set[asyncio.Task[Any]], seconds: float
) -> set[asyncio.Task[Any]]:
    """Return those of *tasks* that have not ended within *seconds*."""
    if not tasks:
        return tasks
    try:
        return (await asyncio.wait(tasks, timeout=seconds))[1]
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
            task.add_done_callback(_fault_of)  # nobody else asks for it
        raise


def _fault_of(task: asyncio.Task[Any]) -> BaseException | None:
    return None if task.cancelled() else task.exception()
