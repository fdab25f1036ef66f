"""What a process knows of the exchanges that Envoy's access log tells of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.examples import NOW_MS, ticket
from tokenweir.core.passage import Passage
from tokenweir.driver.native_watch import (
    SILENT_SECONDS,
    UNHEARD_SECONDS,
    NativeWatch,
    Offer,
)
from tokenweir.telemetry.hooks import ExchangeDetails

GOES_ON = Passage(ticket(), NOW_MS, over=False)
OVER = replace(GOES_ON, over=True)
HOLD = ticket().hold.id


def offer(hold_id: str = HOLD, request_id: str = "") -> Offer:
    """Return what was forwarded."""
    of = ticket().hold
    subject = replace(of.subject, request_id=request_id)
    details = ExchangeDetails(subject, "POST", hold_id, None, None)
    return Offer(replace(of, id=hold_id, subject=subject), details)


@dataclass
class Clock:
    """A clock that stands still until a test moves it."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock."""
    return Clock()


@pytest.fixture
def watch(clock: Clock) -> NativeWatch:
    """Return a watch that goes by it."""
    return NativeWatch(clock)


def test_from_its_forwarding_to_its_settlement(watch: NativeWatch) -> None:
    """An exchange is open until it is settled; only what was heard can be told."""
    watch.expect(offer())
    assert (watch.size, watch.newest()) == (1, [])
    assert watch.hear(GOES_ON)
    assert (watch.size, watch.newest()) == (1, [GOES_ON])
    assert watch.hear(OVER)
    assert (watch.size, watch.newest()) == (1, [])
    watch.settled(HOLD)

    assert watch.size == 0


def test_told_twice(watch: NativeWatch) -> None:
    """What was settled before its end is no news, and its end is forgotten at last."""
    watch.hear(GOES_ON)
    watch.settled(HOLD)

    assert not watch.hear(GOES_ON)
    assert watch.size == 0
    assert not watch.hear(OVER)
    # Of what was forgotten, the ledger knows that it is settled.
    assert watch.hear(OVER)


def test_of_others(watch: NativeWatch) -> None:
    """What another process has forwarded can be heard and settled just so."""
    watch.settled(HOLD)
    assert watch.hear(OVER)
    assert watch.size == 1
    watch.settled(HOLD)

    assert watch.size == 0


def test_unheard_of(watch: NativeWatch, clock: Clock) -> None:
    """What nobody tells of is forgotten, sooner than what was told of once."""
    watch.expect(offer("a"))
    watch.hear(GOES_ON)
    watch.expect(offer("b"))
    clock.now += UNHEARD_SECONDS - 1
    assert watch.size == 3
    clock.now += 1
    assert watch.size == 1
    watch.expect(offer("c"))
    clock.now += SILENT_SECONDS - UNHEARD_SECONDS
    assert watch.size == 0


def test_kept_alive(watch: NativeWatch, clock: Clock) -> None:
    """Each word renews it, also one that is no news."""
    watch.hear(GOES_ON)
    clock.now += SILENT_SECONDS - 1
    watch.hear(GOES_ON)
    clock.now += SILENT_SECONDS - 1
    assert watch.size == 1
    watch.settled(HOLD)
    watch.hear(GOES_ON)
    clock.now += SILENT_SECONDS - 1

    assert not watch.hear(GOES_ON)


def test_never_left(watch: NativeWatch, clock: Clock) -> None:
    """A request that never left Envoy is found by its id, once."""
    watch.expect(offer("a", "r-1"))
    assert watch.take_back("r-2") is None
    assert watch.take_back("r-1") == offer("a", "r-1")
    assert watch.take_back("r-1") is None
    assert watch.size == 0
    watch.expect(offer("b", "r-1"))
    clock.now += UNHEARD_SECONDS

    assert watch.take_back("r-1") is None


def test_never_left_or_somebody_else(watch: NativeWatch) -> None:
    """Where two have an id, or one was heard of, nobody knows which never left."""
    watch.expect(offer("a", "twice"))
    watch.expect(offer("b", "twice"))
    assert watch.take_back("twice") is None
    of = replace(ticket(), hold=offer(HOLD, "heard").hold)
    watch.expect(offer(HOLD, "heard"))
    watch.hear(replace(GOES_ON, ticket=of))

    assert watch.take_back("heard") is None
    assert watch.size == 3
