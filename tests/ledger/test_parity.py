"""The scripts do what the reference does: on any series, to the last digit."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from tests.ledger.builders import SUBJECT, Clock, Recorder, comparable
from tests.servers import Server
from tokenweir.core.budget import MAX_SPENT
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import (
    CAP_REACHED,
    UNSET,
    Amounts,
    Denied,
    Granted,
    Hold,
    Limit,
    Outcome,
    Part,
    Settlement,
    Stale,
    Subject,
)
from tokenweir.core.holding import State
from tokenweir.core.policy import BUDGETS, Axis
from tokenweir.core.pricing import UNPRICED
from tokenweir.core.record import (
    SEPARATOR,
    difference,
    group_of,
    hour_of,
    increments_in,
)
from tokenweir.core.tag import Tag
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.store import Snapshot
from tokenweir.ledger.tagged import TaggedLedger

SERIES = 6
STEPS = 300
VERBS = {
    "begin": 14,
    "reserve": 4,
    "extend": 6,
    "settle": 5,
    "cancel": 3,
    "make": 2,
    "wait": 6,
    "sweep": 1,
    "tally": 1,
}
# Mostly moments; sometimes past the expiry of holds, of tombstones, or back.
WAITS_MS = (0, 1, 13, 700, 700, 5_000, 5_000, 5_000, 29_999, 30_000, 61_000)
RARE_WAITS_MS = (910_000, 1_200_000, 10**8, 4 * 10**10, -1, -40_000)
CAPACITIES = (1, 3, 100, 150, 1_000, 10_000_000_000)
BUDGET_CAPACITIES = (1, 70, 149, 10_001, MAX_SPENT)
THRESHOLDS = ((), (50, 80, 95), (1,), (33, 100))
STALE_BY_MS = (0, 0, 0, 0, 59_999, -60_001, 10**8)
SLOTS = (1, 1, 2, 3, 7)
RATES = (1, 7, 60, 1_000, 10_000_000_000)
PEOPLE = ("ann", "Ünal 1 2", "x" * 300)
HOLDS = 6
TALLIED = "matched_q"

TAGS = itertools.count()


@dataclass
class Dice:
    """Throws what is asked for next."""

    random: random.Random
    clock: Clock

    def limits(self) -> tuple[Limit, ...]:
        """Up to four limits, out of a few quotas whose figures change."""
        quotas = self.random.sample(range(14), self.random.choice((0, 1, 2, 3, 4)))
        return tuple(self.limit(number) for number in sorted(quotas))

    def limit(self, number: int) -> Limit:
        """The quota of that number, as the policy has it today."""
        axis = list(Axis)[number % len(Axis)]
        is_slots = axis is Axis.CONCURRENCY
        is_budget = axis in BUDGETS
        return Limit(
            f"q{number}",
            axis,
            f"tenant=acme,user={PEOPLE[number % 3]}",
            0 if is_slots or is_budget else self.random.choice(RATES),
            self.random.choice(
                SLOTS if is_slots else BUDGET_CAPACITIES if is_budget else CAPACITIES
            ),
            self.random.random() < 0.25,
            self.turns() if is_budget else (),
            self.random.choice(THRESHOLDS) if is_budget else (),
            self.random.choice((0, 0, 80, 20_000)) if is_budget else 0,
        )

    def turns(self) -> tuple[int, ...]:
        """Windows of a minute or a day; now and then those of another time."""
        length_ms = self.random.choice((60_000, 86_400_000))
        moment_ms = self.clock.now_ms + self.random.choice(STALE_BY_MS)
        start_ms = moment_ms - moment_ms % length_ms
        return tuple(start_ms + n * length_ms for n in (-1, 0, 1, 2))

    def amounts(self) -> Amounts:
        """What is reserved."""
        few = (0, 1, 20, 50, 99)
        choose = self.random.choice
        cost = choose((0, 1, 70, 3_000, MAX_SPENT))
        return Amounts(choose((0, 1, 1, 1, 2)), choose(few), choose(few), cost)

    def settlement(self) -> Settlement:
        """What was used."""
        choose = self.random.choice
        return Settlement(
            TokenUsage(
                input_tokens=choose((0, 1, 20, 50)),
                cached_input_tokens=choose((0, 0, 7)),
                output_tokens=choose((0, 1, 20, 50, 120, 3_000, 20_000_000_000)),
                reasoning_tokens=choose((0, 0, 9)),
            ),
            choose(list(Source)),
            choose(list(Outcome)),
            choose((0, 1, 1, 1, 3)),
            choose((0, 200, 503)),
            choose((None, "gpt-4o-2024")),
            choose((0, 1, 333, 2_000, 61_001, 100_000_000)),
            choose((None, 5)),
            choose(((), ("ledger_open", "x"), (UNPRICED, CAP_REACHED))),
            choose((0, 1, 69, 5_000, MAX_SPENT)),
            choose((0, 0, 33)),
            choose((0, 0, 7)),
        )

    def subject(self) -> Subject:
        """Who asks: some name no end user, some get another model or answer."""
        choose = self.random.choice
        return replace(
            SUBJECT,
            key_id=choose(("acme-ci", "")),
            user=choose((*PEOPLE[:2], "")),
            provider=choose(("openai", "azure")),
            downgraded_from=choose(("", "gpt-5")),
            capped_from=choose(("", "", UNSET, "900")),
        )

    def tally(self) -> tuple[int, dict[str, int]]:
        """An hour, and what was counted in it."""
        hour = hour_of(self.clock.now_ms) + self.random.choice((0, 0, -1, -24, -99, 1))
        names = [f"{name}{SEPARATOR}{TALLIED}" for name in ("", "acme", "ü{}")]
        chosen = self.random.sample(names, self.random.randint(1, 3))
        return hour, {name: self.random.choice((1, 7, 10**9)) for name in chosen}

    def detail(self, verb: str) -> object:
        """What is said beside the hold."""
        if verb == "settle":
            return self.settlement()
        return self.random.choice((0, 1, 70, 2_000))

    def wait_ms(self) -> int:
        """How long until the next step."""
        return self.random.choice(
            RARE_WAITS_MS if self.random.random() < 0.1 else WAITS_MS
        )


@dataclass
class Twins:
    """The reference and the scripts, told the same at the same time."""

    memory: MemoryStore
    other: MemoryStore | RedisStore
    clock: Clock
    dice: Dice
    tag: str = field(default_factory=lambda: f"tw:test{next(TAGS)}")
    holds: dict[int, Hold] = field(default_factory=dict)
    made: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    async def step(self) -> None:
        """Ask both for the next thing, and compare the answers."""
        (verb,) = self.dice.random.choices(list(VERBS), list(VERBS.values()))
        number = self.dice.random.randrange(HOLDS)
        if verb == "wait":
            self.clock.now_ms += self.dice.wait_ms()
        elif verb == "sweep":
            counts = [await store.sweep([self.tag]) for store in self.stores]
            assert counts[0] == counts[1]
        elif verb == "tally":
            hour, sums = self.dice.tally()
            for store in self.stores:
                await store.tally(self.tag, hour, sums)
        elif verb == "make" or number not in self.holds:
            self.holds[number] = self.new_hold()
        elif verb == "begin":
            self.holds[number] = self.new_hold()
            await self.call("reserve", self.holds[number])
        else:
            await self.call(verb, self.holds[number])

    async def call(self, verb: str, hold: Hold) -> None:
        """Perform one verb of a ledger on both."""
        known = (await self.memory.snapshot(self.tag)).holdings.get(hold.id)
        detail = self.dice.detail(verb)
        outcomes = [
            await perform(TaggedLedger(store), verb, hold, detail)
            for store in self.stores
        ]
        assert outcomes[0] == outcomes[1]
        if isinstance(outcomes[0], Denied):
            self.seen.update(why.axis for why in outcomes[0].failures)
        self.seen[f"{verb} {known.state if known else 'unknown'}"] += 1
        self.seen[type(outcomes[0]).__name__] += 1

    async def compare(self) -> None:
        """
        Levels, holds, tombstones, records and rollups are the same.

        And whatever was done in whatever order, rollups are the sums of the records.
        """
        memory, redis = [
            comparable(await store.snapshot(self.tag), self.clock.now_ms)
            for store in self.stores
        ]
        assert memory == redis
        assert_exact(without_tallies(redis))
        assert self.memory.epoch == self.other.epoch

    @property
    def stores(self) -> tuple[MemoryStore, MemoryStore | RedisStore]:
        """Both."""
        return self.memory, self.other

    def new_hold(self) -> Hold:
        """Return a hold that was made now, or before the ledger was flushed."""
        self.made += 1
        epoch = self.memory.epoch if self.dice.random.random() < 0.8 else "0"
        name = f"{epoch}-{self.clock.now_ms:x}-{self.made:04x}"
        parts: tuple[Part, ...] = (Part(self.tag, self.dice.limits()),)
        if self.dice.random.random() < 0.2:  # another tag keeps the record
            parts = (Part(f"{self.tag}-first", ()), *parts)
        price = self.dice.random.choice((0, 1, 150))
        return Hold(name, parts, self.dice.amounts(), self.dice.subject(), price)


def without_tallies(snapshot: Snapshot) -> Snapshot:
    """*snapshot* without what no record tells."""
    rollups = {
        hour: {name: n for name, n in sums.items() if not name.endswith(TALLIED)}
        for hour, sums in snapshot.rollups.items()
    }
    return replace(snapshot, rollups={hour: s for hour, s in rollups.items() if s})


def assert_exact(snapshot: Snapshot) -> None:
    """Rollups, those by user too, are the sums of the records that stand."""
    sums: dict[int, Counter[str]] = {}
    of_users: dict[int, Counter[str]] = {}
    standing: dict[str, Mapping[str, int]] = {}
    for record in snapshot.records:
        increments = increments_in(record)
        before = standing.get(record["hold"], {}) if record["correction"] == "1" else {}
        standing[record["hold"]] = increments
        hour, group = hour_of(int(record["reserved_at_ms"])), group_of(record)
        for name, figure in difference(increments, before).items():
            sums.setdefault(hour, Counter())[f"{group}{SEPARATOR}{name}"] += figure
            if record["user"]:
                field = SEPARATOR.join((group, record["user"], name))
                of_users.setdefault(hour, Counter())[field] += figure
    assert {hour: dict(figures) for hour, figures in sums.items()} == snapshot.rollups
    assert {
        hour: dict(figures) for hour, figures in of_users.items()
    } == snapshot.user_rollups


async def perform(
    ledger: TaggedLedger, verb: str, hold: Hold, detail: object
) -> Granted | Denied | Stale | str | None:
    """Return what a verb was answered with, or that it was not."""
    try:
        match verb, detail:
            case "reserve", _:
                return await ledger.reserve(hold)
            case "extend", int():
                await ledger.extend(hold, detail)
            case "settle", Settlement():
                await ledger.settle(hold, detail)
            case _:
                await ledger.cancel(hold, unclaimed_only=bool(detail))
    except LedgerUnavailableError as error:
        return str(error)
    return None


@pytest.fixture(params=["valkey_server", "redis_server"])
async def twins(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Twins]:
    """The reference beside each server's scripts."""
    # Redis forgets by its own clock, not by the test's: here neither does.
    monkeypatch.setattr(Tag, "forget", lambda _tag, _now_ms: None)
    server: Server = request.getfixturevalue(request.param)
    clock, events, others = Clock(), Recorder(), Recorder()
    redis = RedisStore(server.url, others, deadline_seconds=30, now_ms=clock)
    memory = MemoryStore(events, now_ms=clock)
    yield Twins(memory, redis, clock, Dice(random.Random(), clock))
    await redis.close()
    assert others.faults == []
    assert others.crossings == events.crossings


@pytest.mark.parametrize("seed", range(SERIES))
async def test_scripts_do_what_the_reference_does(twins: Twins, seed: int) -> None:
    """
    On any series of calls the scripts and the reference agree exactly.
    """
    twins.dice.random.seed(seed)
    for _ in range(STEPS):
        await twins.step()
        await twins.compare()

    assert {"Granted", "Denied", "Stale"} <= set(twins.seen)


async def test_the_series_meet_every_case() -> None:
    """
    Each verb meets holds in every state, and limits on every axis refuse something.
    """
    seen: Counter[str] = Counter()
    for seed in range(SERIES):
        clock = Clock()
        memory, other = (MemoryStore(Recorder(), now_ms=clock) for _ in range(2))
        twins = Twins(memory, other, clock, Dice(random.Random(seed), clock))
        for _ in range(STEPS):
            await twins.step()
        seen.update(twins.seen)
    verbs = ("reserve", "extend", "settle", "cancel")
    states = ("unknown", *(state for state in State if state is not State.CLAIMED))

    assert {f"{verb} {state}" for verb in verbs for state in states} <= set(seen)
    assert set(Axis) <= set(seen)
