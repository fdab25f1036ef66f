"""A dry ledger answers like the real one and takes nothing."""

from __future__ import annotations

import pytest

from tests.explain.asking import NOW_MS, Raising, Source
from tests.ledger.builders import SUBJECT
from tokenweir.core.bucket import Bucket, full
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import (
    Amounts,
    Denied,
    Granted,
    Hold,
    Limit,
    Outcome,
    Part,
    Settlement,
    Stale,
)
from tokenweir.core.holding import key_of
from tokenweir.core.levels import Levels
from tokenweir.core.policy import Axis
from tokenweir.core.usage import Source as UsageSource
from tokenweir.core.usage import TokenUsage
from tokenweir.explain.dry_ledger import DryLedger, NothingUsed

TPM = Limit("a.tpm", Axis.TOKENS, "tenant=acme", 600, 1_000)
TRIAL = Limit("a.trial", Axis.OUTPUT_TOKENS, "tenant=acme", 60, 10, shadow=True)
SHARED = Limit("*.tpm", Axis.TOKENS, "provider=openai", 600, 50)
ASKED = Amounts(1, 40, 60)


def hold(*parts: Part) -> Hold:
    """Return a hold of 100 tokens."""
    return Hold(f"0-{NOW_MS:x}-x", parts, ASKED, SUBJECT)


def used(limit: Limit, left: int) -> Levels:
    """Return levels with so much *left* of *limit*."""
    bucket = full(limit.rate, left, NOW_MS)
    level = Bucket(bucket.level_units, NOW_MS, 0, limit.rate, limit.capacity)
    return Levels(buckets={key_of(limit): level})


async def test_granted() -> None:
    """What is left before and after, and what a shadow would have said."""
    source = Source(used(TPM, 700))
    ledger = DryLedger(source, NOW_MS)
    outcome = await ledger.reserve(hold(Part("tw:001", (TPM, TRIAL))))

    assert isinstance(outcome, Granted)
    assert source.asked == [("tw:001", NOW_MS)]
    [reserving] = ledger.reservings
    tokens, trial = reserving.standings
    assert (tokens.before.remaining, tokens.after.remaining) == (700, 600)
    assert (tokens.requested, tokens.failure) == (100, None)
    assert (trial.before.remaining, trial.after.remaining) == (10, 10)
    assert trial.failure is not None
    assert [failure.quota for failure in outcome.shadowed] == ["a.trial"]


async def test_denied() -> None:
    """A denial takes nothing, and tells the wait; earlier tags are told too."""
    parts = (Part("tw:001", (TPM,)), Part("tw:s001", (SHARED,)))
    ledger = DryLedger(Source(), NOW_MS)
    outcome = await ledger.reserve(hold(*parts))

    assert isinstance(outcome, Denied)
    [reserving] = ledger.reservings
    assert reserving.outcome == outcome
    assert [each.limit.quota for each in reserving.standings] == ["a.tpm", "*.tpm"]
    failure = reserving.standings[1].failure
    assert failure is not None
    assert failure.wait_ms == 5_000
    assert reserving.standings[1].after.remaining == 50


async def test_each_try_is_told() -> None:
    """One that follows begins with the levels as they are, not as the first left them."""
    ledger = DryLedger(NothingUsed(), NOW_MS)
    for _ in range(2):
        await ledger.reserve(hold(Part("tw:001", (TPM,))))

    assert [
        standing.before.remaining
        for reserving in ledger.reservings
        for standing in reserving.standings
    ] == [1_000, 1_000]


async def test_a_window_that_has_turned() -> None:
    """Windows that do not cover the moment are computed anew, as by the real one."""
    turns = (1, 2, 3, 4)
    budget = Limit("a.usd", Axis.BUDGET_USD, "tenant=acme", 0, 9, turns=turns)
    ledger = DryLedger(Source(), NOW_MS)
    outcome = await ledger.reserve(hold(Part("tw:001", (budget,))))

    assert isinstance(outcome, Stale)
    assert outcome.now_ms == NOW_MS
    assert ledger.reservings[0].standings == ()


async def test_no_answer() -> None:
    """A ledger that can't be read is no refusal: it is remembered."""

    source = Raising(LedgerUnavailableError("silent"))
    ledger = DryLedger(source, NOW_MS)
    with pytest.raises(LedgerUnavailableError):
        await ledger.reserve(hold(Part("tw:001", (TPM,))))

    assert ledger.failure is source.error
    assert ledger.reservings == []


async def test_the_other_verbs() -> None:
    """There is nothing to extend, to settle or to cancel."""
    source = Source()
    ledger = DryLedger(source, NOW_MS)
    asked = hold(Part("tw:001", (TPM,)))
    settlement = Settlement(TokenUsage(), UsageSource.REPORTED, Outcome.COMPLETED)
    await ledger.extend(asked, 5)
    await ledger.settle(asked, settlement)
    await ledger.ping()
    await ledger.close()

    assert await ledger.cancel(asked)
    assert await ledger.epoch() == "0"
    assert source.asked == []


async def test_nothing_used() -> None:
    """Without a ledger everything is full, and the clock is this machine's."""
    source = NothingUsed()

    assert await source.levels("tw:001", (TPM,), NOW_MS) == Levels()
    assert await source.now_ms() > 1_600_000_000_000
