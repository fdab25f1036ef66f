from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.builders import (
    START_MS,
    TAG,
    WORST_CASE,
    budget,
    concurrency,
    hold,
    tokens,
    turns,
    used,
)
from tokenweir.core.bucket import MAX_TOKENS
from tokenweir.core.budget import MAX_SPENT
from tokenweir.core.hold import Amounts, Limit, Outcome, Part, Settlement
from tokenweir.core.holding import (
    MAX_RATE,
    REPLAY_MS,
    TOMBSTONE_MS,
    Account,
    Holding,
    Share,
    State,
    Taken,
    account_of,
    elapsed_ms,
    is_forgotten,
    key_of,
    learned_rate,
    lost_amounts,
    share_of,
    started_ms,
    untaken,
    with_output,
)
from tokenweir.core.policy import Axis
from tokenweir.core.slots import MAX_DURATION_MS
from tokenweir.core.usage import Source
from tokenweir.core.window import Window

EPOCH = START_MS - 5_000_000
HELD = Holding(State.HELD, started_ms=1_000, amounts=Amounts(1, 40, 60))


def test_a_share_says_everything_about_a_hold_under_a_tag() -> None:
    """
    The share that keeps the record has its labels, any other has none.
    """
    made = hold(1, tokens(100))
    share = share_of(made, made.parts[0], keeps_record=True)

    assert (share.hold_id, share.limits) == (made.id, (tokens(100),))
    assert (share.amounts, share.model) == (WORST_CASE, "gpt-4o")
    assert share.labels["tenant"] == "acme"
    assert share_of(made, made.parts[0], keeps_record=False).labels == {}


@pytest.mark.parametrize(
    "amounts",
    [Amounts(-1, 0, 0), Amounts(1, MAX_TOKENS + 1, 0), Amounts(1, 0, -1)],
)
def test_amounts_out_of_range_are_a_mistake(amounts: Amounts) -> None:
    """
    What can't be booked exactly can't be reserved.
    """
    with pytest.raises(ValueError, match="amount out of range"):
        Share("h", (), amounts, "m")


@pytest.mark.parametrize(
    "limit",
    [
        tokens(0),
        tokens(MAX_TOKENS + 1, 60),
        tokens(60, 0),
        tokens(60, MAX_TOKENS + 1),
        concurrency(0),
        replace(concurrency(1), rate=-1),
    ],
)
def test_limits_out_of_range_are_a_mistake(limit: Limit) -> None:
    """
    A limit needs a capacity, and a rate unless it counts slots.
    """
    with pytest.raises(ValueError, match=r"(tpm|slots): \w+ out of range"):
        share_of(hold(1), Part(TAG, (limit,)), keeps_record=False)


def test_an_account_says_everything_about_a_settlement() -> None:
    """
    Attempts, tokens and time are bounded; the record goes with one share only.
    """
    made = hold(1)
    settlement = used(50, 70, attempts=2, duration_ms=1_000)
    account = account_of(made, settlement, keeps_record=True)

    assert account.amounts == Amounts(2, 50, 70)
    assert (account.duration_ms, account.learned_tokens) == (1_000, 70)
    assert account.record["hold"] == made.id
    assert account.increments["output_tokens"] == 70
    plain = account_of(made, settlement, keeps_record=False)
    assert (plain.record, plain.increments) == ({}, {})


def test_absurd_settlements_are_bounded() -> None:
    """
    No figure can make a settle fail.
    """
    absurd = used(10**18, -5, attempts=-1, duration_ms=10**18)
    account = account_of(hold(1), absurd, keeps_record=False)

    assert account.amounts == Amounts(0, MAX_TOKENS, 0)
    assert account.duration_ms == MAX_DURATION_MS


@pytest.mark.parametrize(
    "settlement",
    [
        replace(used(50, 70, duration_ms=1_000), outcome=Outcome.CUT),
        replace(used(50, 70, duration_ms=1_000), source=Source.ESTIMATED),
        used(50, 70, duration_ms=0),
    ],
)
def test_only_complete_answers_tell_speed(settlement: Settlement) -> None:
    """
    A cut, estimated or untimed answer says nothing about how fast a model is.
    """
    account = account_of(hold(1), settlement, keeps_record=False)

    assert account.learned_tokens == 0


def test_untaken_limits_are_named_but_not_debited() -> None:
    """
    A hold begins with all of its limits, and nothing taken from any.
    """
    assert untaken((tokens(100, 60), concurrency(3)), START_MS) == (
        Taken("tpm|tokens_per_minute|tenant=acme", Axis.TOKENS, 60, 100, 0),
        Taken("slots|concurrency|tenant=acme", Axis.CONCURRENCY, 0, 3, 0),
    )


def test_a_budget_is_booked_into_the_window_in_which_the_hold_began() -> None:
    """
    Whatever the clock says later; a moment of none of the three means the middle one.
    """
    yesterday, today, tomorrow, after = turns()
    limits = (budget(100),)

    assert untaken(limits, today - 1)[0].window == Window(yesterday, today)
    assert untaken(limits, today)[0].window == Window(today, tomorrow)
    assert untaken(limits, after)[0].window == Window(today, tomorrow)
    assert untaken(limits, today)[0].thresholds == (50, 80, 95)


def test_less_output_costs_less() -> None:
    """
    What an exchange is charged for without a settle follows its output.
    """
    amounts = Amounts(1, 40, 60, 1_000)

    assert with_output(amounts, 50, 7) == Amounts(1, 40, 50, 930)
    assert with_output(amounts, 70, 7) == Amounts(1, 40, 70, 1_070)
    assert with_output(amounts, 0, 50).cost_nanousd == 0


@pytest.mark.parametrize(
    "limit",
    [
        replace(budget(1), capacity=MAX_SPENT + 1),
        replace(budget(1), hard_limit=MAX_SPENT + 1),
        replace(budget(1), turns=()),
        replace(budget(1), turns=(1, 2, 3)),
        replace(budget(1), turns=(1, 2, 2, 3)),
        replace(budget(1), turns=(-1, 2, 3, 4)),
    ],
)
def test_a_budget_without_sound_windows_is_refused(limit: Limit) -> None:
    """
    What the scripts can't compute with never gets to them.
    """
    with pytest.raises(ValueError, match="budget"):
        Share("h", (limit,), WORST_CASE, "gpt-4o")


@pytest.mark.parametrize("nanousd", [-1, MAX_SPENT + 1])
def test_a_cost_out_of_range_is_refused(nanousd: int) -> None:
    """
    Costs stay within what is exact.
    """
    with pytest.raises(ValueError, match="cost"):
        Share("h", (), Amounts(1, 1, 1, nanousd), "gpt-4o")
    with pytest.raises(ValueError, match="cost"):
        Share("h", (), WORST_CASE, "gpt-4o", output_nanousd=nanousd)


def test_long_keys_are_shortened() -> None:
    """
    A key stays readable as long as it is short; a long one is told by its hash.
    """
    long = replace(tokens(1), partition="user=" + "x" * 500)
    other = replace(tokens(1), partition="user=" + "x" * 499 + "\ud800")

    assert key_of(tokens(1)) == "tpm|tokens_per_minute|tenant=acme"
    assert key_of(long).startswith("tpm|tokens_per_minute|sha256:")
    assert len(key_of(long)) == len("tpm|tokens_per_minute|sha256:") + 64
    assert key_of(other) != key_of(long)
    assert len(key_of(replace(long, quota="q" * 500))) < 300


def test_what_is_counted_is_part_of_the_key() -> None:
    """
    A quota that is called as before but counts something else has another level.
    """
    keys = {key_of(replace(tokens(1), axis=axis)) for axis in Axis}

    assert len(keys) == len(Axis)


@pytest.mark.parametrize(
    ("made_ms", "believed_ms"),
    [
        (START_MS - 60_000, START_MS - 60_000),
        (START_MS + 60_000, START_MS),
        (START_MS - 10**9, START_MS - MAX_DURATION_MS),
    ],
)
def test_an_id_tells_when_it_was_made(made_ms: int, believed_ms: int) -> None:
    """
    The clock of a hold's maker is believed within the last day.
    """
    assert started_ms(f"7-{made_ms:x}-beef", START_MS) == believed_ms


@pytest.mark.parametrize("name", ["", "h", "7-xyz-1", f"7-{10**20:x}-1", "-1-2-3"])
def test_an_id_of_another_form_tells_nothing(name: str) -> None:
    """
    A hold whose id says nothing is new: it starts now and was not settled before.
    """
    assert started_ms(name, START_MS) == START_MS
    assert not is_forgotten(name, 0, START_MS)


@pytest.mark.parametrize(
    ("made_in", "age_ms", "expected"),
    [
        (EPOCH, REPLAY_MS + 1, True),
        (EPOCH, REPLAY_MS, False),
        (EPOCH + 1, REPLAY_MS + 1, True),
        (EPOCH - 1, REPLAY_MS + 1, False),
        (0, 10**9, False),
    ],
)
def test_what_may_have_been_forgotten(
    made_in: int, age_ms: int, expected: bool
) -> None:
    """
    An unknown hold may have been settled if it is old and of this ledger's epoch.
    """
    name = f"{made_in}-{START_MS - age_ms:x}-beef"

    assert is_forgotten(name, EPOCH, START_MS) is expected


def test_tombstones_outlive_replays() -> None:
    """
    Nothing that may still be repeated is ever forgotten, if clocks differ or not.
    """
    assert TOMBSTONE_MS >= REPLAY_MS + 300_000


@pytest.mark.parametrize(
    ("progress", "rate", "now_ms", "output"),
    [
        (0, 0, 31_000, 0),  # nothing reported, nothing learned
        (25, 0, 31_000, 25),  # what was reported
        (25, 1_500, 31_000, 45),  # 30 s at 1.5 tokens a second
        (50, 1_500, 31_000, 50),
        (0, 1_000_000, 31_000, 60),  # not more than was reserved
        (0, 1_500, 500, 0),  # the clock stepped back
    ],
)
def test_what_a_lost_hold_is_charged(
    progress: int, rate: int, now_ms: int, output: int
) -> None:
    """
    All of the input; of the output what was reported or can have been made since.
    """
    lost = replace(HELD, progress=progress)

    assert lost_amounts(lost, rate, now_ms) == Amounts(1, 40, output)


def test_elapsed_time_is_a_day_at_most() -> None:
    """
    What nobody reaped for longer is charged no more than a day's output.
    """
    assert elapsed_ms(HELD, 10**13) == MAX_DURATION_MS
    assert elapsed_ms(HELD, 4_000) == 3_000


def test_rates_are_learned() -> None:
    """
    The first exchange sets the rate, any other moves it by an eighth.
    """
    first = learned_rate(None, Account(WORST_CASE, 2_000, 100))
    second = learned_rate(first, Account(WORST_CASE, 1_000, 130))
    third = learned_rate(second, Account(WORST_CASE, 1_000, 0))

    assert (first, second, third) == (50_000, 60_000, 60_000)


@given(st.integers(1, MAX_TOKENS), st.integers(1, MAX_DURATION_MS))
def test_no_rate_is_absurd(learned_tokens: int, duration_ms: int) -> None:
    """
    A provider that claims a million tokens in a millisecond is not believed.
    """
    rate = learned_rate(None, Account(WORST_CASE, duration_ms, learned_tokens))

    assert rate is not None
    assert 0 <= rate <= MAX_RATE
    assert rate * MAX_DURATION_MS < 2**53
