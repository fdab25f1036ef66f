"""What counters should say; that it is what they say: tests/ledger/test_audit.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, timedelta, timezone

import pytest

from tests.core.spenders import DAY, DAY_MS, HOUR_MS, NOON_MS, SPENDER, budget, policy
from tokenweir.core.charges import account
from tokenweir.core.partition import shared_tag_of, tag_of
from tokenweir.core.policy import Axis, Policy
from tokenweir.core.reckoning import (
    NOTHING_HELD,
    Doubt,
    Held,
    Reckoned,
    Reckoning,
    Sum,
    windows_since,
)
from tokenweir.core.record import hour_of
from tokenweir.core.usage_record import Exchange, Exchanges
from tokenweir.core.window import Calendar, Per, Window

TODAY_MS = NOON_MS - 12 * HOUR_MS
KOLKATA = timezone(timedelta(hours=5, minutes=30))
# Its day began at 18:30, at half an hour that sums know nothing of.
HALF = budget("acme.day", calendar=Calendar(Per.DAY, KOLKATA))
BY_USER = budget("acme.day", partition=("tenant", "user"))
BY_MODEL = budget("acme.day", partition=("tenant", "model"), downgrade_to=("mini",))


def exchange(
    number: int = 1,
    *,
    at_ms: int = NOON_MS,
    cost_nanousd: int = 100,
    user: str = "",
    is_lost: bool = False,
    source: str = "records",
) -> Exchange:
    """One of 10 tokens."""
    return Exchange(
        f"0-0-{number}",
        replace(SPENDER, user=user),
        at_ms,
        10,
        cost_nanousd,
        is_lost,
        source=source,
        policy=policy().digest,
    )


def row(
    exchanges: int = 1,
    cost_nanousd: int = 100,
    *,
    at_ms: int = NOON_MS,
    user: str | None = "",
    downgraded: int = 0,
) -> Sum:
    """What an hour's exchanges used."""
    spender = replace(SPENDER, user=user, downgraded_from=None if downgraded else "")
    tokens = 10 * exchanges
    return Sum(hour_of(at_ms), spender, exchanges, downgraded, tokens, cost_nanousd)


def reckoned(
    by: Policy, *evidence: Exchange | Sum, held: Held = NOTHING_HELD
) -> Reckoning:
    """What is reckoned of the windows that are open at noon."""
    exchanges = Exchanges()
    for each in evidence:
        if isinstance(each, Exchange):
            exchanges.add(each)
    sums = [each for each in evidence if isinstance(each, Sum)]
    made = Reckoning(by, lambda rule: windows_since(rule, NOON_MS, NOON_MS))
    made.reckon(exchanges, sums, held)
    return made


def ranges(made: Reckoning) -> Mapping[str, tuple[int, int]]:
    """From what to what each partition's counter may go."""
    return {each.partition: (each.low, each.high) for each in made.accounts.values()}


def only(made: Reckoning) -> Reckoned:
    """The one that was reckoned."""
    (found,) = made.accounts.values()
    return found


def test_windows_up_to_now() -> None:
    """Those that end after a moment; the present one is always there."""
    days = Calendar(Per.DAY, UTC)
    today = Window(TODAY_MS, TODAY_MS + DAY_MS)
    yesterday = Window(TODAY_MS - DAY_MS, TODAY_MS)

    assert windows_since(days, NOON_MS, NOON_MS) == (today,)
    assert windows_since(days, TODAY_MS, NOON_MS) == (today,)
    assert windows_since(days, TODAY_MS - 1, NOON_MS) == (yesterday, today)


@pytest.mark.parametrize(
    ("axis", "spent"), [("budget_usd", 300), ("budget_tokens", 20)]
)
def test_records_are_added_up(axis: str, spent: int) -> None:
    """In what the budget counts, by account; what is of another day is not."""
    by = policy(budget("b", Axis(axis)))
    early = exchange(3, at_ms=TODAY_MS - 1)
    made = reckoned(by, exchange(1), exchange(2, cost_nanousd=200), early)

    where = account(budget("b", Axis(axis)), "tenant=acme", "acme")
    assert set(made.accounts) == {(where, TODAY_MS)}
    assert (only(made).low, only(made).high) == (spent, spent)
    assert only(made).sources == {"records"}
    assert (only(made).elsewhere, only(made).doubts) == (0, set())


def test_what_costs_nothing_is_nothing() -> None:
    """It makes no account."""
    assert not reckoned(policy(DAY), exchange(cost_nanousd=0)).accounts


def test_sums_stand_in_where_records_are_not() -> None:
    """An hour of which there are fewer records than sums tell of exchanges."""
    other = row(2, 500, at_ms=NOON_MS - HOUR_MS)
    made = reckoned(policy(DAY), exchange(1), row(3, 350), other)

    assert (only(made).low, only(made).high) == (850, 850)
    assert only(made).sources == {"records", "sums"}


def test_records_are_better_where_there_are_as_many() -> None:
    """They may know better: sums of an older snapshot have the reaper's estimates."""
    made = reckoned(policy(DAY), exchange(1, source="export"), row(1, 777))

    assert (only(made).low, only(made).sources) == (100, {"export"})


def test_of_an_hour_that_is_cut_only_records_tell() -> None:
    """What sums have beyond them may have been before, or after."""
    begin_ms = NOON_MS - NOON_MS % DAY_MS - 5 * HOUR_MS - HOUR_MS // 2
    before = exchange(1, at_ms=begin_ms - 1)
    after = exchange(2, at_ms=begin_ms, cost_nanousd=30)
    exact = reckoned(policy(HALF), before, after, row(2, 130, at_ms=begin_ms))
    vague = reckoned(policy(HALF), before, after, row(3, 170, at_ms=begin_ms))

    assert (only(exact).low, only(exact).high) == (30, 30)
    assert (only(vague).low, only(vague).high) == (30, 70)
    assert only(vague).doubts == {Doubt.HOUR}


def test_users_that_are_no_longer_known() -> None:
    """Nobody's counter is sure then; that of all users together is."""
    evidence = (exchange(1, user="u1"), row(1, 100, user="u2"), row(3, 400, user=None))
    made = reckoned(policy(BY_USER), *evidence)

    assert ranges(made) == {
        "tenant=acme,user=u1": (100, 100),
        "tenant=acme,user=u2": (100, 100),
    }
    smear = made.smears["acme.day", TODAY_MS]
    assert (smear.amount, smear.doubts) == (300, {Doubt.USERS})
    assert ranges(reckoned(policy(DAY), *evidence)) == {"tenant=acme": (500, 500)}


def test_sums_with_exchanges_that_were_downgraded() -> None:
    """Which model's counter has them is not known; where it is one, they are sure."""
    evidence = row(2, 200, downgraded=1)
    made = reckoned(policy(BY_MODEL), evidence)

    assert ranges(made) == {"tenant=acme,model=gpt-4o": (0, 200)}
    assert only(made).doubts == {Doubt.DOWNGRADED}
    smear = made.smears["acme.day", TODAY_MS]
    assert (smear.amount, smear.doubts) == (200, {Doubt.DOWNGRADED})
    assert ranges(reckoned(policy(DAY), evidence)) == {"tenant=acme": (200, 200)}


def test_downgraded_ones_of_which_there_are_records_leave_no_doubt() -> None:
    """The rest of the hour was not downgraded."""
    down = exchange(1)
    asked = replace(down.spender, downgraded_from="gpt-5")
    made = reckoned(
        policy(BY_MODEL), replace(down, spender=asked), row(3, 400, downgraded=1)
    )

    assert ranges(made) == {
        "tenant=acme,model=gpt-*": (100, 100),
        "tenant=acme,model=gpt-4o": (300, 300),
    }


def test_what_was_spent_under_other_policies_is_told() -> None:
    """The budget may not have been there then."""
    made = reckoned(policy(DAY), replace(exchange(1), policy="other"), exchange(2))

    assert (only(made).low, only(made).elsewhere) == (200, 100)


def test_what_is_held_does_not_count_yet() -> None:
    """
    One that was lost and goes on; and under a shared tag, that which is there held
    still. Where it is over under the one tag, it counts there.
    """
    shared = budget("*.all", partition=("provider",))
    by = policy(DAY, shared)
    own, other = tag_of("acme"), shared_tag_of("*.all", "provider=openai")
    ended, lost = exchange(1), exchange(2, is_lost=True, cost_nanousd=30)
    made = reckoned(by, ended, lost, held={own: {"0-0-2"}, other: {"0-0-1", "0-0-2"}})

    assert ranges(made) == {"tenant=acme": (100, 100)}


def test_what_an_export_knows_to_have_ended_is_in_doubt_while_it_is_held() -> None:
    """An older snapshot has brought it back: the reaper will charge it."""
    made = reckoned(policy(DAY), exchange(1), held={tag_of("acme"): {"0-0-1"}})

    assert (only(made).low, only(made).high) == (0, 100)
    assert only(made).doubts == {Doubt.HELD}


def test_policies_are_looked_up_once_for_each_spender() -> None:
    """Many exchanges are alike."""
    made = reckoned(policy(DAY), *(exchange(number) for number in range(50)))

    assert only(made).low == 5_000
    assert len(made._charges) == 1
