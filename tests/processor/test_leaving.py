"""Steps are taken in order, and none keeps the process from ending."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.recorder import Recorder
from tokenweir import ending
from tokenweir.processor import leaving
from tokenweir.processor.leaving import Step, leave, longest_seconds

SHORT_SECONDS = 0.05
LONG_SECONDS = 3_600.0

Work = Callable[[], Coroutine[Any, Any, None]]


class Way:
    """Notes which steps were taken, and which hung."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.hung: list[str] = []
        self.recorder = Recorder()

    def step(self, name: str, work: Work | None = None, seconds: float = 0.0) -> Step:
        """Return a step that does *work*, and is taken if it comes to its end."""

        async def take() -> None:
            if work is not None:
                await work()
            self.taken.append(name)

        return Step(name, take, seconds)

    async def go(self, *steps: Step, spare_seconds: float = SHORT_SECONDS) -> None:
        """Take *steps*."""
        await leave(
            steps,
            lambda name, _: self.hung.append(name),
            self.recorder.fault,
            spare_seconds=spare_seconds,
        )

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Where faults were, and their types."""
        return [(where, type(error).__name__) for where, error in self.recorder.faults]


async def hang() -> None:
    """Never return."""
    await asyncio.sleep(LONG_SECONDS)


async def fail() -> None:
    """Break."""
    raise ValueError


async def test_steps_are_taken_in_order() -> None:
    """One begins when the one before it has ended."""
    way = Way()

    async def slowly() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        assert way.taken == ["first"]

    await way.go(way.step("first"), way.step("second", slowly), way.step("third"))

    assert way.taken == ["first", "second", "third"]
    assert (way.hung, way.faults) == ([], [])


async def test_a_step_that_hangs() -> None:
    """It is named, and ended; those behind it follow."""
    way = Way()
    before = asyncio.all_tasks()
    steps = [way.step("a"), way.step("b", hang), way.step("c", hang), way.step("d")]
    await way.go(*steps)

    assert way.taken == ["a", "d"]
    assert way.hung == ["b", "c"]
    assert way.faults == []
    assert asyncio.all_tasks() == before


async def test_a_step_that_can_not_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left alone, which is told; those behind it follow."""
    monkeypatch.setattr(ending, "PAUSE_SECONDS", 0.001)
    way, over = Way(), asyncio.Event()

    async def hang_on() -> None:
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()

    before = asyncio.all_tasks()
    await way.go(way.step("a", hang_on), way.step("b"))

    assert way.taken == ["b"]
    assert way.hung == ["a"]
    assert way.faults == [("stop_a", "EndlessTaskError")]
    over.set()
    await asyncio.wait(asyncio.all_tasks() - before)


async def test_a_step_that_breaks() -> None:
    """It is told, and those behind it follow."""
    way = Way()
    await way.go(way.step("a", fail), way.step("b"))

    assert way.taken == ["b"]
    assert way.hung == []
    assert way.faults == [("stop_a", "ValueError")]


async def test_a_step_has_its_own_time() -> None:
    """What it may take is none of the others', and no hanging."""
    way = Way()
    slow = way.step("slow", lambda: asyncio.sleep(4 * SHORT_SECONDS), LONG_SECONDS)
    await way.go(slow, way.step("next"), spare_seconds=0)

    assert way.taken == ["slow", "next"]
    assert way.hung == []


async def test_however_many_hang_there_is_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The longest time is that of the steps and what there is to spare for all."""
    monkeypatch.setattr(leaving, "LEAST_SECONDS", 0.001)
    way = Way()
    steps = [way.step(str(number), hang) for number in range(20)]
    async with asyncio.timeout(LONG_SECONDS):
        await way.go(*steps)

    assert len(way.hung) == len(steps)
    known = [Step("a", hang, 2.0), Step("b", hang)]
    assert longest_seconds(known, 3.0) == pytest.approx(5.002)
