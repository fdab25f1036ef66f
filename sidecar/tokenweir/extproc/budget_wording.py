"""What refusals say about money: amounts as people write them, and what helps."""

from __future__ import annotations

from datetime import UTC, datetime

from tokenweir.core.budget import NANOUSD_PER_USD
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import QuotaFailure, Unsatisfiable

# Cents are always shown; finer parts where there are some.
MIN_DIGITS = 2

WINDOWS = {
    "hour": "hourly",
    "day": "daily",
    "week": "weekly",
    "month": "monthly",
}


def amount(axis: Axis, figure: int) -> str:
    """Return *figure* of a budget: ``"$0.25"``, ``"1,200 tokens"``."""
    if axis is not Axis.BUDGET_USD:
        return f"{figure:,} tokens"
    dollars, rest = divmod(figure, NANOUSD_PER_USD)
    digits = f"{rest:09d}".rstrip("0").ljust(MIN_DIGITS, "0")
    return f"${dollars:,}.{digits}"


def moment(at_ms: int) -> str:
    """Return a time of day as RFC 3339 writes it, in UTC."""
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def spent(failure: QuotaFailure, quota: str) -> str:
    """Return how a budget stands that a request does not fit into, and what helps."""
    axis = failure.axis
    return (
        f"{WINDOWS.get(failure.per, '')} budget: this request may need "
        f"{amount(axis, failure.requested)}, and of the "
        f"{amount(axis, failure.capacity)} of {quota}, {amount(axis, failure.used)} "
        f"are spent and {amount(axis, failure.reserved)} are held by requests in "
        f"flight. It begins anew at {moment(failure.resets_at_ms)}. Until then call a "
        "cheaper model, shorten the prompt or lower max_tokens, or have the budget "
        "raised."
    ).lstrip()


def never(rejection: Unsatisfiable, quota: str) -> str:
    """Return why no window of a budget is large enough for a request."""
    return (
        f"This request may need {amount(rejection.axis, rejection.requested)}, but "
        f"{quota} has no more than {amount(rejection.axis, rejection.capacity)} in a "
        "whole window: waiting can't help. Call a cheaper model, shorten the prompt or "
        "lower max_tokens, or have the budget raised."
    )


def model_unpriced(model: str, what: str) -> str:
    """Return what to do about a *model* without a price; *what* of it has none."""
    of_it = "" if what == "model" else f' (its "{what}")'
    return (
        f'This gateway does not know what the model "{model}"{of_it} costs, and a '
        "budget in US dollars applies to it. Have its price added to the policy: to a "
        "file of prices.overlays, or by prices.ceiling."
    )
