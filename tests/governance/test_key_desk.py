"""Issued keys are changed as a whole, and no change is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import redis

from tests.governance.documents import PRIVATE, PUBLIC, STRANGER, draft, signed
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.governance import key_desk
from tokenweir.governance.channel import Channel, PublishedMeanwhileError
from tokenweir.governance.envelope import (
    KEYS,
    MAX_CONTENT_BYTES,
    POLICY,
    Envelope,
    EnvelopeError,
    sign,
    verify,
)
from tokenweir.governance.key_desk import (
    KeyDeskError,
    Signer,
    change,
    change_at,
    newest,
    newest_at,
    published_policy_at,
    restore,
    restore_at,
)
from tokenweir.ledger import keys

ANN = Signer(PRIVATE, by="ann")
NOW_MS = 1_796_040_000_000


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_desk, "_PAUSE_SECONDS", 0.002)


def adding(name: str) -> Callable[[str | None], str]:
    """Return a change that adds *name* to a list."""
    return lambda known: json.dumps([*json.loads(known or "[]"), name])


class Shaky:
    """A channel that holds one document, and fails as it is told."""

    def __init__(self, *faults: Exception | None, applied: bool = False) -> None:
        self.faults = list(faults)
        self.applied = applied
        self.held: Envelope | None = None
        self.unreadable: Exception | None = None

    async def versions(self) -> dict[str, int]:
        """Return its version."""
        return {KEYS: self.held.version if self.held else 0}

    async def read(self, name: str, version: int) -> Envelope | None:
        """Return what it holds, if it is of that *version*."""
        if self.unreadable:
            raise self.unreadable
        assert name == KEYS
        return self.held if self.held and self.held.version == version else None

    async def publish(self, envelope: Envelope, *, after: int) -> None:
        """Fail as the next of the faults says, or hold *envelope*."""
        assert envelope.version > after
        fault = self.faults.pop(0) if self.faults else None
        if fault is None or self.applied:
            self.held = envelope
        if fault:
            raise fault


async def test_the_first_change(channel: Channel) -> None:
    """Where there is nothing it is made to nothing, and is version 1."""
    assert await newest(channel, [PUBLIC]) is None
    made = await change(channel, ANN, adding("a"), NOW_MS, "issue a")

    assert await newest(channel, [PUBLIC]) == made
    assert (made.name, made.version, made.content) == ("keys", 1, '["a"]')
    assert (made.by, made.comment, made.published_at_ms) == ("ann", "issue a", NOW_MS)
    verify(made, [PUBLIC])


async def test_many_at_once_lose_nothing(channel: Channel) -> None:
    """Each makes its change to what the others have made."""
    names = [f"key-{number}" for number in range(6)]
    changes = (change(channel, ANN, adding(name), NOW_MS, "more") for name in names)
    await asyncio.gather(*changes)

    made = await newest(channel, [PUBLIC])
    assert made is not None
    assert sorted(json.loads(made.content)) == names
    assert made.version == len(names)


async def test_two_signers(channel: Channel) -> None:
    """What another has signed is gone on from if their key is known, and else not."""
    await change(channel, ANN, adding("a"), NOW_MS, "")
    stranger = Signer(STRANGER)
    with pytest.raises(KeyDeskError, match="--governance-key"):
        await change(channel, stranger, adding("b"), NOW_MS, "")
    known = replace(stranger, public_keys=(PUBLIC,))
    made = await change(channel, known, adding("b"), NOW_MS, "")

    assert made.content == '["a", "b"]'
    verify(made, [STRANGER.public_key()])


async def test_forged_keys(channel: Channel) -> None:
    """Nothing is made of what nobody has signed; only who does not ask reads it."""
    forged = draft(1, '["evil"]', name=KEYS)
    await channel.publish(forged, after=0)

    with pytest.raises(KeyDeskError, match="nobody"):
        await newest(channel, [PUBLIC])
    with pytest.raises(KeyDeskError, match="nobody"):
        await change(channel, ANN, adding("a"), NOW_MS, "")
    assert await newest(channel, []) == forged


async def test_restored_above_what_is_forged(channel: Channel) -> None:
    """The last good keys come back above what nobody has signed, and go on from there."""
    good = await change(channel, ANN, adding("a"), NOW_MS, "")
    await channel.publish(draft(7, '["evil"]', name=KEYS), after=1)
    bob = Signer(STRANGER, (PUBLIC,), "bob")
    made = await restore(channel, bob, good, NOW_MS + 1)

    assert (made.version, made.content) == (8, '["a"]')
    assert (made.by, made.comment) == ("bob", "restore version 1")
    assert await newest(channel, [STRANGER.public_key()]) == made
    with pytest.raises(KeyDeskError, match="Version 8 is published and well signed"):
        await restore(channel, bob, good, NOW_MS)
    after = await change(channel, bob, adding("b"), NOW_MS, "")
    assert after.content == '["a", "b"]'


async def test_restored_into_nothing(channel: Channel) -> None:
    """A ledger without keys gets them, too, above those that sidecars have."""
    made = await restore(channel, ANN, signed(5, "[]", name=KEYS), NOW_MS)

    assert (made.version, made.content) == (6, "[]")


async def test_what_is_not_restored(channel: Channel) -> None:
    """Only keys, and only those that somebody known has signed."""
    with pytest.raises(KeyDeskError, match="no keys"):
        await restore(channel, ANN, signed(1, "", name=POLICY), NOW_MS)
    with pytest.raises(KeyDeskError, match="nobody"):
        await restore(channel, ANN, draft(1, "[]", name=KEYS), NOW_MS)
    assert await newest(channel, []) is None


async def test_others_publish_while_it_is_restored() -> None:
    """Theirs may be good, so it is not tried again."""
    shaky = Shaky(PublishedMeanwhileError(3))
    with pytest.raises(KeyDeskError, match="keys list"):
        await restore(shaky, ANN, signed(1, "[]", name=KEYS), NOW_MS)


async def test_by_address(running: Server, channel: Channel) -> None:
    """The same by the ledger's URL."""
    made = await change_at(running.url, ANN, adding("a"), NOW_MS, "")

    assert await newest_at(running.url, [PUBLIC]) == made
    with pytest.raises(KeyDeskError, match="no need"):
        await restore_at(running.url, ANN, made, NOW_MS)


async def test_a_change_that_can_not_be_made(channel: Channel) -> None:
    """Its reason comes through, and nothing was published."""

    def refuse(_: str | None) -> str:
        raise KeyDeskError("no")

    with pytest.raises(KeyDeskError, match="no"):
        await change(channel, ANN, refuse, NOW_MS, "")
    with pytest.raises(KeyDeskError, match="can't be published: content"):
        await change(channel, ANN, lambda _: "x" * (MAX_CONTENT_BYTES + 1), NOW_MS, "")
    assert await newest(channel, [PUBLIC]) is None


async def test_somebody_is_always_quicker() -> None:
    """The tries have an end."""
    shaky = Shaky(*[PublishedMeanwhileError(5)] * 100)

    with pytest.raises(KeyDeskError, match="Try again"):
        await change(shaky, ANN, adding("a"), NOW_MS, "")
    assert len(shaky.faults) == 100 - key_desk.MAX_TRIES


@pytest.mark.parametrize(
    "fault", [LedgerUnavailableError("late"), PublishedMeanwhileError(1)]
)
async def test_an_answer_that_was_lost(fault: Exception) -> None:
    """What was applied all the same is done, and is not made twice."""
    shaky = Shaky(fault, applied=True)
    made = await change(shaky, ANN, adding("a"), NOW_MS, "")

    assert shaky.held == made
    assert made.content == '["a"]'


async def test_no_answer() -> None:
    """What was not applied is told as that."""
    with pytest.raises(LedgerUnavailableError):
        await change(
            Shaky(LedgerUnavailableError("late")), ANN, adding("a"), NOW_MS, ""
        )


async def test_keys_that_are_not_there() -> None:
    """A version that is named and gone is told; nothing is made of nothing."""
    shaky = Shaky()
    shaky.held = sign(draft(3, "[]", name=KEYS), PRIVATE)
    gone = replace(shaky.held, version=4)

    async def versions() -> dict[str, int]:
        return {KEYS: gone.version}

    shaky.versions = versions  # type: ignore[method-assign]
    with pytest.raises(KeyDeskError, match="not there"):
        await newest(shaky, [PUBLIC])


async def test_keys_that_can_not_be_read() -> None:
    """A damaged envelope is told with its version."""
    shaky = Shaky()
    shaky.held = signed(3, "[]", name=KEYS)
    shaky.unreadable = EnvelopeError("is damaged")

    with pytest.raises(KeyDeskError, match=r"version 3.*is damaged"):
        await newest(shaky, [PUBLIC])


async def test_the_published_policy(running: Server, channel: Channel) -> None:
    """It is read as it is; none, or one that is damaged, is none."""
    assert await published_policy_at(running.url) is None
    await channel.publish(signed(1, "a: 1\n"), after=0)
    assert await published_policy_at(running.url) == "a: 1\n"
    with redis.Redis.from_url(running.url) as client:
        client.set(keys.published("policy", 1), "{")
    assert await published_policy_at(running.url) is None
