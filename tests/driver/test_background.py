"""Tasks that nobody waits for are neither lost nor silent."""

import asyncio
import gc

import pytest

from tests.recorder import Recorder
from tokenweir.driver.background import Background


@pytest.fixture
def events() -> Recorder:
    """Return what faults are reported to."""
    return Recorder()


@pytest.fixture
def background(events: Recorder) -> Background:
    """Return a background without tasks."""
    return Background(events)


async def test_task_is_kept(background: Background) -> None:
    """A task that nobody else refers to survives a collection, and runs."""
    gate, ran = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await gate.wait()
        ran.set()

    background.spawn(work())
    await asyncio.sleep(0)
    gc.collect()
    gate.set()

    assert await background.join(10.0) == 0
    assert ran.is_set()


async def test_result(background: Background) -> None:
    """Who wants the result gets the task."""

    async def work() -> int:
        return 7

    assert await background.spawn(work()) == 7


async def test_exception_is_reported(background: Background, events: Recorder) -> None:
    """What breaks is reported, and neither raised nor lost."""
    error = RuntimeError("broken")

    async def work() -> None:
        raise error

    background.spawn(work())

    assert await background.join(10.0) == 0
    assert events.faults == [("background", error)]


async def test_cancelled_task(background: Background, events: Recorder) -> None:
    """A cancelled task is over, and no fault."""
    task = background.spawn(asyncio.sleep(3600))
    await asyncio.sleep(0)
    task.cancel()

    assert await background.join(10.0) == 0
    assert events.faults == []


async def test_join_waits_for_what_comes_meanwhile(background: Background) -> None:
    """Work that a task begins before it ends is waited for as well."""
    ended = []

    async def settle() -> None:
        await asyncio.sleep(0)
        ended.append("settle")

    async def count() -> None:
        await asyncio.sleep(0)
        background.spawn(settle())
        ended.append("count")

    background.spawn(count())

    assert await background.join(10.0) == 0
    assert ended == ["count", "settle"]


async def test_join_gives_up(background: Background) -> None:
    """What does not end is left behind, and counted."""
    tasks = [background.spawn(asyncio.sleep(3600)) for _ in range(2)]

    assert await background.join(0.01) == 2
    assert await background.join(0.0) == 2
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    assert await background.join(10.0) == 0


async def test_join_without_tasks(background: Background) -> None:
    """Where there is nothing to wait for, nothing is waited for."""
    assert await background.join(3600.0) == 0
