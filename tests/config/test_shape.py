"""The schema's fields are found by their place."""

from __future__ import annotations

import pytest

from tokenweir.config.budget_entry import AnchorEntry, OnExceededEntry
from tokenweir.config.entry import Entry
from tokenweir.config.problem import Path
from tokenweir.config.schema import (
    KeyEntry,
    ModelEntry,
    PolicyFile,
    QuotaEntry,
)
from tokenweir.config.shape import all_fields, fields_at
from tokenweir.config.timeout_entry import TimeoutEntry


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ((), PolicyFile),
        (("models", "gpt-4.1"), ModelEntry),
        (("timeouts", "slow"), TimeoutEntry),
        (("quotas", 3), QuotaEntry),
        (("tenants", "acme", "keys", 0), KeyEntry),
        (("tenants", "acme", "quotas", 12), QuotaEntry),
        (("quotas", 3, "anchor"), AnchorEntry),
        (("tenants", "acme", "quotas", 12, "on_exceeded"), OnExceededEntry),
    ],
)
def test_entries(path: Path, entry: type[Entry]) -> None:
    """Names and indexes may be anything."""
    assert fields_at(path) == entry.model_fields


@pytest.mark.parametrize(
    "path", [("tenants",), ("models", "a", "b"), ("x",), ("tenants", "a", "keys")]
)
def test_other_places(path: Path) -> None:
    """What is no entry has no fields."""
    assert fields_at(path) == {}


def test_all_fields() -> None:
    """Each is there once, with stars for names and indexes."""
    places = [place for place, _ in all_fields()]

    assert len(places) == len(set(places))
    assert places[0] == ("version",)
    assert ("tenants", "*", "quotas", "*", "capacity") in places
    assert ("providers", "*", "base_url") in places
    assert ("quotas", "*", "on_exceeded", "downgrade_to") in places
