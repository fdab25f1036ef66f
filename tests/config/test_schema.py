"""Entries are strict: nothing is converted, ignored, or changed afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tokenweir.config.schema import (
    AXIS_FIELDS,
    ModelEntry,
    ProviderEntry,
    QuotaEntry,
)
from tokenweir.config.shape import all_fields
from tokenweir.config.timeout_entry import TimeoutEntry
from tokenweir.core.policy import Axis


def test_the_axes_are_those_of_the_core() -> None:
    """The file's words for what is limited are the core's."""
    assert list(AXIS_FIELDS) == [axis.value for axis in Axis]


@pytest.mark.parametrize("axis", AXIS_FIELDS)
def test_one_axis_makes_a_quota(axis: str) -> None:
    """Any axis will do, alone."""
    assert QuotaEntry.model_validate({axis: 5}).axis == axis


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"capacity": 5},
        {"requests_per_minute": 5, "tokens_per_minute": 5},
        {"concurrency": 5, "capacity": 5},
        {"concurrency": 5, "counts": "total"},
        {"budget_usd": 5, "budget_tokens": 5},
        {"budget_usd": 5, "capacity": 5},
        {"budget_tokens": 5, "counts": "total"},
        {"input_tokens_per_minute": 5, "counts": "input"},
    ],
)
def test_what_does_not_fit_together(entry: dict[str, Any]) -> None:
    """No axis, two of them, or a field that belongs to another axis."""
    with pytest.raises(ValidationError) as caught:
        QuotaEntry.model_validate(entry)

    assert [error["type"] for error in caught.value.errors()] == ["value_error"]


@pytest.mark.parametrize("amount", [0, -1, 10_000_000_001, 5.0, "5", True])
def test_amounts_are_whole_and_bounded(amount: object) -> None:
    """Neither a rate nor a capacity can be what the ledger can't keep exactly."""
    for field in ("tokens_per_minute", "capacity"):
        with pytest.raises(ValidationError) as caught:
            QuotaEntry.model_validate({"tokens_per_minute": 1, field: amount})
        assert [error["loc"] for error in caught.value.errors()] == [(field,)]


def test_the_largest_amounts() -> None:
    """The bounds themselves are allowed."""
    largest = 10_000_000_000

    assert QuotaEntry.model_validate(
        {"tokens_per_minute": largest, "capacity": largest}
    )
    assert QuotaEntry.model_validate({"concurrency": 100_000})


def test_quantities_are_turned_into_units() -> None:
    """An entry holds milliseconds, whatever the file says."""
    entry = TimeoutEntry.model_validate({"total": "10m", "idle": 30})

    assert (entry.total, entry.idle) == (600_000, 30_000)
    assert (TimeoutEntry().total, TimeoutEntry().idle) == (0, 300_000)


def test_references_hold_no_secret() -> None:
    """An entry's repr shows where a secret is."""
    entry = ProviderEntry.model_validate(
        {"base_url": "https://a", "dialect": "openai", "credential": "env:A"}
    )

    assert str(entry.credential) == "env:A"
    with pytest.raises(ValidationError):
        entry.dialect = "anthropic"


def test_an_error_hides_its_input() -> None:
    """pydantic's own message is never shown; if it is all the same, it has no value."""
    with pytest.raises(ValidationError) as caught:
        ModelEntry.model_validate({"provider": 5, "upstream_model": "canary*"})

    assert "canary" not in str(caught.value)


def test_every_field_says_what_it_is() -> None:
    """The reference and the JSON Schema have nothing else to show."""
    for place, info in all_fields():
        assert info.description, place
        assert info.description.endswith((".", "…")), place
