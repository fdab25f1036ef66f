"""Processes that race for one limit. Cases of the field by number."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time

import pytest

from tests.ledger.builders import TAG, Recorder, concurrency, hold, reserved_of, tokens
from tests.servers import Server
from tokenweir.core.hold import Amounts, Granted
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

PROCESSES = 4
ASKED_EACH = 100
# So slow that nothing is earned while they race.
TPM = tokens(2_000, 1)
SLOTS = concurrency(37)


def race(url: str, number: int, start_at: float) -> int:
    """Be one of the processes; return how many tokens were granted to it."""
    return asyncio.run(_race(url, number, start_at))


async def _race(url: str, number: int, start_at: float) -> int:
    dice = random.Random(number)
    events = Recorder()
    store = RedisStore(url, events, deadline_seconds=60)
    ledger = TaggedLedger(store)
    holds = [
        hold(
            1_000 * number + n, TPM, SLOTS, amounts=Amounts(1, dice.randint(20, 90), 0)
        )
        for n in range(ASKED_EACH)
    ]
    await store.ping()
    await asyncio.sleep(max(0, start_at - time.time()))
    answers = await asyncio.gather(*map(ledger.reserve, holds))
    await store.close()
    return sum(
        made.amounts.input_tokens
        for made, answer in zip(holds, answers, strict=True)
        if isinstance(answer, Granted)
    )


@pytest.mark.parametrize("server", ["valkey", "debian_redis"])
async def test_processes_never_take_more_than_there_is(
    server: str, request: pytest.FixtureRequest
) -> None:
    """
    400 reserves at once from four processes: what is granted fits (L01, L07, B12).
    """
    running: Server = request.getfixturevalue(server)
    start_at = time.time() + 3
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(PROCESSES) as pool:
        arguments = [(running.url, number, start_at) for number in range(PROCESSES)]
        granted = await asyncio.to_thread(pool.starmap, race, arguments)

    store = RedisStore(running.url, Recorder(), deadline_seconds=60)
    snapshot = await store.snapshot(TAG)
    assert sum(granted) == reserved_of(snapshot, TPM) <= 2_000
    assert reserved_of(snapshot, SLOTS) <= 37
    # One limit or the other is used up: nobody was refused for nothing.
    left = 2_000 - reserved_of(snapshot, TPM)
    assert left < 90 or reserved_of(snapshot, SLOTS) == 37
    await store.close()
