"""A hold is claimed in time, or given back and told of."""

import asyncio
from dataclasses import replace

import pytest

from tests.driver.fakes import Gate, Kit, raising
from tests.examples import NOW_MS, hold
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Hold, Outcome, Settlement
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.driver import handoff as module
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.telemetry.decision import Decision, decision_of
from tokenweir.telemetry.hooks import ExchangeDetails

HOLD = replace(hold(), id=f"0-{NOW_MS:x}-abc")
OTHER = replace(hold(), id=f"0-{NOW_MS:x}-def")
SETTLEMENT = Settlement(TokenUsage(5), Source.REPORTED, Outcome.COMPLETED)


def details_of(offered: Hold) -> ExchangeDetails:
    """Return what is known of an exchange whose request was forwarded."""
    return ExchangeDetails(offered.subject, "POST", offered.id, None, None)


@pytest.fixture
def kit() -> Kit:
    """Return services over fakes."""
    return Kit()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass until a hold counts as unclaimed."""
    monkeypatch.setattr(module, "CLAIM_SECONDS", 0.0)


async def offer(kit: Kit, *holds: Hold) -> None:
    """Reserve *holds* and offer them."""
    for each in holds:
        await kit.ledger.reserve(each)
        kit.handoff.offer(each, details_of(each))


async def expire(kit: Kit) -> None:
    """Wait until no hold is waited for, and what follows is done."""
    async with asyncio.timeout(30):
        while kit.handoff.size:  # noqa: ASYNC110 - a timer is what is tested
            await asyncio.sleep(0.001)
    await kit.quiet()


async def test_unclaimed(kit: Kit, at_once: None) -> None:
    """A hold that nobody claims in time is given back, and told of once."""
    await offer(kit, HOLD)
    assert kit.handoff.size == 1
    assert kit.recorder.exchanges == []

    await expire(kit)
    assert await kit.ledger.reserved() == {}
    assert kit.recorder.exchanges == [details_of(HOLD)]
    assert decision_of(kit.recorder.exchanges[0]) is Decision.ABANDONED


async def test_claimed(kit: Kit, at_once: None) -> None:
    """A claimed hold is its claimer's: its time is not waited for any more."""
    await offer(kit, HOLD, OTHER)
    assert kit.handoff.claim(HOLD.id)
    assert kit.handoff.size == 1

    await expire(kit)
    assert kit.recorder.exchanges == [details_of(OTHER)]
    assert kit.ledger.count("cancel") == 1


async def test_claim_of_strangers(kit: Kit) -> None:
    """A hold that was offered in another process may be claimed here."""
    assert not kit.handoff.claim("0-1-made-elsewhere")
    await offer(kit, HOLD)
    assert kit.handoff.claim(HOLD.id)
    assert not kit.handoff.claim(HOLD.id)

    assert kit.handoff.size == 0


@pytest.mark.parametrize("ended", [True, False])
async def test_claimed_elsewhere(kit: Kit, at_once: None, ended: bool) -> None:
    """A hold that another process has claimed or settled is left alone, and its to tell."""
    await offer(kit, HOLD)
    await kit.ledger.extend(HOLD, 0)
    if ended:
        await kit.ledger.settle(HOLD, SETTLEMENT)
    before = await kit.ledger.reserved()

    await expire(kit)
    assert await kit.ledger.reserved() == before
    assert kit.recorder.exchanges == []


async def test_ledger_that_has_lost_the_hold(kit: Kit, at_once: None) -> None:
    """Who was admitted without the ledger's answer may have no hold: it is told of."""
    kit.handoff.offer(HOLD, details_of(HOLD))

    await expire(kit)
    assert kit.recorder.exchanges == [details_of(HOLD)]


async def test_late_claim(kit: Kit, at_once: None) -> None:
    """A claim that comes too late changes nothing: the ledger undoes the cancel."""
    await offer(kit, HOLD)
    gate = Gate()
    kit.ledger.before["cancel"] = gate
    await gate.reached.wait()
    assert not kit.handoff.claim(HOLD.id)
    gate.opened.set()

    await kit.quiet()
    assert kit.recorder.exchanges == [details_of(HOLD)]


async def test_a_process_that_stood_still(
    kit: Kit, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was away longer than Envoy waits leaves the hold to the reaper."""
    monkeypatch.setattr(module, "STILL_SECONDS", 0.0)
    await offer(kit, HOLD)

    await expire(kit)
    assert await kit.ledger.reserved() != {}
    assert kit.recorder.exchanges == []


def test_still_is_as_long_as_envoy_waits() -> None:
    """A stall in which Envoy loses no patience counts for nothing."""
    assert EnvoySettings().response_timeout_ms == module.STILL_SECONDS * 1_000


async def test_no_answer_is_no_news(kit: Kit, at_once: None) -> None:
    """If the cancel breaks, it is a fault, and nothing is said of the exchange."""
    kit.ledger.before["cancel"] = raising(LedgerUnavailableError("gone"))
    await offer(kit, HOLD)

    await expire(kit)
    assert kit.recorder.exchanges == []
    assert len(kit.recorder.faults) == 1
