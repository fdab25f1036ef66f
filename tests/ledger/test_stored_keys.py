"""What is left in a server: keys, their expiry, their slots, who may touch them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.ledger.builders import (
    TAG,
    Clock,
    Recorder,
    concurrency,
    hold,
    requests,
    tokens,
    used,
)
from tests.ledger.conftest import PATIENCE
from tests.servers import Server
from tokenweir.core.hold import Denied
from tokenweir.core.record import hour_of
from tokenweir.ledger.keys import ACCESS, ROLLUP_KEPT_MS
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

# So slow that nothing is earned while a test runs by the server's own clock.
TPM = tokens(100_000, 1)
LIMITS = (TPM, requests(1_000), concurrency(100), tokens(1, quota="s", shadow=True))


@pytest.fixture
def ledger(live: RedisStore) -> TaggedLedger:
    """A ledger over it."""
    return TaggedLedger(live)


async def play(ledger: TaggedLedger, store: RedisStore, *, first: int = 0) -> None:
    """Do everything that there is to do, so that every kind of key is written."""
    holds = [hold(number, *LIMITS) for number in range(first, first + 6)]
    await ledger.reserve(hold(first + 6, tokens(1)))  # denied
    for made in holds[:5]:
        await ledger.reserve(made)
    await ledger.extend(holds[0], 900)
    await ledger.extend(holds[5], 5)  # not known
    await ledger.settle(holds[1], used(50, 70, duration_ms=900))
    await ledger.cancel(holds[2])
    await ledger.cancel(hold(first + 7))  # not known
    await store.tally(TAG, 10**9, {"acme\x1fci\x1fm\x1fp\x1fr\x1fmatched_q": 1})
    await store.lead("me", 60_000)
    await store.sweep([TAG])


def keys_without_expiry(client: redis.Redis) -> list[str]:
    """The keys that would stay for ever."""
    return [key for key in client.scan_iter() if int(client.pttl(key)) < 0]


def slot(key: str) -> int:
    """The Cluster slot of *key*, by the specification: CRC16 of its hash tag."""
    if "{" in key and (tag := key.split("{", 1)[1].split("}", 1)[0]):
        key = tag
    crc = 0
    for byte in key.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
            crc &= 0xFFFF
    return crc % 16_384


async def test_every_key_has_an_expiry(
    ledger: TaggedLedger, live: RedisStore, client: redis.Redis
) -> None:
    """
    Whatever was done, nothing stays for ever (L09).
    """
    await play(ledger, live)
    kinds = {key.partition(":")[2].partition(":")[2][:2] for key in client.scan_iter()}

    assert keys_without_expiry(client) == []
    assert kinds == {"e", "b:", "s:", "d:", "h:", "x", "r", "u", "a", "a:", "n:", "le"}


async def test_a_key_without_expiry_is_repaired(
    ledger: TaggedLedger, live: RedisStore, client: redis.Redis
) -> None:
    """
    One that somehow lost its expiry gets a new one when it is used next (L09).
    """
    await play(ledger, live)
    shared = [key for key in client.scan_iter() if ":h:" not in key]
    for key in shared:
        client.persist(key)
    assert sorted(keys_without_expiry(client)) == sorted(shared)
    await play(ledger, live, first=20)

    assert keys_without_expiry(client) == []


async def test_a_refusal_repairs_too(ledger: TaggedLedger, client: redis.Redis) -> None:
    """
    A full limit whose key has no expiry does not refuse for ever (L09).
    """
    await ledger.reserve(hold(1, tokens(100)))
    key = "{tw:017}:b:tpm|tokens_per_minute|tenant=acme"
    client.persist(key)
    assert isinstance(await ledger.reserve(hold(2, tokens(100))), Denied)

    assert int(client.pttl(key)) > 0


async def test_all_keys_of_a_tag_lie_in_one_slot(
    ledger: TaggedLedger, live: RedisStore, client: redis.Redis
) -> None:
    """
    Every call touches keys of one Cluster slot, and no number passes for a key (L15).
    """
    assert slot("123456789") == 12_739  # from the Cluster specification
    assert slot("{user1000}.following") == slot("user1000")
    await play(ledger, live)
    client.delete("{tw:sweeper}:lease")

    assert {slot(key) for key in client.scan_iter()} == {slot("{tw:017}")}


async def test_a_bucket_that_is_full_is_forgotten(
    ledger: TaggedLedger, client: redis.Redis
) -> None:
    """
    A level is kept until it means nothing: a minute beyond the time until full.
    """
    fast = tokens(100_000)
    await ledger.reserve(hold(1, fast))
    key = "{tw:017}:b:tpm|tokens_per_minute|tenant=acme"
    assert int(client.pttl(key)) > 80_000_000
    await ledger.settle(hold(1, fast), used(0, 50_000))

    assert 60_000 < int(client.pttl(key)) <= 90_000


async def test_a_processor_needs_few_rights(
    server: Server, client: redis.Redis, events: Recorder
) -> None:
    """
    With the rights that we ask for everything works, and nothing else can be done.
    """
    as_admin: Callable[..., object] = client.execute_command
    as_admin("ACL", "SETUSER", "weir", "reset", "on", ">pw", *ACCESS)
    url = server.url.replace("unix://", "unix://weir:pw@")
    store = RedisStore(url, events, deadline_seconds=PATIENCE)
    await play(TaggedLedger(store), store)
    snapshot = await store.snapshot(TAG)
    assert len(snapshot.records) == 1
    assert len(await store.holdings([TAG])) == 4
    assert len(await store.rollups([TAG], 0, 10**7)) == 1
    await store.close()
    assert events.faults == []

    with redis.Redis.from_url(url) as sidecar:
        as_sidecar: Callable[..., object] = sidecar.execute_command
        for command in (("FLUSHALL",), ("KEYS", "*"), ("SET", "k", "v"), ("SORT", "k")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                as_sidecar(*command)
    as_admin("ACL", "DELUSER", "weir")


async def test_hours_of_more_than_thirteen_months_ago_are_dropped(
    server: Server, client: redis.Redis, clock: Clock, events: Recorder
) -> None:
    """
    The list of hours does not grow for ever.
    """
    store = RedisStore(server.url, events, deadline_seconds=PATIENCE, now_ms=clock)
    ledger = TaggedLedger(store)
    await ledger.settle(hold(1), used(1, 1))
    clock.now_ms += ROLLUP_KEPT_MS - 3_600_000
    await ledger.settle(hold(2, made_ms=clock.now_ms), used(1, 1))
    assert client.zcard("{tw:017}:a") == 2
    clock.now_ms += 2 * 3_600_000
    await ledger.settle(hold(3, made_ms=clock.now_ms), used(1, 1))

    assert client.zrange("{tw:017}:a", 0, -1) == [
        str(hour_of(clock.now_ms) - 2),
        str(hour_of(clock.now_ms)),
    ]
    await store.close()
