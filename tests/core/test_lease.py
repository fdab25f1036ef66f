"""Slices: nothing is given away twice, and nobody is refused by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.budget import MAX_SPENT
from tokenweir.core.hold import Amounts, Limit, LimitState
from tokenweir.core.lease import (
    AGE_MS,
    IDLE_MS,
    LEAST,
    MARGIN_MS,
    MOST,
    REST_MS,
    SHARE,
    Book,
    Lot,
    Slice,
    ends_ms,
    less,
    most,
    times,
    within,
)
from tokenweir.core.policy import Axis

EACH = Amounts(1, 40, 60, 900)
TOKENS = Limit("tpm", Axis.TOKENS, "tenant=acme", 1_000, 1_000_000)
REQUESTS = Limit("rpm", Axis.REQUESTS, "tenant=acme", 10_000, 10_000)
SLOTS = Limit("slots", Axis.CONCURRENCY, "tenant=acme", 0, 10_000)
MONEY = Limit("usd", Axis.BUDGET_USD, "tenant=acme", 0, 10**12, turns=(0, 1, 2, 3))
START_MS = 5_000


def none_of(_: Limit) -> int:
    """Other slices have nothing."""
    return 0


def book(*limits: Limit, arrivals: int = 100) -> Book:
    """A book of *limits* that was asked so often in the last second."""
    made = Book(limits or (TOKENS, REQUESTS))
    for _ in range(arrivals):
        made.arrive(EACH, START_MS)
    return made


def piece(lot: Lot, at_ms: int = START_MS, ends: int = START_MS + AGE_MS) -> Slice:
    """A slice of that size."""
    return Slice("lease", lot.exchanges, lot.amounts, at_ms, at_ms, ends)


amounts = st.builds(
    Amounts, st.just(1), *(st.integers(0, most_of) for most_of in (200, 200, 5_000))
)


@given(
    st.lists(st.tuples(amounts, st.integers(0, 700)), max_size=80),
    st.integers(LEAST, 30),
    amounts,
)
def test_what_is_given_away_is_at_most_what_was_leased(
    asked: list[tuple[Amounts, int]], exchanges: int, each: Amounts
) -> None:
    """For every series of exchanges and pauses; and the rest is just what is left."""
    lot = Lot(exchanges, times(each, exchanges))
    one = Book((TOKENS,))
    one.swap(piece(lot))
    now_ms, given_away, count = START_MS, Amounts(0, 0, 0, 0), 0
    for wanted, pause_ms in asked:
        now_ms += pause_ms
        one.arrive(wanted, now_ms)
        if one.take(wanted, now_ms) is not None:
            given_away = Amounts(
                given_away.requests + wanted.requests,
                given_away.input_tokens + wanted.input_tokens,
                given_away.output_tokens + wanted.output_tokens,
                given_away.cost_nanousd + wanted.cost_nanousd,
            )
            count += 1

    assert within(given_away, lot.amounts)
    assert count <= exchanges
    assert one.slice is not None
    assert one.slice.free == less(lot.amounts, given_away)
    assert one.slice.exchanges == exchanges - count


def test_a_slice_is_what_a_second_needs() -> None:
    """As many exchanges as came in this second or the one before, at what they take."""
    lot = book().lot(EACH, START_MS, none_of)

    assert lot == Lot(100, times(EACH, 100))
    later = book()
    later.arrive(EACH, START_MS + 1_000)
    assert later.lot(EACH, START_MS + 1_000, none_of) == lot
    assert book(arrivals=10**4).lot(EACH, START_MS, none_of) == Lot(
        MOST, times(EACH, MOST)
    )


@pytest.mark.parametrize("limit", [TOKENS, REQUESTS, SLOTS, MONEY])
def test_a_slice_is_a_share_of_each_limit(limit: Limit) -> None:
    """Never more; and what other slices have of it counts."""
    each = {Axis.TOKENS: 100, Axis.BUDGET_USD: 900}.get(limit.axis, 1)
    small = replace(limit, capacity=SHARE * each * 10)
    other = book(limit).lot(EACH, START_MS, none_of)
    lot = book(small).lot(EACH, START_MS, none_of)

    assert other is not None
    assert other.exchanges == 100
    assert lot is not None
    assert lot.exchanges == 10
    some = book(small).lot(EACH, START_MS, lambda _: 4 * each)
    assert some is not None
    assert some.exchanges == 6
    assert book(small).lot(EACH, START_MS, lambda _: 7 * each) is None


def test_too_little_is_not_leased() -> None:
    """Neither of a limit that is too small, nor for so few exchanges."""
    tiny = replace(TOKENS, capacity=SHARE * 100 * (LEAST - 1))

    assert book(tiny).lot(EACH, START_MS, none_of) is None
    assert book(arrivals=LEAST - 1).lot(EACH, START_MS, none_of) is None
    assert book(arrivals=LEAST).lot(EACH, START_MS, none_of) is not None


def test_what_an_exchange_needs_is_in_its_slice() -> None:
    """Though it is more than usual; if that is no share any more, nothing is leased."""
    large = replace(EACH, output_tokens=50_000)
    lot = book().lot(large, START_MS, none_of)

    assert lot is not None
    assert within(large, lot.amounts)
    assert book().lot(replace(EACH, output_tokens=70_000), START_MS, none_of) is None


def test_after_a_refusal_each_asks_for_itself() -> None:
    """For a while."""
    one = book()
    one.refused(START_MS)

    assert one.lot(EACH, START_MS + REST_MS - 1, none_of) is None
    assert one.lot(EACH, START_MS + REST_MS, none_of) is not None


@pytest.mark.parametrize(
    ("ends", "quiet_ms", "is_over"),
    [
        (START_MS + AGE_MS, 0, False),
        (START_MS + AGE_MS, AGE_MS - 1, False),
        (START_MS + AGE_MS, AGE_MS, True),
        (START_MS + 500, 499, False),
        (START_MS + 500, 500, True),
    ],
)
def test_a_slice_ends(ends: int, quiet_ms: int, is_over: bool) -> None:
    """At its time: then nobody is admitted any more."""
    one = book()
    one.swap(piece(Lot(5, times(EACH, 5)), ends=ends))
    now_ms = START_MS + quiet_ms

    assert one.slice is not None
    assert one.slice.is_over(now_ms) is is_over
    assert (one.take(EACH, now_ms) is None) is is_over


def test_a_slice_without_a_taker_is_idle() -> None:
    """That is no reason to admit nobody: it may be given back."""
    made = piece(Lot(5, times(EACH, 5)))
    later = made.take(EACH, START_MS + 500)

    assert not made.is_idle(START_MS + IDLE_MS - 1)
    assert made.is_idle(START_MS + IDLE_MS)
    assert not later.is_idle(START_MS + IDLE_MS)


def test_no_more_exchanges_than_it_is_for() -> None:
    """Though all else would be enough: each needs a slot of its own."""
    one = book()
    one.swap(Slice("lease", 1, times(EACH, 5), START_MS, START_MS, START_MS + AGE_MS))

    assert one.take(EACH, START_MS) is not None
    assert one.take(EACH, START_MS) is None


def test_the_rest_is_told_once() -> None:
    """Also of a slice whose exchanges are all given away: they may have taken less."""
    one = book()
    first, second = (piece(Lot(n, times(EACH, n))) for n in (5, 6))

    assert one.swap(first) is None
    assert one.swap(second) == first
    all_given_away = replace(second, exchanges=0)
    assert one.swap(all_given_away) == second
    assert one.swap(replace(all_given_away, free=Amounts(0))) == all_given_away
    assert one.swap(None) is None
    assert one.swap(None) is None


def test_a_book_is_idle_after_two_quiet_seconds() -> None:
    """And never as long as there is a slice."""
    one = book()

    assert not one.is_idle(START_MS + 1_999)
    assert one.is_idle(START_MS + 2_000)
    one.swap(piece(Lot(5, times(EACH, 5))))
    assert not one.is_idle(START_MS + 2_000)


def test_a_budget_ends_a_slice_with_its_window() -> None:
    """A little before: what is admitted later belongs to the next one."""
    states = (LimitState(TOKENS, 5, 3), LimitState(MONEY, 5, 4_000))

    assert ends_ms(states, START_MS) == START_MS + 4_000 - MARGIN_MS
    assert ends_ms(states[:1], START_MS) == START_MS + AGE_MS


def test_what_is_told_as_left_is_there_for_us() -> None:
    """What was left when the slice was granted, and what is left of the slice."""
    states = (LimitState(TOKENS, 1_000, 3), LimitState(SLOTS, 50, 4))
    lot = Lot(5, times(EACH, 5))
    told = replace(piece(lot), states=states).take(EACH, START_MS).states_now()

    assert [state.remaining for state in told] == [1_400, 54]
    assert [state.reset_ms for state in told] == [3, 4]


def test_arithmetic_of_amounts() -> None:
    """Figure by figure, within what can be booked."""
    other = Amounts(2, 10, 100, 0)

    assert most(EACH, other) == Amounts(2, 40, 100, 900)
    assert less(EACH, other) == Amounts(0, 30, 0, 900)
    assert not within(EACH, other)
    assert times(replace(EACH, cost_nanousd=MAX_SPENT), 2).cost_nanousd == MAX_SPENT


def test_what_is_usual_follows_what_comes() -> None:
    """It forgets, and is never below what all take."""
    one = Book((TOKENS,))
    for _ in range(100):
        one.arrive(EACH, START_MS)
    assert one.usual == EACH
    double = times(EACH, 2)
    for _ in range(100):
        one.arrive(double, START_MS)

    assert one.usual == double
