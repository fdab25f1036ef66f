"""The fields of a budget fit together, or are told one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tokenweir.config.budget_fit import budget_unit, misfits
from tokenweir.config.schema import QuotaEntry


def told(**fields: Any) -> list[str]:
    """Return what does not fit in a quota with *fields*."""
    return [str(problem) for problem in misfits(QuotaEntry.model_validate(fields))]


@pytest.mark.parametrize(
    ("fields", "unit"),
    [
        ({"budget_usd": 5}, "usd"),
        ({"budget_tokens": 5}, "tokens"),
        ({"tokens_per_minute": 5}, None),
    ],
)
def test_units(fields: dict[str, Any], unit: str | None) -> None:
    """A budget is in money or in tokens; a rate is no budget."""
    assert budget_unit(QuotaEntry.model_validate(fields)) == unit


@pytest.mark.parametrize(
    "fields",
    [
        {"concurrency": 5},
        {"budget_usd": 5, "per": "day"},
        {"budget_usd": 5, "per": "hour", "anchor": {}},
        {"budget_usd": 5, "per": "day", "anchor": {"hour": 6}},
        {"budget_usd": 5, "per": "week", "anchor": {"hour": 6, "weekday": "friday"}},
        {"budget_usd": 5, "per": "month", "anchor": {"hour": 6, "day": 31}},
        {"budget_usd": 5, "per": "day", "on_exceeded": "block", "alerts": []},
        {"budget_usd": 5, "per": "day", "on_exceeded": {"downgrade_to": "a"}},
        {
            "budget_tokens": 5,
            "per": "day",
            "on_exceeded": {"throttle_percent": 5, "hard_limit_tokens": 6},
        },
    ],
)
def test_what_fits(fields: dict[str, Any]) -> None:
    """Nothing is told."""
    assert not told(**fields)


def test_only_budgets_have_details() -> None:
    """Each of them is told, so that no limit looks like what it is not."""
    details = {"per": "day", "time_zone": "UTC", "anchor": {}, "on_exceeded": "block",
               "alerts": []}  # fmt: skip

    assert told(concurrency=1, **details) == [
        f"{name}: only goes with budget_usd or budget_tokens: remove it"
        for name in details
    ]


def test_a_budget_has_a_window() -> None:
    """There is none that everybody would expect."""
    assert told(budget_tokens=5, anchor={"day": 5}) == [
        "per: is missing: say `hour`, `day`, `week` or `month`"
    ]


@pytest.mark.parametrize(
    ("per", "anchor", "lines"),
    [
        ("hour", {"hour": 0}, ["anchor.hour: does not go with `per: hour`"]),
        ("day", {"weekday": "monday"}, ["anchor.weekday: only goes with `per: week`"]),
        ("week", {"day": 1}, ["anchor.day: only goes with `per: month`"]),
        ("month", {"weekday": "sunday"}, ["anchor.weekday: only goes with `per: week`"]),
        (
            "hour",
            {"hour": 1, "weekday": "sunday", "day": 1},
            [
                "anchor.weekday: only goes with `per: week`",
                "anchor.day: only goes with `per: month`",
                "anchor.hour: does not go with `per: hour`",
            ],
        ),
    ],
)  # fmt: skip
def test_anchors(per: str, anchor: dict[str, Any], lines: list[str]) -> None:
    """A window is not said to begin at what it has not."""
    assert told(budget_usd=5, per=per, anchor=anchor) == lines


@pytest.mark.parametrize(
    ("exceeded", "line"),
    [
        (
            {"downgrade_to": "a", "throttle_percent": 5},
            (
                "throttle_percent: does not go with `downgrade_to`: a budget does one or the "
                "other"
            ),
        ),
        (
            {"downgrade_to": "a", "hard_limit_tokens": 6},
            "hard_limit_tokens: is not what the budget is in: say `hard_limit_usd`",
        ),
        (
            {"hard_limit_usd": 6},
            (
                "hard_limit_usd: has no effect: without `downgrade_to` or `throttle_percent` "
                "it blocks at `budget_usd` already"
            ),
        ),
        (
            {"throttle_percent": 5, "hard_limit_usd": 5},
            "hard_limit_usd: must be above `budget_usd`",
        ),
    ],
)
def test_what_follows(exceeded: dict[str, Any], line: str) -> None:
    """It can't be two things, and a limit that is never reached is none."""
    assert told(budget_usd=5, per="day", on_exceeded=exceeded) == [
        f"on_exceeded.{line}"
    ]


def test_hard_limits_of_token_budgets() -> None:
    """The same holds for tokens."""
    exceeded = {"downgrade_to": "a", "hard_limit_usd": 6, "hard_limit_tokens": 4}

    assert told(budget_tokens=5, per="day", on_exceeded=exceeded) == [
        (
            "on_exceeded.hard_limit_usd: is not what the budget is in: say "
            "`hard_limit_tokens`"
        ),
        "on_exceeded.hard_limit_tokens: must be above `budget_tokens`",
    ]
