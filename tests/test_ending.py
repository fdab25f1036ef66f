"""A task that is to end ends, or is told to go on."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

from tests.recorder import Recorder
from tokenweir import ending
from tokenweir.ending import CANCELLATIONS, EndlessTaskError, end_tasks, within

LONG_SECONDS = 3_600.0


@pytest.fixture
def events() -> Recorder:
    """Notes faults."""
    return Recorder()


class Stubborn:
    """Swallows so many cancellations."""

    def __init__(self, swallows: int) -> None:
        self.swallows = swallows
        self.begun = asyncio.Event()

    async def __call__(self) -> None:
        """Go on until it is cancelled once more than it swallows."""
        while True:
            self.begun.set()
            try:
                await asyncio.sleep(LONG_SECONDS)
            except asyncio.CancelledError:
                if not self.swallows:
                    raise
                self.swallows -= 1


async def begun(stubborn: Stubborn) -> asyncio.Task[None]:
    """Return a task of it that is under way."""
    task = asyncio.create_task(stubborn())
    await stubborn.begun.wait()
    return task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that need not be waited for."""
    monkeypatch.setattr(ending, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(ending, "GRACE_SECONDS", 0.01)


async def test_a_task_is_ended(events: Recorder) -> None:
    """One cancellation is enough for most, and is no fault."""
    task = await begun(Stubborn(0))
    assert await end_tasks(task, where="here", on_fault=events.fault)

    assert task.cancelled()
    assert events.faults == []


async def test_swallowed_cancellations(events: Recorder) -> None:
    """Who swallows one, or all but the last, ends as well."""
    tasks = [await begun(Stubborn(n)) for n in range(CANCELLATIONS)]
    assert await end_tasks(*tasks, where="here", on_fault=events.fault)

    assert all(task.cancelled() for task in tasks)
    assert events.faults == []


async def test_a_task_that_does_not_end(events: Recorder) -> None:
    """It is left alone and told; the others end."""
    stubborn = Stubborn(CANCELLATIONS)
    task, other = await begun(stubborn), await begun(Stubborn(0))
    assert not await end_tasks(task, other, where="here", on_fault=events.fault)

    assert other.cancelled()
    assert not task.done()
    [(where, fault)] = events.faults
    assert where == "here"
    assert isinstance(fault, EndlessTaskError)
    assert await end_tasks(task)


async def test_what_never_began(events: Recorder) -> None:
    """There is nothing to do, and nothing to wait for."""
    assert await end_tasks(None, where="here", on_fault=events.fault)
    assert await end_tasks()

    assert events.faults == []


async def test_what_a_task_ended_with(events: Recorder) -> None:
    """A fault is told, not raised; before the end or because of it."""

    async def breaks() -> None:
        raise ValueError

    async def breaks_when_cancelled() -> None:
        try:
            await asyncio.sleep(LONG_SECONDS)
        finally:
            raise KeyError

    tasks = [asyncio.create_task(work()) for work in (breaks, breaks_when_cancelled)]
    await asyncio.sleep(0)
    assert await end_tasks(*tasks, where="here", on_fault=events.fault)

    assert {type(fault) for _, fault in events.faults} == {ValueError, KeyError}


async def test_nobody_need_be_told() -> None:
    """Without anybody to tell, faults are nobody's; nor does asyncio complain of them."""
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))

    async def breaks() -> None:
        raise ValueError

    task = asyncio.create_task(breaks())
    assert await end_tasks(task)
    del task

    assert complaints == []


async def test_patience() -> None:
    """Who is about to end may do so by itself; who does not is cancelled."""
    stop = asyncio.Event()

    async def leaves() -> str:
        await stop.wait()
        await asyncio.sleep(0)
        return "in order"

    leaving = asyncio.create_task(leaves())
    stop.set()
    assert await end_tasks(leaving, patience_seconds=LONG_SECONDS)
    assert leaving.result() == "in order"

    staying = await begun(Stubborn(0))
    assert await end_tasks(staying, patience_seconds=0.01)
    assert staying.cancelled()


async def test_whoever_ends_may_be_cancelled_itself() -> None:
    """Then nobody waits any more, and the tasks are cancelled at once."""
    task = await begun(Stubborn(0))
    ender = asyncio.create_task(end_tasks(task, patience_seconds=LONG_SECONDS))
    await asyncio.sleep(0)
    ender.cancel()
    await asyncio.wait({ender, task})

    assert ender.cancelled()
    assert task.cancelled()


async def test_what_is_done_in_time() -> None:
    """It is returned, or raised."""

    async def two() -> int:
        await asyncio.sleep(0)
        return 2

    async def breaks() -> int:
        raise KeyError

    assert await within(LONG_SECONDS, two()) == 2
    with pytest.raises(KeyError):
        await within(LONG_SECONDS, breaks())


@pytest.mark.parametrize("swallows", [0, 1])
async def test_a_deadline_holds(swallows: int) -> None:
    """Whatever is done about it; who goes on is left alone."""
    before = asyncio.all_tasks()
    stubborn = Stubborn(swallows)
    with pytest.raises(TimeoutError):
        await within(0.01, stubborn())

    left = asyncio.all_tasks() - before
    assert len(left) == swallows
    assert await end_tasks(*left)


async def test_faults_after_a_deadline() -> None:
    """They are nobody's, and asyncio does not complain of them."""
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    over = asyncio.Event()

    async def breaks() -> None:
        try:
            await asyncio.sleep(LONG_SECONDS)
        finally:
            raise KeyError

    async def breaks_later() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(LONG_SECONDS)
        await over.wait()
        raise KeyError

    before = asyncio.all_tasks()
    for work in (breaks, breaks_later):
        with pytest.raises(TimeoutError):
            await within(0.01, work())
    (left,) = asyncio.all_tasks() - before
    over.set()
    await asyncio.wait({left})
    del left
    gc.collect()

    assert complaints == []


async def test_who_waits_may_be_cancelled() -> None:
    """Then what is waited for is cancelled as well, and nobody waits for its end."""
    stubborn = Stubborn(0)
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(within(LONG_SECONDS, stubborn()))
    await stubborn.begun.wait()
    left = asyncio.all_tasks() - before
    waiting.cancel()
    await asyncio.wait(left)

    assert all(task.cancelled() for task in left)
