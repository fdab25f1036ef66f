"""What is learned lies in the ledger: merged at once, bounded, told the same everywhere."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Callable

import pytest
import redis

from tests.ledger.builders import Recorder
from tests.ledger.conftest import PATIENCE
from tests.servers import Server
from tokenweir.core.calibration import MICRO, Batch, Place, Side
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.partition import tag_of
from tokenweir.ledger import keys
from tokenweir.ledger.calibration import (
    MAX_FIELDS,
    PIECE,
    CalibrationLedger,
    MemoryCalibration,
    Spot,
)
from tokenweir.ledger.link import Link

KEY = keys.learned(tag_of("acme"), "acme")


def spot(
    name: str = "local-7b", *, tenant: str = "acme", side: Side = Side.INPUT
) -> Spot:
    """Return what a factor of the model *name* is learned of."""
    return Place(tenant, "vllm", name, "chat_completions"), side


def batch(factor: float = 1.8, *, weight: int = 500, samples: int = 5) -> Batch:
    """Return samples that all say *factor*."""
    log = round(math.log(factor) * MICRO)
    return Batch(samples, weight, weight * log, weight * 100)


@pytest.fixture
async def ledger(server: Server, events: Recorder) -> AsyncIterator[CalibrationLedger]:
    """What each server knows: nothing."""
    link = Link(server.url, events, deadline_seconds=PATIENCE)
    yield CalibrationLedger(link)
    await link.close()


def without_moments(known: object) -> dict[Spot, tuple[int, int, int, int]]:
    """Return what is *known* but for when it was learned."""
    assert isinstance(known, dict)
    return {k: (v.samples, v.weight, v.mean, v.size) for k, v in known.items()}


async def test_parity(ledger: CalibrationLedger) -> None:
    """Whatever is learned, the script comes to what the pure function does."""
    rng, memory = random.Random(7), MemoryCalibration(lambda: 0)
    await ledger.ping()
    await memory.ping()
    for _ in range(150):
        weight = rng.choice([1, 7, 500, 9_999, 10**7])
        log = rng.randint(-3 * MICRO, 3 * MICRO)
        size = rng.choice([1, 100, 99_999, 10**7])
        made = Batch(rng.choice([1, 4, 10**9]), weight, weight * log, weight * size)
        rows = {spot(str(rng.randint(1, 4)), side=rng.choice([*Side])): made}

        told = await ledger.learn("acme", rows)
        assert without_moments(told) == without_moments(
            await memory.learn("acme", rows)
        )
    known = await ledger.read(["acme"])
    assert without_moments(known) == without_moments(await memory.read(["acme"]))
    assert len(known) == 8


async def test_it_is_read_back_by_tenant(
    ledger: CalibrationLedger, client: redis.Redis
) -> None:
    """Of each only its own, whatever tag they share; what is written expires."""
    names = [f"t{number}" for number in range(PIECE + 1)]
    for name in (names[0], names[-1]):
        await ledger.learn(name, {spot(tenant=name): batch()})

    found = await ledger.read(names)

    assert set(found) == {spot(tenant=names[0]), spot(tenant=names[-1])}
    assert found[spot(tenant="t0")].factor == pytest.approx(1.8, rel=1e-4)
    for key in client.scan_iter():
        assert 0 < int(client.pttl(key)) <= keys.LEARNED_KEPT_MS
    assert await ledger.read([]) == {}


async def test_those_learned_first_go(ledger: CalibrationLedger) -> None:
    """A tenant has so many fields, and an app that makes names up gets no more."""
    memory = MemoryCalibration(lambda: 0)
    for store in (ledger, memory):
        for first in range(0, MAX_FIELDS, 50):
            rows = {spot(f"m{n:04d}"): batch() for n in range(first, first + 50)}
            await store.learn("acme", rows)
        told = await store.learn("acme", {spot("zz"): batch(2.0)})

        assert told[spot("zz")].factor == pytest.approx(2.0, rel=1e-4)
        known = await store.read(["acme"])
        assert len(known) == MAX_FIELDS
        assert spot("zz") in known


async def test_forgetting(ledger: CalibrationLedger, client: redis.Redis) -> None:
    """What is forgotten is gone, and the rest is not."""
    memory = MemoryCalibration(lambda: 0)
    for store in (ledger, memory):
        await store.forget("acme", [spot()])
        await store.learn("acme", {spot(): batch(), spot("other"): batch()})
        await store.forget("acme", [spot(), spot("never heard of")])
        assert set(await store.read(["acme"])) == {spot("other")}
        await store.forget("acme", [spot("other")])
        assert await store.read(["acme"]) == {}
    assert client.exists(KEY) == 0


@pytest.mark.parametrize("text", ["", "x", "1 2 3", "1 2 3 4 5 6", "a b c d e"])
async def test_what_cannot_be_read_is_not_known(
    ledger: CalibrationLedger, client: redis.Redis, text: str
) -> None:
    """Other figures and other names tell nothing, and are replaced when it is learned."""
    field = "vllm\x1flocal-7b\x1fchat_completions\x1finput"
    client.hset(
        KEY, mapping={field: text, "odd": "1 2 3 4 5", "a\x1fb\x1fc\x1fd": "1 2 3 4 5"}
    )

    assert await ledger.read(["acme"]) == {}
    told = await ledger.learn("acme", {spot(): batch()})
    assert told[spot()].samples == 5


async def test_least_rights_are_enough(
    server: Server, events: Recorder, client: redis.Redis
) -> None:
    """The user of processors may learn, read and forget."""
    as_admin: Callable[..., object] = client.execute_command
    as_admin("ACL", "SETUSER", "weir", "reset", "on", ">pw", *keys.ACCESS)
    link = Link(
        server.url.replace("unix://", "unix://weir:pw@"),
        events,
        deadline_seconds=PATIENCE,
    )
    own = CalibrationLedger(link)
    try:
        await own.learn("acme", {spot(): batch(), spot("b"): batch()})
        await own.forget("acme", [spot("b")])
        assert set(await own.read(["acme"])) == {spot()}
    finally:
        await link.close()
        as_admin("ACL", "DELUSER", "weir")


async def test_a_server_that_is_gone(own_server: Server, events: Recorder) -> None:
    """That is said, as by every part of the ledger."""
    link = Link(own_server.url, events, deadline_seconds=0.5)
    own_server.stop()
    ledger = CalibrationLedger(link)
    for call in (
        ledger.ping(),
        ledger.learn("a", {spot(): batch()}),
        ledger.read(["a"]),
    ):
        with pytest.raises(LedgerUnavailableError):
            await call
    await link.close()
