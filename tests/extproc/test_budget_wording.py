"""Money is written as people write it, to the last nano-USD."""

import pytest

from tokenweir.core.policy import Axis
from tokenweir.core.rejection import QuotaFailure, Unsatisfiable
from tokenweir.extproc.budget_wording import (
    amount,
    model_unpriced,
    moment,
    never,
    spent,
)

MONEY, TOKENS = Axis.BUDGET_USD, Axis.BUDGET_TOKENS
QUOTA = "quota acme.daily (tenant=acme)"


@pytest.mark.parametrize(
    ("axis", "figure", "shown"),
    [
        (MONEY, 0, "$0.00"),
        (MONEY, 1, "$0.000000001"),
        (MONEY, 250_000_000, "$0.25"),
        (MONEY, 255_000_000, "$0.255"),
        (MONEY, 50 * 10**9, "$50.00"),
        (MONEY, 4_500_000 * 10**9, "$4,500,000.00"),
        (TOKENS, 1_200, "1,200 tokens"),
    ],
)
def test_amounts(axis: Axis, figure: int, shown: str) -> None:
    """Cents always, finer parts where there are some."""
    assert amount(axis, figure) == shown


def test_a_moment_is_utc() -> None:
    """Callers may be anywhere."""
    assert moment(1_767_225_600_000) == "2026-01-01T00:00:00Z"


def test_a_spent_budget_says_when_it_turns() -> None:
    """What is spent, what is held, what was asked for, and what helps."""
    failure = QuotaFailure(
        *("acme.daily", MONEY, "tenant=acme", 50 * 10**9),
        *(49 * 10**9, 980_000_000, 40_000_000, 5_000),
        per="day",
        resets_at_ms=1_767_225_600_000,
    )

    assert spent(failure, QUOTA) == (
        "daily budget: this request may need $0.04, and of the $50.00 of quota "
        "acme.daily (tenant=acme), $49.00 are spent and $0.98 are held by requests in "
        "flight. It begins anew at 2026-01-01T00:00:00Z. Until then call a cheaper "
        "model, shorten the prompt or lower max_tokens, or have the budget raised."
    )


def test_what_no_window_can_hold() -> None:
    """Waiting can't help, whatever the clock says."""
    text = never(Unsatisfiable("q", TOKENS, "tenant=acme", 100, 101), QUOTA)

    assert "101 tokens" in text
    assert "waiting can't help" in text


@pytest.mark.parametrize(
    ("what", "shown"), [("model", '"m" costs'), ("flex", '"m" (its "flex") costs')]
)
def test_a_model_without_a_price(what: str, shown: str) -> None:
    """It says what is missing, and where it can be added."""
    text = model_unpriced("m", what)

    assert shown in text
    assert "prices.ceiling" in text
