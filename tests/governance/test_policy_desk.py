"""Policies are published one after the other, and what comes back is verified."""

from __future__ import annotations

import asyncio

import pytest
import redis

from tests.governance.documents import NOON_MS, PRIVATE, PUBLIC, STRANGER, draft, signed
from tokenweir.governance.channel import Channel
from tokenweir.governance.envelope import KEYS, POLICY, encoded, sign
from tokenweir.governance.policy_desk import Author, PolicyDesk, PolicyDeskError

ANN = Author(PRIVATE, "ann", NOON_MS)
BOB = Author(STRANGER, "bob", NOON_MS, [PUBLIC])


@pytest.fixture
def desk(channel: Channel) -> PolicyDesk:
    """A desk that knows Ann."""
    return PolicyDesk(channel, ANN.known)


async def test_one_after_the_other(desk: PolicyDesk) -> None:
    """Versions count up, and history tells who published which."""
    assert await desk.newest_version() == 0
    await desk.publish(ANN, "a: 1\n", "first")
    await desk.publish(BOB, "a: 2\n", "second")

    assert (await desk.version(1)).content == "a: 1\n"
    entries = await desk.history(10)
    told = [(e.envelope.version, e.envelope.by, e.verified) for e in entries]
    assert told == [(2, "bob", False), (1, "ann", True)]


async def test_without_public_keys_nothing_is_verified(channel: Channel) -> None:
    """It can be read, and it is said that nobody has looked."""
    desk = PolicyDesk(channel)
    await desk.publish(BOB, "a: 1\n", "first")

    assert (await desk.version()).by == "bob"
    assert [entry.verified for entry in await desk.history(9)] == [None]


async def test_of_two_at_once_one_is_told(desk: PolicyDesk) -> None:
    """Whoever comes second changes nothing and is told to look first."""
    ends = await asyncio.gather(
        *(desk.publish(ANN, f"of: {n}\n", "mine") for n in range(6)),
        return_exceptions=True,
    )

    lost = [end for end in ends if isinstance(end, PolicyDeskError)]
    assert await desk.newest_version() == len(ends) - len(lost)
    assert lost
    assert "Nothing was published: version" in str(lost[0])


async def test_above_what_sidecars_have(desk: PolicyDesk) -> None:
    """After a loss, versions go on where sidecars are."""
    assert (await desk.publish(ANN, "a: 1\n", "again", above=41)).version == 42
    assert (await desk.publish(ANN, "a: 1\n", "again", above=3)).version == 43


async def test_what_can_not_be_published(desk: PolicyDesk) -> None:
    """A comment of several lines is told before anything is sent."""
    with pytest.raises(PolicyDeskError, match="comment"):
        await desk.publish(ANN, "a: 1\n", "two\nlines")


async def test_what_is_not_there(desk: PolicyDesk) -> None:
    """It is told what to do instead."""
    with pytest.raises(PolicyDeskError, match="policy publish"):
        await desk.version()
    with pytest.raises(PolicyDeskError, match="policy history"):
        await desk.version(3)


async def test_what_was_forged_is_not_read(
    desk: PolicyDesk, client: redis.Redis
) -> None:
    """Neither shown, compared nor rolled back to: somebody would sign it."""
    await desk.publish(ANN, "a: 1\n", "first")
    client.set("{twg}:policy:1", encoded(sign(draft(1), STRANGER)))

    with pytest.raises(PolicyDeskError, match="not signed by"):
        await desk.version(1)


async def test_what_was_lost_comes_back(desk: PolicyDesk, channel: Channel) -> None:
    """What a sidecar has kept is published as it was, by whoever signed it."""
    await desk.restore(signed(7))
    await desk.restore(signed(3, "{}", name=KEYS))

    assert await channel.read(POLICY, 7) == signed(7)
    assert await channel.versions() == {"policy": 7, "keys": 3}
    assert (await desk.publish(ANN, "a: 1\n", "next")).version == 8


async def test_what_was_not_lost_stays(desk: PolicyDesk) -> None:
    """An old version does not come back, nor does what nobody known has signed."""
    await desk.restore(signed(7))

    with pytest.raises(PolicyDeskError, match="Version 7 is published"):
        await desk.restore(signed(6))
    with pytest.raises(PolicyDeskError, match="not signed by"):
        await desk.restore(sign(draft(8), STRANGER))


async def test_what_comes_back_meanwhile(
    desk: PolicyDesk, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two who restore at once do no harm."""
    await desk.restore(signed(7))

    async def none() -> dict[str, int]:
        return {POLICY: 0, KEYS: 0}

    monkeypatch.setattr(channel, "versions", none)
    with pytest.raises(PolicyDeskError, match="Version 7 is published"):
        await desk.restore(signed(7))
