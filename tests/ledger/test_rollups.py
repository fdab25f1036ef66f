"""Hourly sums on real servers are what records say, and are rebuilt from them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
import redis

from tests.ledger.builders import Clock, Recorder
from tests.ledger.traffic import Traffic
from tests.servers import Server
from tokenweir.core.hold import Amounts, Hold, Outcome, Part, Settlement, Subject
from tokenweir.core.partition import all_tags, tag_of
from tokenweir.core.record import GROUP, HOUR_MS, SEPARATOR, hour_of
from tokenweir.core.rollups import Recorded, RollupFinding, RollupVerdict, recorded
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.ledger.inspector import HourLook, Inspector
from tokenweir.ledger.keys import ROLLUP_KEPT_MS, USERS_KEPT_MS, rollup, user_rollup
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.rollups import PASSES, RollupAudit, RollupAuditor

DAY_MS = 24 * HOUR_MS
Key = Callable[[str, int], str]
Sums = dict[tuple[str, int], tuple[dict[str, int], dict[str, int]]]


@dataclass
class Ledger:
    """
    A ledger on a real server, with traffic that began some hours ago.

    Attributes:
        url: Of the server.
        events: What its clients report.
        exported: What is known from elsewhere.
    """

    url: str
    events: Recorder = field(default_factory=Recorder)
    exported: list[Recorded] = field(default_factory=list)
    days_ms: int = 7 * DAY_MS

    async def begin(self, seed: int) -> None:
        """Connect, and get ready to have traffic."""
        self.inspector = Inspector(self.url, self.events)
        clock = Clock(await self.inspector.now_ms() - 40 * HOUR_MS)
        store = RedisStore(self.url, self.events, deadline_seconds=30, now_ms=clock)
        self.store = store
        self.traffic = Traffic(store, clock, random.Random(seed))

    async def records(self) -> list[Recorded]:
        """Every record that there is, as an export has it."""
        return [
            recorded(dict(record), entry, "export")
            for tag in all_tags()
            async for entry, record in self.inspector.records(tag, 0, "+")
        ]

    def auditor(self) -> RollupAuditor:
        """What compares and rebuilds."""
        return RollupAuditor(self.inspector, self.days_ms, self.exported)

    async def sums(self) -> Sums:
        """All sums, without zeros, by tag and hour; then those by user."""
        found = await self.store.rollups(all_tags(), 0, 10**7, with_users=True)
        return {
            (each.tag, each.hour): (_nonzero(each.sums), _nonzero(each.users))
            for each in found
        }

    async def close(self) -> None:
        """Give connections back."""
        await self.store.close()
        await self.inspector.close()
        assert self.events.faults == []


def _nonzero(sums: object) -> dict[str, int]:
    assert isinstance(sums, dict)
    return {name: figure for name, figure in sums.items() if figure}


@pytest.fixture
def client(valkey: Server) -> Iterator[redis.Redis]:
    """A stranger with a connection."""
    with redis.Redis.from_url(valkey.url, decode_responses=True) as client:
        yield client


@pytest.fixture
async def ledger(valkey: Server) -> AsyncIterator[Ledger]:
    """One that has had no traffic yet."""
    made = Ledger(valkey.url)
    await made.begin(7)
    yield made
    await made.close()


@pytest.fixture
async def inspector(server: Server, events: Recorder) -> AsyncIterator[Inspector]:
    """One that looks into an empty server of each kind."""
    made = Inspector(server.url, events)
    yield made
    await made.close()
    assert events.faults == []


def spoil(client: redis.Redis, dice: random.Random) -> int:
    """Lower figures of sums at random, and drop some hours; return how many."""
    spoilt = 0
    for key in sorted(client.scan_iter("{tw:*}:a:*")):
        if dice.random() < 0.2:
            client.delete(key, key.replace(":a:", ":n:"))
            spoilt += 1
            continue
        for name, figure in client.hgetall(key).items():
            is_tallied = "refused" in name
            if dice.random() < 0.3 and not is_tallied:
                client.hincrby(key, name, -dice.randrange(int(figure) + 1))
                spoilt += 1
    for key in sorted(client.scan_iter("{tw:*}:n:*")):
        for name in client.hgetall(key):
            if dice.random() < 0.3:
                client.hdel(key, name)
                spoilt += 1
    return spoilt


async def test_sums_are_what_is_written(ledger: Ledger) -> None:
    """Whatever happens to exchanges, sums and records agree in every hour and group."""
    await ledger.traffic.go(150)
    found = await ledger.auditor().audit()

    assert set(found.verdicts) == {RollupVerdict.AGREES}
    assert found.verdicts[RollupVerdict.AGREES] > 30
    assert found.differing == ()
    assert any(users for _, users in (await ledger.sums()).values())


async def test_an_empty_ledger_has_nothing(ledger: Ledger) -> None:
    """There is nothing to compare, and nothing to do."""
    found = await ledger.auditor().rebuild()

    assert (found.verdicts, found.differing, found.left) == ({}, (), ())
    assert found.first_hour == hour_of(found.now_ms - 7 * DAY_MS)


async def test_sums_are_rebuilt(ledger: Ledger, client: redis.Redis) -> None:
    """
    Whatever they have lost they say again, in every field; what no record tells stays.
    Once more there is nothing to do.
    """
    await ledger.traffic.go(120)
    tag = tag_of("acme")
    await ledger.store.tally(
        tag,
        hour_of(ledger.traffic.clock.now_ms),
        {SEPARATOR.join(("acme", *"kmpr", "refused_acme.usd")): 4},
    )
    right = await ledger.sums()
    assert spoil(client, random.Random(1)) > 30
    ledger.exported = await ledger.records()
    before = await ledger.auditor().audit()
    done = await ledger.auditor().rebuild()

    assert before.differing
    assert before.differing == done.differing
    assert done.left == ()
    assert _told_by_records(await ledger.sums()) == _told_by_records(right)
    client.config_resetstat()
    again = await ledger.auditor().rebuild()
    assert again.differing == ()
    assert not {"cmdstat_hincrby", "cmdstat_hset"} & set(client.info("commandstats"))
    assert all(client.pttl(key) > 0 for key in client.scan_iter("{tw:*}:[an]*"))


def _told_by_records(sums: Sums) -> Sums:
    return {
        place: (
            {name: figure for name, figure in own.items() if "refused" not in name},
            users,
        )
        for place, (own, users) in sums.items()
    }


async def test_what_no_record_tells_stays(ledger: Ledger, client: redis.Redis) -> None:
    """Refusals and matched quotas of a group are as they were when it is put right."""
    await ledger.traffic.go(60)
    key = min(client.scan_iter("{tw:*}:a:*"))
    name = str(next(iter(client.hgetall(key))))
    prefix = name.rpartition(SEPARATOR)[0]
    for figure in ("refused_x", "refused:unknown_key", "matched_x"):
        client.hset(key, f"{prefix}{SEPARATOR}{figure}", 7)
    client.hincrby(key, f"{prefix}{SEPARATOR}requests", -1)
    done = await ledger.auditor().rebuild()

    assert len(done.differing) == 1
    assert [
        client.hget(key, f"{prefix}{SEPARATOR}{figure}")
        for figure in ("refused_x", "refused:unknown_key", "matched_x")
    ] == ["7", "7", "7"]
    assert (await ledger.auditor().audit()).differing == ()


async def test_an_export_knows_what_was_lost(
    ledger: Ledger, client: redis.Redis
) -> None:
    """An empty ledger gets its sums back, and what came after is added once."""
    await ledger.traffic.go(120)
    ledger.exported = await ledger.records()
    before = await ledger.sums()
    client.flushall()
    ledger.traffic.running.clear()
    await ledger.traffic.go(60)
    after = await ledger.sums()
    assert (await ledger.auditor().rebuild()).left == ()

    rebuilt = await ledger.sums()
    for place, (sums, users) in rebuilt.items():
        for number, own in enumerate((sums, users)):
            parts = [each.get(place, ({}, {}))[number] for each in (before, after)]
            assert own == {
                name: parts[0].get(name, 0) + parts[1].get(name, 0)
                for name in {**parts[0], **parts[1]}
            }
    assert set(rebuilt) == {*before, *after}


async def test_records_that_are_gone_say_nothing(
    ledger: Ledger, client: redis.Redis
) -> None:
    """Where sums tell of more than records do they stay, and are told to be unproven."""
    await ledger.traffic.go(80)
    right = await ledger.sums()
    for tag in all_tags():
        client.xtrim(f"{{{tag}}}:u", maxlen=2, approximate=False)
    done = await ledger.auditor().rebuild()

    assert done.verdicts[RollupVerdict.UNPROVEN] > 2
    assert done.differing == ()
    assert await ledger.sums() == right


# === while exchanges go on ========================================================


@dataclass
class Busy:
    """
    An inspector beside which exchanges end: of the very hour and group that was looked
    at, after the look, and again before it is put right.
    """

    inner: Inspector
    traffic: Traffic
    most: int = 4  # of each hour

    def __post_init__(self) -> None:
        self.now_ms = self.inner.now_ms
        self.hours = self.inner.hours
        self.records = self.inner.records
        self.refused = 0
        self.settled: Counter[int] = Counter()

    async def hour(self, tag: str, hour: int) -> HourLook:
        """Look, and go on."""
        found = await self.inner.hour(tag, hour)
        if found.sums:
            *group, _ = next(iter(found.sums)).split(SEPARATOR)
            await self._settle(tag, hour, group)
        return found

    async def mend(
        self, tag: str, hour: int, findings: Sequence[RollupFinding]
    ) -> list[bool]:
        """Go on, and mend."""
        await self._settle(tag, hour, findings[0].group)
        done = await self.inner.mend(tag, hour, findings)
        self.refused += done.count(False)
        return done

    async def _settle(self, tag: str, hour: int, group: Sequence[str]) -> None:
        """End an exchange that was reserved in that *hour*, and that nobody knows of."""
        if self.settled[hour] >= self.most:
            return
        self.settled[hour] += 1
        clock, now_ms = self.traffic.clock, self.traffic.clock.now_ms
        clock.now_ms = hour * HOUR_MS + 5
        tenant, key, model, provider, route = group
        subject = Subject(tenant, key, "", route, model, provider)
        name = f"0-{clock.now_ms:x}-late.{self.settled[hour]}"
        hold = Hold(name, (Part(tag, ()),), Amounts(), subject)
        used = Settlement(TokenUsage(1), Source.REPORTED, Outcome.COMPLETED)
        await self.traffic.ledger.settle(hold, used)
        clock.now_ms = now_ms


async def test_what_goes_on_is_no_disagreement(ledger: Ledger) -> None:
    """What is settled after an hour was looked at is not held against its sums."""
    await ledger.traffic.go(60)
    busy = Busy(ledger.inspector, ledger.traffic)
    found = await RollupAuditor(busy, 7 * DAY_MS).audit()

    assert len(busy.settled) > 1
    assert set(found.verdicts) == {RollupVerdict.AGREES}


async def test_nothing_is_counted_twice_beside_traffic(
    ledger: Ledger, client: redis.Redis
) -> None:
    """
    What is settled while sums are compared and put right is in them once: exchanges
    after the hour was looked at, and before it is written. Nothing is wrong in the end.
    """
    await ledger.traffic.go(60)
    spoil(client, random.Random(2))
    busy = Busy(ledger.inspector, ledger.traffic)
    done = await RollupAuditor(busy, 7 * DAY_MS, await ledger.records()).rebuild()
    after = await ledger.auditor().audit()

    assert done.differing
    assert done.left == ()
    assert max(busy.settled.values()) == busy.most
    assert busy.refused > 1
    assert set(after.verdicts) == {RollupVerdict.AGREES}


class Stubborn(Busy):
    """One whose sums have always changed."""

    async def mend(
        self,
        tag: str,  # noqa: ARG002
        hour: int,  # noqa: ARG002
        findings: Sequence[RollupFinding],
    ) -> list[bool]:
        """Do nothing."""
        self.refused += 1
        return [False for _ in findings]


async def test_sums_that_change_all_the_time_are_left(
    ledger: Ledger, client: redis.Redis
) -> None:
    """After some tries it is told that they differ still."""
    await ledger.traffic.go(40)
    key = min(client.scan_iter("{tw:*}:a:*"))
    client.hincrby(key, next(iter(client.hgetall(key))), -1)
    busy = Stubborn(ledger.inspector, ledger.traffic, most=0)
    done = await RollupAuditor(busy, 7 * DAY_MS).rebuild()

    assert len(done.left) == len(done.differing) == 1
    assert busy.refused == PASSES


# === mending ======================================================================

GROUP_A = tuple("abcde")[: len(GROUP)]


def finding(
    hour: int, says: int, should: int, user: str | None = None
) -> RollupFinding:
    """A sum that says one thing and should say another."""
    figures = (
        {"exchanges": n, "cost_nanousd": 5 * n} if n else {} for n in (says, should)
    )
    return RollupFinding(hour, GROUP_A, user, RollupVerdict.DIFFERS, *figures)


@pytest.mark.parametrize("user", [None, "u1"])
async def test_a_sum_that_has_changed_is_left_alone(
    inspector: Inspector, user: str | None
) -> None:
    """So the same once more does nothing, to groups and to users."""
    hour = hour_of(await inspector.now_ms())
    mend = inspector.mend
    first = [finding(hour, 0, 3, user)]
    assert await mend("tw:017", hour, first) == [True]
    assert await mend("tw:017", hour, first) == [False]
    assert await mend("tw:017", hour, [finding(hour, 2, 9, user)]) == [False]
    look = await inspector.hour("tw:017", hour)
    own = look.sums if user is None else look.users

    assert sorted(own.values()) == [3, 15]
    assert await mend("tw:017", hour, [finding(hour, 3, 2, user)]) == [True]
    look = await inspector.hour("tw:017", hour)
    assert sorted((look.sums if user is None else look.users).values()) == [2, 10]
    assert look.last_record == ""


@pytest.mark.parametrize(
    ("user", "kept_ms", "key"),
    [(None, ROLLUP_KEPT_MS, rollup), ("u1", USERS_KEPT_MS, user_rollup)],
)
async def test_nothing_is_kept_for_longer(
    inspector: Inspector, server: Server, user: str | None, kept_ms: int, key: Key
) -> None:
    """An hour that is rebuilt ends when it would have ended; one that has ended stays so."""
    now_ms = await inspector.now_ms()
    gone, old = hour_of(now_ms - kept_ms) - 1, hour_of(now_ms - kept_ms) + 2
    mend = inspector.mend
    assert await mend("tw:017", gone, [finding(gone, 0, 3, user)]) == [False]
    assert await mend("tw:017", old, [finding(old, 0, 3, user)]) == [True]

    with redis.Redis.from_url(server.url) as client:
        assert 0 < int(client.pttl(key("tw:017", old))) <= 2 * HOUR_MS
        assert not client.exists(key("tw:017", gone))
    hours = {} if user else {"tw:017": {old}}
    assert await inspector.hours(0, 10**7) == hours


async def test_users_of_old_hours(ledger: Ledger, client: redis.Redis) -> None:
    """Of hours of more than 35 days ago only the sums of groups come back."""
    ledger.traffic.clock.now_ms -= 40 * DAY_MS
    ledger.days_ms = 60 * DAY_MS
    await ledger.traffic.go(40)
    ledger.exported = await ledger.records()
    before = await ledger.sums()
    client.flushall()
    assert (await ledger.auditor().rebuild()).left == ()

    after = await ledger.sums()
    assert {place: own for place, (own, _) in after.items()} == {
        place: own for place, (own, _) in before.items()
    }
    assert not any(users for _, users in after.values())
    assert isinstance(await ledger.auditor().audit(), RollupAudit)
