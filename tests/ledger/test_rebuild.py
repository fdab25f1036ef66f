"""Putting counters right; on a real server: tests/cli/test_ledger.py and B13."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.core.spenders import DAY, DAY_MS, HOUR_MS, NOON_MS
from tokenweir.core.amendment import Amendment
from tokenweir.core.charges import Account
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.finding import Counter, Finding, Verdict
from tokenweir.core.window import Window
from tokenweir.ledger import rebuild as module
from tokenweir.ledger.audit import Audit
from tokenweir.ledger.rebuild import LEASE_MS, RebuildBusyError, Step, plan, rebuild

TODAY_MS = NOON_MS - 12 * HOUR_MS
TODAY = Window(TODAY_MS, TODAY_MS + DAY_MS)


def finding(tag: str, number: int, said: int, right: int) -> Finding:
    """A counter that says one thing and should say another."""
    return Finding(
        Account(tag, f"b{number}|budget_usd|tenant=acme"),
        TODAY,
        Verdict.TOO_LOW,
        Counter(TODAY.end_ms, said, said),
        right,
        right,
        DAY,
    )


LOW, OTHER = finding("tw:001", 1, 60, 100), finding("tw:002", 2, 0, 7)
HIGH, RIGHT = finding("tw:001", 3, 130, 100), finding("tw:001", 4, 5, 5)
FINDINGS = (LOW, OTHER, HIGH, RIGHT)


class Ledger:
    """Takes amendments."""

    def __init__(self, *, leads: Sequence[bool] = (True, True, False)) -> None:
        self.leads = list(leads)
        self.leases: list[tuple[str, int]] = []
        self.amended: list[tuple[str, list[Amendment]]] = []
        self.fails = False

    async def amend(self, tag: str, amendments: Sequence[Amendment]) -> list[bool]:
        """Refuse what would lower."""
        if self.fails:
            raise LedgerUnavailableError("no answer")
        self.amended.append((tag, list(amendments)))
        return [each.add > 0 for each in amendments]

    async def lead(self, owner: str, lease_ms: int) -> bool:
        """Say what it was told to."""
        self.leases.append((owner, lease_ms))
        return self.leads.pop(0) if lease_ms else False


async def audit() -> Audit:
    """What was found."""
    return Audit(NOON_MS, FINDINGS)


@pytest.mark.parametrize(("decrease", "count"), [(False, 2), (True, 3)])
def test_what_would_be_done(decrease: bool, count: int) -> None:
    """Counters that are right are left alone; lowered they are only when allowed."""
    steps = plan(FINDINGS, allow_decrease=decrease)

    assert [step.finding for step in steps] == [LOW, OTHER, HIGH][:count]
    assert [step.amendment.add for step in steps] == [40, 7, -30][:count]
    assert {step.done for step in steps} == {None}


async def test_it_is_done_tag_by_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches, under a lease that is given back; what was not possible is told."""
    monkeypatch.setattr(module, "BATCH", 1)
    ledger = Ledger()
    found, steps = await rebuild(ledger, audit, "me", allow_decrease=True)

    assert found == await audit()
    assert [(tag, [each.add for each in batch]) for tag, batch in ledger.amended] == [
        ("tw:001", [40]),
        ("tw:001", [-30]),
        ("tw:002", [7]),
    ]
    assert [(step.finding, step.done) for step in steps] == [
        (LOW, True),
        (HIGH, False),
        (OTHER, True),
    ]
    assert isinstance(steps[0], Step)
    assert ledger.leases == [("me", LEASE_MS), ("me", LEASE_MS), ("me", 0)]


@pytest.mark.parametrize("leads", [(False,), (True, False)])
async def test_one_at_a_time(leads: tuple[bool, ...]) -> None:
    """Whoever does not lead, or no longer, writes nothing."""
    ledger = Ledger(leads=leads)
    with pytest.raises(RebuildBusyError, match="somebody else"):
        await rebuild(ledger, audit, "me", allow_decrease=False)

    assert ledger.amended == []


async def test_the_lease_is_given_back_after_faults() -> None:
    """The next one need not wait for it to end."""
    ledger = Ledger()
    ledger.fails = True
    with pytest.raises(LedgerUnavailableError):
        await rebuild(ledger, audit, "me", allow_decrease=False)

    assert ledger.leases[-1] == ("me", 0)
