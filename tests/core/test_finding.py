"""What is found when counters are compared with what is reckoned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.spenders import (
    DAY,
    DAY_MS,
    HOUR_MS,
    NOON_MS,
    SPENDER,
    budget,
    policy,
)
from tokenweir.core.amendment import Amendment
from tokenweir.core.charges import Account, account
from tokenweir.core.finding import Counter, Finding, Verdict, compare
from tokenweir.core.policy import Policy
from tokenweir.core.reckoning import Doubt, Reckoning, windows_since
from tokenweir.core.usage_record import Exchange, Exchanges
from tokenweir.core.window import Calendar, Window

TODAY_MS = NOON_MS - 12 * HOUR_MS
TODAY = Window(TODAY_MS, TODAY_MS + DAY_MS)
WHERE = account(DAY, "tenant=acme", "acme")
OTHER = Account(WHERE.tag, "acme.old|budget_usd|tenant=acme")


def windows(rule: Calendar) -> tuple[Window, ...]:
    """The open ones."""
    return windows_since(rule, NOON_MS, NOON_MS)


def reckoning(by: Policy, spent: int, *, doubtful: int = 0) -> Reckoning:
    """What an exchange of *spent* makes."""
    made = Reckoning(by, windows)
    exchanges = Exchanges()
    if spent:
        exchanges.add(Exchange("0-0-1", SPENDER, NOON_MS, 10, spent, policy="old"))
    made.reckon(exchanges, ())
    if doubtful:
        made.smears["acme.day", TODAY_MS].amount = doubtful
        made.smears["acme.day", TODAY_MS].doubts = {Doubt.USERS}
    return made


def counter(
    low: int, high: int | None = None, reserved: int = 0, held: int = 0
) -> Counter:
    """Today's."""
    return Counter(TODAY.end_ms, low, low if high is None else high, reserved, held)


def found(
    said: Counter | None, spent: int, *, doubtful: int = 0, by: Policy | None = None
) -> Finding:
    """The one finding."""
    by = by or policy(DAY)
    counters = {} if said is None else {(WHERE, TODAY_MS): said}
    made = reckoning(by, spent, doubtful=doubtful)
    (finding,) = compare(by, windows, made, counters)
    return finding


@pytest.mark.parametrize(
    ("said", "spent", "verdict", "difference"),
    [
        (counter(100), 100, Verdict.AGREES, 0),
        (counter(100, reserved=7, held=7), 100, Verdict.AGREES, 0),
        (counter(60), 100, Verdict.TOO_LOW, 40),
        (None, 100, Verdict.TOO_LOW, 100),
        (counter(60, 90), 100, Verdict.TOO_LOW, 10),
        (counter(130), 100, Verdict.TOO_HIGH, -30),
        (counter(130, 150), 100, Verdict.TOO_HIGH, -30),
        (counter(130), 0, Verdict.TOO_HIGH, -130),
        (counter(90, 110), 100, Verdict.UNKNOWN, 0),
        (counter(100, reserved=7), 100, Verdict.HOLDS_DIFFER, 0),
        (counter(60, reserved=7), 100, Verdict.TOO_LOW, 40),
    ],
)
def test_verdicts(
    said: Counter | None, spent: int, verdict: Verdict, difference: int
) -> None:
    """Agreement is what is proven; what was settled meanwhile makes a range."""
    finding = found(said, spent)

    assert (finding.verdict, finding.difference) == (verdict, difference)
    assert (finding.account, finding.window) == (WHERE, TODAY)
    assert (finding.quota, finding.partition) == (DAY, "tenant=acme")
    assert finding.elsewhere == spent


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (99, Verdict.TOO_LOW),
        (100, Verdict.UNKNOWN),
        (150, Verdict.UNKNOWN),
        (151, Verdict.TOO_HIGH),
    ],
)
def test_what_is_in_doubt_is_no_agreement(said: int, verdict: Verdict) -> None:
    """Within the range it can't be told, outside of it it can; and why is told."""
    finding = found(counter(said), 100, doubtful=50)

    assert (finding.verdict, finding.low, finding.high) == (verdict, 100, 150)
    assert finding.doubts == {Doubt.USERS}


def test_nothing_is_found_where_there_is_nothing() -> None:
    """A counter at nothing of which nothing is known is not worth a word."""
    by = policy(DAY)
    counters = {(WHERE, TODAY_MS): counter(0)}

    assert compare(by, windows, reckoning(by, 0), counters) == []


@pytest.mark.parametrize("where", [OTHER, WHERE])
def test_a_counter_of_no_budget_is_told_apart(where: Account) -> None:
    """Its budget is gone, or has other windows now: nothing is done about it."""
    by = policy(DAY, budget("acme.new"))
    begin_ms = TODAY_MS if where is OTHER else TODAY_MS + HOUR_MS
    counters = {(where, begin_ms): counter(70)}
    (finding,) = compare(by, windows, reckoning(by, 0), counters)

    assert (finding.verdict, finding.difference) == (Verdict.GONE, 0)
    assert finding.window == Window(begin_ms, TODAY.end_ms)
    assert finding.partition == "tenant=acme"
    assert finding.amendment(allow_decrease=True) is None


def test_a_limit_that_is_no_budget_has_no_counter() -> None:
    """Whatever its name."""
    by = policy(replace(DAY, budget=None))
    counters = {(WHERE, TODAY_MS): counter(70)}
    (finding,) = compare(by, windows, reckoning(policy(), 0), counters)

    assert finding.verdict is Verdict.GONE


@pytest.mark.parametrize(
    ("said", "decrease", "add"),
    [
        (counter(60, 90), False, 10),
        (counter(130), False, None),
        (counter(130), True, -30),
        (counter(100), True, None),
        (counter(100, reserved=7, held=5), False, 0),
        (counter(130, reserved=7, held=5), False, 0),
    ],
)
def test_amendments(said: Counter, decrease: bool, add: int | None) -> None:
    """Upwards only, unless told otherwise; what is reserved is put right in any case."""
    amendment = found(said, 100).amendment(allow_decrease=decrease)

    if add is None:
        assert amendment is None
    else:
        assert amendment == Amendment(
            WHERE.key, TODAY, said.low, add, 1_000, (50, 80, 95)
        )


def test_findings_come_in_order() -> None:
    """By limit, then by window."""
    by = policy(DAY)
    names = [(WHERE, TODAY_MS), (OTHER, 5), (OTHER, 4)]
    counters = {name: counter(1) for name in names}
    made = compare(by, windows, reckoning(by, 0), counters)

    assert [each.window.begin_ms for each in made] == [TODAY_MS, 4, 5]
