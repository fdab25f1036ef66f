"""Long work gets the loop piece by piece, and never twice in a row."""

from __future__ import annotations

import asyncio

from tokenweir.driver.turns import Turns


async def work(turns: Turns, name: str, done: list[str], pieces: int = 3) -> None:
    """Do *pieces* of work in turns."""
    for _ in range(pieces):
        await turns.next()
        done.append(name)


async def tick(done: list[str], rounds: int) -> None:
    """Note each round of the loop."""
    for _ in range(rounds):
        await asyncio.sleep(0)
        done.append("|")


async def test_one_piece_a_round() -> None:
    """However much long work there is, there is one piece of it in a round."""
    turns, done = Turns(), list[str]()
    await asyncio.gather(
        *(work(turns, name, done) for name in "abc"), tick(done, rounds=40)
    )
    rounds = "".join(done).split("|")

    assert max(map(len, rounds)) == 1
    assert sorted("".join(rounds)) == sorted("abc" * 3)


async def test_turns_go_round() -> None:
    """Nobody has a second turn before all who wait have had one."""
    turns, done = Turns(), list[str]()
    await asyncio.gather(*(work(turns, name, done) for name in "abc"))

    assert done == list("abcabcabc")


async def test_who_leaves_holds_nobody_up() -> None:
    """A turn that is no longer wanted goes to the next one."""
    turns, done = Turns(), list[str]()
    leaving = [asyncio.create_task(work(turns, "x", done)) for _ in range(2)]
    staying = asyncio.create_task(work(turns, "a", done))
    await asyncio.sleep(0)
    for task in leaving:
        task.cancel()
    await staying

    assert done == ["a"] * 3
