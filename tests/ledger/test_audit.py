"""Counters of budgets are what records and sums say, in every ledger."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.ledger.builders import Clock, Recorder
from tests.ledger.inspected import MemoryInspector
from tests.ledger.traffic import Traffic
from tests.servers import Server
from tokenweir.core.charges import Account
from tokenweir.core.finding import Finding, Verdict
from tokenweir.core.partition import all_tags
from tokenweir.core.reckoning import Doubt
from tokenweir.core.usage_record import Exchange, exchange_of
from tokenweir.ledger.audit import Audit, Auditor
from tokenweir.ledger.inspector import CounterName, Inspector, Look
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.redis import RedisStore

STEPS = 240
EVERYTHING = 1_000_000
DAY_MS = 86_400_000
# Before clocks change in New York, back there, back on Lord Howe by half an hour; and
# before a February that has no 31st.
BEGINNINGS = ("2026-03-07T20:00", "2026-10-31T20:00", "2026-04-04T06:00")
MONTHS_END = "2026-01-30T22:00"
WRONG = {Verdict.TOO_LOW, Verdict.TOO_HIGH, Verdict.GONE, Verdict.HOLDS_DIFFER}


class Memory:
    """A ledger in memory that has had traffic."""

    def __init__(self, beginning: str, seed: int = 0) -> None:
        began = datetime.fromisoformat(beginning).replace(tzinfo=UTC)
        self.clock = Clock(round(began.timestamp() * 1_000))
        self.began_ms = self.clock.now_ms
        self.store = MemoryStore(Recorder(), now_ms=self.clock)
        self.traffic = Traffic(self.store, self.clock, random.Random(seed))
        self.inspector = MemoryInspector(self.store, self.clock)

    async def audit(
        self,
        exported: Iterable[Exchange] = (),
        *,
        kept: int = EVERYTHING,
        history: bool = True,
    ) -> Audit:
        """What is found with so many records, in all windows or in open ones."""
        self.inspector.kept_records = kept
        since_ms = self.began_ms if history else None
        auditor = Auditor(
            self.inspector, self.store, self.traffic.policy, exported, since_ms
        )
        return await auditor.audit()

    async def exported(self) -> list[Exchange]:
        """Every record, as an exporter has it."""
        found = []
        for tag in all_tags():
            async for entry, record in self.inspector.records(tag, 0, "+"):
                copied = json.loads(json.dumps(record))
                found.append(exchange_of(copied, entry, "export"))
        return found


def verdicts(audit: Audit) -> Counter[Verdict]:
    """How many there are of each."""
    return Counter(each.verdict for each in audit.findings)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("beginning", [*BEGINNINGS, MONTHS_END])
async def test_counters_are_what_is_written(beginning: str, seed: int) -> None:
    """
    For every partition, filter and kind of window, where clocks change and where hours
    begin at half past: what can be reckoned is what the counters say.

    What is in doubt, since it was downgraded by one of two budgets, is told as such.
    """
    ledger = Memory(beginning, seed)
    await ledger.traffic.go(STEPS)
    audit = await ledger.audit()
    found = verdicts(audit)

    assert not WRONG & set(found)
    assert found[Verdict.AGREES] > 80
    assert found[Verdict.AGREES] > 5 * found[Verdict.UNKNOWN]
    in_doubt = [each for each in audit.findings if each.verdict is Verdict.UNKNOWN]
    assert all(each.doubts == {Doubt.DOWNGRADED} for each in in_doubt)
    assert all(each.low <= each.counter.low <= each.high for each in audit.findings)
    assert {key.split("|")[0] for key in keys(audit)} >= {
        *("acme.usd", "acme.down", "acme.slow", "acme.month", "acme.ci.usd"),
        *("globex.one", "globex.two", "*.usd_by_provider", "*.tokens_by_model"),
    }


def keys(audit: Audit) -> list[str]:
    """The limits."""
    return [each.account.key for each in audit.findings]


@pytest.mark.parametrize("kept", [0, 20])
@pytest.mark.parametrize("beginning", BEGINNINGS)
async def test_without_records_nothing_wrong_is_said(beginning: str, kept: int) -> None:
    """
    Sums of whole hours are exact. Where a window ends within an hour it can't be told;
    and with the exported records it can again.
    """
    ledger = Memory(beginning)
    await ledger.traffic.go(STEPS)
    await ledger.store.sweep(all_tags())
    exported = await ledger.exported()
    audit = await ledger.audit(kept=kept)
    again = await ledger.audit(exported, kept=kept)

    assert not WRONG & set(verdicts(audit))
    assert verdicts(audit)[Verdict.AGREES] > 30
    assert any(Doubt.HOUR in each.doubts for each in audit.findings)
    assert again.exported == again.exchanges if not kept else again.exported > 0
    assert not WRONG & set(verdicts(again))
    assert not any(Doubt.HOUR in each.doubts for each in again.findings)
    assert verdicts(again)[Verdict.AGREES] > verdicts(audit)[Verdict.AGREES]


async def test_open_windows_only() -> None:
    """Of each budget there is one, unless it was asked for the others."""
    ledger = Memory(MONTHS_END)
    await ledger.traffic.go(STEPS)
    audit = await ledger.audit(history=False)

    now_ms = audit.now_ms
    assert audit.findings
    for each in audit.findings:
        assert each.window.begin_ms <= now_ms < each.window.end_ms


async def test_every_single_error_is_found() -> None:
    """
    A counter that is a unit off, to either side, and a reserve that nobody holds.
    """
    ledger = Memory(BEGINNINGS[0])
    await ledger.traffic.go(STEPS)
    sound = [
        each
        for each in (await ledger.audit()).findings
        if each.verdict is Verdict.AGREES
    ]
    for finding in random.Random(1).sample(sound, 2):
        name = finding.account.key, finding.window.begin_ms
        spendings = ledger.store._tags[finding.account.tag].levels.spendings
        right = spendings[name]
        for change, verdict in (
            ({"spent": right.spent - 1}, Verdict.TOO_LOW),
            ({"spent": right.spent + 1}, Verdict.TOO_HIGH),
            ({"reserved": right.reserved + 1}, Verdict.HOLDS_DIFFER),
        ):
            spendings[name] = replace(right, **change)
            assert await verdict_of(ledger, finding.account) == verdict
        spendings[name] = right


async def verdict_of(ledger: Memory, account: Account) -> Verdict:
    """The one that is not as it was."""
    wrong = [e for e in (await ledger.audit()).findings if e.verdict in WRONG]
    (found,) = wrong
    assert found.account == account
    return found.verdict


async def test_a_counter_that_nobody_looks_at_is_told() -> None:
    """Its budget is gone from the policy; that is no agreement."""
    ledger = Memory(BEGINNINGS[0])
    await ledger.traffic.go(60)
    policy = ledger.traffic.policy
    tenants = {**policy.tenants, "acme": replace(policy.tenants["acme"], quotas=())}
    ledger.traffic.policy = replace(policy, tenants=tenants)
    audit = await ledger.audit()

    gone = {each.account.key for each in audit.findings if each.quota is None}
    assert any(key.startswith("acme.usd|") for key in gone)
    assert not audit.agrees


async def test_nothing_is_what_an_empty_ledger_agrees_on() -> None:
    """There is nothing to find."""
    audit = await Memory(BEGINNINGS[0]).audit()

    assert (audit.findings, audit.agrees) == ((), True)


# === while exchanges go on ========================================================


class Busy:
    """An inspector between whose looks exchanges begin and end."""

    def __init__(self, inner: Inspector, traffic: Traffic) -> None:
        self.inner = inner
        self.traffic = traffic
        self.now_ms = inner.now_ms
        self.counters = inner.counters
        self.records = inner.records
        self.looks = 0

    async def look(self, tag: str, counters: Sequence[CounterName]) -> Look:
        """Look, and go on."""
        found = await self.inner.look(tag, counters)
        self.looks += 1
        if self.looks % 40 == 0:
            await self.traffic.begin()
            await self.traffic.begin()
            await self.traffic.end()
        return found


async def test_what_goes_on_is_no_disagreement(valkey: Server) -> None:
    """
    Exchanges that are settled while it is looked are in neither or in both; only limits
    that tenants share are vague then. Once all is quiet everything agrees.
    """
    events = Recorder()
    inspector = Inspector(valkey.url, events)
    clock = Clock(await inspector.now_ms())
    store = RedisStore(valkey.url, events, deadline_seconds=30, now_ms=clock)
    traffic = Traffic(store, clock, random.Random(3), downgrades=False)
    for _ in range(60):
        await traffic.begin()
    for _ in range(30):
        await traffic.end()
    busy = Busy(inspector, traffic)
    since_ms = clock.now_ms
    audit = await Auditor(busy, store, traffic.policy, (), since_ms).audit()
    quiet = await Auditor(inspector, store, traffic.policy, (), since_ms).audit()

    assert busy.looks > 500
    assert not WRONG & set(verdicts(audit))
    assert all(shared(each) for each in vague(audit))
    assert quiet.agrees
    assert len(quiet.findings) > 15
    assert quiet.exchanges > audit.exchanges > 0
    await store.close()
    await inspector.close()
    assert events.faults == []


def vague(audit: Audit) -> list[Finding]:
    """Those that can't be told."""
    return [each for each in audit.findings if each.verdict is Verdict.UNKNOWN]


def shared(finding: Finding) -> bool:
    """Whether tenants share it."""
    return finding.account.tag.startswith("tw:s")
