"""Leases: the scripts do what the reference does, and a batch what single calls do."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from tests.ledger.builders import Clock, Recorder, comparable
from tests.ledger.test_parity import TAGS, Dice, assert_exact
from tests.servers import Server
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Hold, Part
from tokenweir.core.holding import Account, Share, account_of, share_of
from tokenweir.core.lease import times
from tokenweir.core.tag import Tag
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.redis import RedisStore

SERIES = 4
STEPS = 250
VERBS = {
    "lease": 4,
    "admit": 9,
    "extend": 3,
    "settle": 4,
    "settle_all": 4,
    "cancel": 2,
    "give_back": 3,
    "wait": 4,
    "sweep": 1,
}


@dataclass
class Leasing:
    """
    The reference, one that settles one after the other, and the scripts.

    Attributes:
        singly: Ditto.
        stores: All of them.
        clock: Theirs.
        dice: Decides.
        leases: What each of them was asked for.
        running: Exchanges that were admitted out of leases.
        seen: What has happened.
    """

    singly: MemoryStore
    stores: tuple[MemoryStore | RedisStore, ...]
    clock: Clock
    dice: Dice
    tag: str = field(default_factory=lambda: f"tw:lease{next(TAGS)}")
    leases: list[Hold] = field(default_factory=list)
    running: list[Hold] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    made: int = 0

    async def step(self) -> None:
        """Do the next thing everywhere, and compare the answers."""
        (verb,) = self.dice.random.choices(list(VERBS), list(VERBS.values()))
        self.seen[verb] += 1
        if verb == "wait":
            self.clock.now_ms += self.dice.wait_ms()
        elif verb == "lease":
            await self.lease()
        elif verb == "admit" and self.leases:
            self.admit()
        elif verb == "give_back" and self.leases:
            rest, slots = self.dice.amounts(), self.dice.random.randrange(4)
            lease = self.dice.random.choice(self.leases)
            for store in self.stores:
                await store.give_back(self.tag, lease.id, rest, slots)
        elif verb == "sweep":
            assert len({await store.sweep([self.tag]) for store in self.stores}) == 1
        elif self.running:
            await self.end(verb)

    async def lease(self) -> None:
        """Ask for several exchanges at once."""
        hold = self.new_hold(self.dice.limits())
        count = self.dice.random.choice((2, 3, 5))
        hold = replace(hold, amounts=times(hold.amounts, count))
        share = replace(self.share(hold), slots=count)
        answers = [await answer_of(store, self.tag, share) for store in self.stores]
        assert answers[0] == answers[1] == answers[2]
        self.seen[type(answers[0]).__name__] += 1
        self.leases = [*self.leases[-3:], hold]

    def admit(self) -> None:
        """Have an exchange be a part of a lease, whether that has as much or not."""
        lease = self.dice.random.choice(self.leases)
        hold = self.new_hold(lease.parts[0].limits)
        self.running = [*self.running[-8:], replace(hold, lease=lease.id)]

    async def end(self, verb: str) -> None:
        """Extend, settle or cancel what was admitted."""
        choose = self.dice.random.choice
        hold = choose(self.running)
        known = (await self.singly.snapshot(self.tag)).holdings
        if hold.id not in known:
            lease = known.get(hold.lease)
            self.seen[f"of one that is {lease.state if lease else 'gone'}"] += 1
        if verb == "extend":
            tokens = choose((0, 1, 70, 2_000))
            for store in self.stores:
                await store.extend(self.tag, self.share(hold), tokens)
        elif verb == "cancel":
            is_unclaimed = choose((True, False))
            was = {
                await store.cancel(
                    self.tag,
                    hold.id,
                    unclaimed_only=is_unclaimed,
                    share=self.share(hold),
                )
                for store in self.stores
            }
            assert len(was) == 1
        else:
            ended = [self.ended(choose(self.running)) for _ in range(choose((1, 2, 5)))]
            for store in self.stores:
                await self.settle(store, ended)

    async def settle(
        self, store: MemoryStore | RedisStore, ended: list[tuple[Share, Account]]
    ) -> None:
        """Settle all of *ended*, at once or one after the other."""
        if store is not self.singly:
            await store.settle_all(self.tag, ended)
            return
        for share, account in ended:
            await store.settle(self.tag, share, account)

    def ended(self, hold: Hold) -> tuple[Share, Account]:
        """What a settle of *hold* says."""
        settlement = self.dice.settlement()
        return self.share(hold), account_of(hold, settlement, keeps_record=True)

    def share(self, hold: Hold) -> Share:
        """What the ledger is told of *hold*."""
        return share_of(hold, hold.parts[0], keeps_record=True)

    def new_hold(self, limits: object) -> Hold:
        """Return a hold that was made now."""
        self.made += 1
        name = f"{self.singly.epoch}-{self.clock.now_ms:x}-{self.made:04x}"
        part = Part(self.tag, limits)  # type: ignore[arg-type]
        price = self.dice.random.choice((0, 1, 150))
        return Hold(name, (part,), self.dice.amounts(), self.dice.subject(), price)

    async def compare(self) -> None:
        """Whatever is kept is the same everywhere, and rollups are the sums of records."""
        one, *others = [
            comparable(await store.snapshot(self.tag), self.clock.now_ms)
            for store in self.stores
        ]
        for other in others:
            assert other == one
        assert_exact(one)


async def answer_of(store: MemoryStore | RedisStore, tag: str, share: Share) -> object:
    """Return what a reserve is answered."""
    try:
        return await store.reserve(tag, share)
    except LedgerUnavailableError as error:
        return str(error)


@pytest.fixture(params=["valkey_server", "redis_server"])
async def leasing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Leasing]:
    """Two references beside each server's scripts."""
    monkeypatch.setattr(Tag, "forget", lambda _tag, _now_ms: None)
    server: Server = request.getfixturevalue(request.param)
    clock, events = Clock(), [Recorder() for _ in range(3)]
    singly, batched = (MemoryStore(each, now_ms=clock) for each in events[:2])
    redis = RedisStore(server.url, events[2], deadline_seconds=30, now_ms=clock)
    dice = Dice(random.Random(), clock)
    yield Leasing(singly, (singly, batched, redis), clock, dice)
    await redis.close()
    assert events[2].faults == []
    assert events[2].crossings == events[0].crossings == events[1].crossings


@pytest.mark.parametrize("seed", range(SERIES))
async def test_scripts_and_batches_do_what_the_reference_does(
    leasing: Leasing, seed: int
) -> None:
    """On any series of calls all three agree exactly, whatever became of the lease."""
    leasing.dice.random.seed(seed)
    for _ in range(STEPS):
        await leasing.step()
        await leasing.compare()

    lease_was = {f"of one that is {state}" for state in ("held", "lost", "gone")}
    assert {"Granted", "Denied", *lease_was} <= set(leasing.seen)
