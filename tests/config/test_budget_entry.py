"""What a budget says is read, or told."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import TypeAdapter, ValidationError

from tokenweir.config.budget_entry import (
    MAX_CHAIN,
    WEEKDAYS,
    AnchorEntry,
    BudgetFields,
    Chain,
    OnExceededEntry,
)

CHAIN: TypeAdapter[list[str]] = TypeAdapter(Chain)


def wrong(fields: dict[str, Any]) -> list[tuple[str | int, ...]]:
    """Return where *fields* are wrong."""
    with pytest.raises(ValidationError) as caught:
        BudgetFields.model_validate(fields)
    return [error["loc"] for error in caught.value.errors()]


def test_a_budget_with_everything() -> None:
    """An entry holds nano-USD and a zone, whatever the file says."""
    entry = BudgetFields.model_validate(
        {
            "budget_usd": "0.5",
            "per": "month",
            "time_zone": "Asia/Tokyo",
            "anchor": {"hour": 6, "day": 31},
            "on_exceeded": {"downgrade_to": "small", "hard_limit_usd": 1},
            "alerts": [1, 100],
        }
    )

    assert (entry.budget_usd, entry.per) == (500_000_000, "month")
    assert entry.time_zone == ZoneInfo("Asia/Tokyo")
    assert entry.anchor == AnchorEntry(hour=6, day=31)
    assert entry.on_exceeded is not None
    assert entry.on_exceeded.downgrade_to == ["small"]
    assert entry.on_exceeded.hard_limit_usd == 1_000_000_000
    assert entry.alerts == [1, 100]


def test_a_quota_that_is_no_budget() -> None:
    """None of the fields has to be there."""
    assert set(BudgetFields().model_dump().values()) == {None}
    assert AnchorEntry().model_dump() == {"hour": 0, "weekday": None, "day": None}


@pytest.mark.parametrize("value", ["block", {}])
def test_blocking_can_be_said(value: object) -> None:
    """It is what follows anyway."""
    entry = BudgetFields.model_validate({"on_exceeded": value})

    assert entry.on_exceeded == OnExceededEntry()


@pytest.mark.parametrize("value", ["blok", "downgrade", ["block"], 5, True])
def test_what_follows_is_a_word_or_a_mapping(value: object) -> None:
    """Anything else is told as a whole, and not as a mapping that went wrong."""
    with pytest.raises(ValidationError) as caught:
        BudgetFields.model_validate({"on_exceeded": value})
    (error,) = caught.value.errors()

    assert error["loc"] == ("on_exceeded",)
    assert "must be `block`, or a mapping with `downgrade_to` or" in error["msg"]


@pytest.mark.parametrize(
    ("value", "chain"), [("a", ["a"]), (["a"], ["a"]), (["b", "a"], ["b", "a"])]
)
def test_chains(value: object, chain: list[str]) -> None:
    """One model needs no list."""
    assert CHAIN.validate_python(value, strict=True) == chain


@pytest.mark.parametrize(
    ("value", "locations"),
    [
        ([], [()]),
        (5, [()]),
        ({"a": 1}, [()]),
        (["a", "b", "a"], [()]),
        ([f"m{n}" for n in range(MAX_CHAIN + 1)], [()]),
        (["a", 5, "b*", ["c"]], [(1,), (2,), (3,)]),
        ("*", [(0,)]),
    ],
)
def test_what_is_no_chain(value: object, locations: list[tuple[int, ...]]) -> None:
    """Nothing, a name twice, a family, and more than anybody would try."""
    with pytest.raises(ValidationError) as caught:
        CHAIN.validate_python(value, strict=True)

    assert [error["loc"] for error in caught.value.errors()] == locations


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"budget_usd": 0}, ("budget_usd",)),
        ({"budget_usd": 4_500_001}, ("budget_usd",)),
        ({"budget_tokens": 0}, ("budget_tokens",)),
        ({"budget_tokens": "5"}, ("budget_tokens",)),
        ({"budget_tokens": 4_500_000_000_000_001}, ("budget_tokens",)),
        ({"per": "year"}, ("per",)),
        ({"per": "Day"}, ("per",)),
        ({"time_zone": "Tokyo"}, ("time_zone",)),
        ({"anchor": {"hour": 24}}, ("anchor", "hour")),
        ({"anchor": {"hour": -1}}, ("anchor", "hour")),
        ({"anchor": {"day": 0}}, ("anchor", "day")),
        ({"anchor": {"day": 32}}, ("anchor", "day")),
        ({"anchor": {"weekday": 1}}, ("anchor", "weekday")),
        ({"on_exceeded": {"throttle_percent": 0}}, ("on_exceeded", "throttle_percent")),
        ({"on_exceeded": {"throttle_percent": 100}}, ("on_exceeded", "throttle_percent")),
        ({"on_exceeded": {"hard_limit_usd": "x"}}, ("on_exceeded", "hard_limit_usd")),
        ({"on_exceeded": {"hard_limit_tokens": 0}}, ("on_exceeded", "hard_limit_tokens")),
        ({"alerts": [50, 0]}, ("alerts", 1)),
        ({"alerts": [101]}, ("alerts", 0)),
        ({"alerts": ["50%"]}, ("alerts", 0)),
        ({"alerts": [*range(1, 12)]}, ("alerts",)),
    ],
)  # fmt: skip
def test_values_out_of_bounds(
    fields: dict[str, Any], place: tuple[str | int, ...]
) -> None:
    """Each is told where it is, also inside of other entries."""
    assert wrong(fields) == [place]


def test_the_largest_amounts() -> None:
    """The bounds themselves are allowed."""
    entry = BudgetFields.model_validate(
        {"budget_usd": 4_500_000, "budget_tokens": 4_500_000_000_000_000}
    )

    assert entry.budget_usd == entry.budget_tokens == 4_500_000_000_000_000


def test_weeks_begin_on_the_days_of_the_core() -> None:
    """Python counts them from Monday."""
    assert (WEEKDAYS[0], WEEKDAYS[6], len(WEEKDAYS)) == ("monday", "sunday", 7)
