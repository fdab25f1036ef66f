"""Versions are published one after the other, and read back."""

from __future__ import annotations

import asyncio

import pytest
import redis

from tests.governance.documents import PUBLIC, draft, signed
from tests.ledger_view import Silent
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.governance import channel as module
from tokenweir.governance.channel import Channel, PublishedMeanwhileError
from tokenweir.governance.envelope import (
    KEYS,
    MAX_STORED_BYTES,
    MAX_VERSION,
    POLICY,
    EnvelopeError,
    encoded,
    verify,
)


async def test_an_empty_ledger_has_nothing(channel: Channel) -> None:
    """Before the first is published there is version 0 of everything."""
    assert await channel.versions() == {"policy": 0, "keys": 0}
    assert await channel.read(POLICY, 1) is None
    assert await channel.history(POLICY, 10) == []


async def test_what_is_published_is_there(channel: Channel) -> None:
    """Each document has its own versions, and each is read back signed."""
    first, second = signed(1, "a: ä\n"), signed(2, "b: 1\n")
    keys = signed(7, "{}", name=KEYS)

    await channel.publish(first, after=0)
    await channel.publish(second, after=1)
    await channel.publish(keys, after=0)

    assert await channel.versions() == {"policy": 2, "keys": 7}
    assert await channel.read(POLICY, 1) == first
    assert await channel.history(POLICY, 10) == [second, first]
    assert await channel.history(POLICY, 1) == [second]
    assert await channel.history(KEYS, 10) == [keys]
    verify((await channel.history(POLICY, 1))[0], [PUBLIC])


async def test_of_two_at_once_one_publishes(channel: Channel) -> None:
    """Whoever comes second is told by which version, and has changed nothing."""
    rivals = [signed(1, f"of: {number}\n") for number in range(8)]

    ends = await asyncio.gather(
        *(channel.publish(rival, after=0) for rival in rivals), return_exceptions=True
    )

    lost = [end for end in ends if isinstance(end, PublishedMeanwhileError)]
    winner = rivals[ends.index(None)]
    assert len(lost) == len(rivals) - 1
    assert {error.version for error in lost} == {1}
    assert await channel.history(POLICY, 10) == [winner]


async def test_versions_only_go_up(channel: Channel, client: redis.Redis) -> None:
    """A version that is no newer is refused, and one may be left out."""
    await channel.publish(signed(41), after=0)
    await channel.publish(signed(MAX_VERSION), after=41)

    with pytest.raises(EnvelopeError):
        await channel.publish(signed(41), after=41)
    assert (await channel.versions())["policy"] == MAX_VERSION
    assert client.ttl("{twg}:policy") == -1


async def test_what_nobody_could_mean_is_not_published(channel: Channel) -> None:
    """The shape is looked at before anything is sent."""
    with pytest.raises(EnvelopeError):
        await channel.publish(draft(by="\n"), after=0)
    assert (await channel.versions())["policy"] == 0


async def test_old_versions_go(
    channel: Channel, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many are kept, and of those before nothing is left."""
    monkeypatch.setattr(module, "KEPT_VERSIONS", 3)
    for version in range(1, 13):
        await channel.publish(signed(version), after=version - 1)

    kept = [envelope.version for envelope in await channel.history(POLICY, 100)]
    assert kept == [12, 11, 10]
    assert client.keys("{twg}:policy:?") == []


@pytest.mark.parametrize(
    "value",
    [
        "nonsense",
        encoded(signed(2)),
        encoded(signed(1, name=KEYS)),
        b" " * (MAX_STORED_BYTES + 2),
    ],
    ids=["nonsense", "other-version", "other-name", "huge"],
)
async def test_what_is_put_there_by_hand(
    channel: Channel, client: redis.Redis, value: str | bytes
) -> None:
    """What is no envelope, or another one, is not read, and has no place in history."""
    await channel.publish(signed(1), after=0)
    client.set("{twg}:policy:1", value)

    with pytest.raises(EnvelopeError):
        await channel.read(POLICY, 1)
    assert await channel.history(POLICY, 10) == []


@pytest.mark.parametrize("head", ["x", "-1", str(2**60), "1.5", b"\xff"])
async def test_heads_that_are_no_version(
    channel: Channel, client: redis.Redis, head: str | bytes
) -> None:
    """They count as none; who publishes is told instead of overwriting them."""
    client.set("{twg}:policy", head)

    assert (await channel.versions())["policy"] == 0
    with pytest.raises(PublishedMeanwhileError):
        await channel.publish(signed(1), after=0)


async def test_without_a_ledger(running: Server) -> None:
    """Whoever asks is told in the ledger's way."""
    url = running.url + "-that-is-not-there"
    async with Channel.open(url, Silent()) as channel:
        with pytest.raises(LedgerUnavailableError):
            await channel.versions()
