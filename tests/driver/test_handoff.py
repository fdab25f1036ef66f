"""A hold is claimed in time, or given back."""

import asyncio
from dataclasses import replace

import pytest

from tests.examples import hold
from tokenweir.core.hold import Hold
from tokenweir.driver import handoff as module
from tokenweir.driver.handoff import Handoff

HOLD = hold()
OTHER = replace(hold(), id="0-19b7a0e1c00-def")


@pytest.fixture
def unclaimed() -> list[Hold]:
    """Return the list of holds that nobody claimed."""
    return []


@pytest.fixture
def handoff(unclaimed: list[Hold]) -> Handoff:
    """Return a handoff that notes unclaimed holds."""
    return Handoff(unclaimed.append)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass until a hold counts as unclaimed."""
    monkeypatch.setattr(module, "CLAIM_SECONDS", 0.0)


async def test_unclaimed(
    handoff: Handoff, unclaimed: list[Hold], at_once: None
) -> None:
    """A hold that nobody claims in time is handed over once, and not before."""
    handoff.offer(HOLD)
    assert unclaimed == []
    assert handoff.size == 1

    await asyncio.sleep(0.01)
    assert unclaimed == [HOLD]
    assert handoff.size == 0


async def test_claimed(handoff: Handoff, unclaimed: list[Hold], at_once: None) -> None:
    """A claimed hold is its claimer's: its time is not waited for any more."""
    handoff.offer(HOLD)
    handoff.offer(OTHER)
    handoff.claim(HOLD.id)
    assert handoff.size == 1

    await asyncio.sleep(0.01)
    assert unclaimed == [OTHER]


async def test_claim_of_strangers(handoff: Handoff, unclaimed: list[Hold]) -> None:
    """A hold that was offered in another process may be claimed here."""
    handoff.claim("0-1-made-elsewhere")
    handoff.offer(HOLD)
    handoff.claim(HOLD.id)
    handoff.claim(HOLD.id)

    assert handoff.size == 0
    assert unclaimed == []


async def test_late_claim(
    handoff: Handoff, unclaimed: list[Hold], at_once: None
) -> None:
    """A claim that comes too late changes nothing: the ledger undoes the cancel."""
    handoff.offer(HOLD)
    await asyncio.sleep(0.01)
    handoff.claim(HOLD.id)

    assert unclaimed == [HOLD]
