"""Whose body is read next."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from tokenweir.driver.bodies import BodyThread


class Scene:
    """
    A thread that is held up, and what it has done.

    Attributes:
        bodies: Whose thread it is.
        done: Names, in the order in which they were read.
        gate: Set: nothing is held up any more.
    """

    def __init__(self) -> None:
        self.bodies = BodyThread()
        self.done: list[str] = []
        self.gate = threading.Event()

    async def begin(self, *names: str) -> list[asyncio.Task[str]]:
        """Ask for bodies of these *names*, whose first letter is their tenant's."""
        tasks = [
            asyncio.create_task(self.bodies.read(name[0], partial(self._do, name)))
            for name in names
        ]
        await asyncio.sleep(0)
        return tasks

    def _do(self, name: str) -> str:
        assert self.gate.wait(30.0)
        self.done.append(name)
        if name.endswith("!"):
            raise ValueError(name)
        return name


@pytest.fixture
def scene() -> Iterator[Scene]:
    """One in which the thread is free, and holds whoever comes."""
    made = Scene()
    yield made
    made.gate.set()


async def test_tenants_take_turns(scene: Scene) -> None:
    """Each gets one turn before anybody gets another, whoever came first."""
    tasks = await scene.begin("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    scene.gate.set()

    assert await asyncio.gather(*tasks) == ["a1", "a2", "a3", "a4", "b1", "b2", "c1"]
    assert scene.done == ["a1", "b1", "a2", "c1", "b2", "a3", "a4"]


async def test_who_leaves_is_not_waited_for(scene: Scene) -> None:
    """What nobody waits for is not read, and holds nobody; what is being read ends."""
    tasks = await scene.begin("a1", "a2", "b1", "c1")
    for left in (tasks[0], tasks[2]):
        left.cancel()
    await asyncio.wait([tasks[0], tasks[2]])
    assert scene.done == []
    scene.gate.set()

    assert [await tasks[1], await tasks[3]] == ["a2", "c1"]
    assert scene.done == ["a1", "c1", "a2"]


async def test_who_leaves_as_its_turn_comes(scene: Scene) -> None:
    """A turn that nobody takes is passed on."""
    tasks = await scene.begin("a1", "b1", "c1")
    scene.bodies._pass_on()
    tasks[1].cancel()
    await asyncio.wait([tasks[1]])
    scene.gate.set()

    assert [await tasks[0], await tasks[2]] == ["a1", "c1"]
    assert scene.done == ["a1", "c1"]
    assert tasks[1].cancelled()


async def test_faults_hold_nobody(scene: Scene) -> None:
    """What work raises is raised to its caller, and the next one has its turn."""
    tasks = await scene.begin("a!", "b1")
    scene.gate.set()

    assert await tasks[1] == "b1"
    with pytest.raises(ValueError, match="a!"):
        await tasks[0]
    assert await (await scene.begin("d1"))[0] == "d1"


def test_a_loop_that_ends_meanwhile(scene: Scene) -> None:
    """What is being read then is read to its end, and nobody is told."""

    async def leave() -> None:
        [task] = await scene.begin("a1")
        task.cancel()

    asyncio.run(leave())
    scene.gate.set()
    scene.bodies._thread.shutdown()

    assert scene.done == ["a1"]
