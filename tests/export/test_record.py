"""An entry of a stream is a record with types, or told to be none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.rows import MIDNIGHT_MS, flat, record, row
from tokenweir.core.record import CLASSES, LABELS
from tokenweir.export.record import (
    COLUMNS,
    MAX_MOMENT_MS,
    REQUIRED,
    BadEntry,
    EntryId,
    Row,
    is_number,
    row_of,
)

TAG = "tw:017"
ENTRY = f"{MIDNIGHT_MS}-3"


def bad(entry: str = ENTRY, **fields: str) -> BadEntry:
    """Return what a record with such *fields* is, which must be no record."""
    found = row_of(TAG, entry, flat(record() | fields))
    assert isinstance(found, BadEntry)
    return found


def test_a_record_has_types() -> None:
    """Counts and what ends in a unit are numbers, the rest is text."""
    found = row(first_token_ms="240", flags="unpriced")

    assert found.hold == "0-1-a"
    assert found.fields["input_tokens"] == 100
    assert found.fields["cost_nanousd"] == 250_000_075
    assert found.fields["first_token_ms"] == 240
    assert found.fields["status"] == 200
    assert found.fields["correction"] == "0"
    assert found.fields["flags"] == "unpriced"
    assert found.fields["downgraded_from"] == ""


def test_every_field_is_a_column() -> None:
    """Columns are the fields of a record, in their order."""
    assert tuple(record()) == COLUMNS
    assert set(LABELS) | set(CLASSES) | set(REQUIRED) <= set(COLUMNS)
    assert all(is_number(name) for name in CLASSES)
    assert not any(is_number(name) for name in LABELS)


def test_as_a_dict() -> None:
    """Tag and entry come first, then every field."""
    found = row().as_dict()

    assert list(found) == ["tag", "entry", *COLUMNS]
    assert found["entry"] == f"{MIDNIGHT_MS}-0"


def test_what_was_not_measured_is_none() -> None:
    """A stream that never began to answer has no time to its first token."""
    assert row(first_token_ms="").fields["first_token_ms"] is None


def test_a_record_of_an_older_processor() -> None:
    """Fields that are younger than a record are empty or 0."""
    old = record()
    del old["policy"], old["image_input_tokens"], old["first_token_ms"]
    found = row_of(TAG, ENTRY, flat(old))

    assert isinstance(found, Row)
    assert found.fields["policy"] == ""
    assert found.fields["image_input_tokens"] == 0
    assert found.fields["first_token_ms"] is None


def test_a_record_of_a_newer_processor() -> None:
    """Fields that nobody has heard of here are kept, with types if they fit."""
    found = row(new_name="x", new_tokens="7", odd_tokens="many")

    assert found.extra == {"new_name": "x", "new_tokens": 7, "odd_tokens": "many"}
    assert found.as_dict()["new_tokens"] == 7
    assert row().extra == {}


@pytest.mark.parametrize("name", REQUIRED)
def test_what_no_record_lacks(name: str) -> None:
    """Without these an entry is no record, and told which one is missing."""
    some = record()
    del some[name]
    found = row_of(TAG, ENTRY, flat(some))

    assert isinstance(found, BadEntry)
    assert found.problem == f"it lacks {name}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hold", ""),
        ("tenant", ""),
        ("input_tokens", ""),
        ("input_tokens", "-1"),
        ("input_tokens", "1e3"),
        ("input_tokens", " 1"),
        ("input_tokens", "1_000"),
        ("input_tokens", "٣"),  # a digit, but not ours
        ("output_tokens", "9" * 19),
        ("cost_nanousd", "0.5"),
        ("first_token_ms", "x"),
        ("reserved_at_ms", str(MAX_MOMENT_MS + 1)),
        ("correction", "2"),
    ],
)
def test_values_that_can_not_be(name: str, value: str) -> None:
    """A value that is none makes it no record; the problem does not quote it."""
    assert bad(**{name: value}).problem == f"{name} has no such value"


@pytest.mark.parametrize(
    "entry", [f"{MAX_MOMENT_MS + 1}-0", f"{2**64 - 1}-0", f"1-{2**64 - 1}", "1", "a-b"]
)
def test_ids_that_can_not_be(entry: str) -> None:
    """An id that no calendar or database can hold is told of."""
    assert bad(entry).problem == "its id is out of range"


def test_bytes_that_are_no_text() -> None:
    """What is not UTF-8 is no record, and can still be written down."""
    found = row_of(TAG, ENTRY, flat(record()) | {b"model": b"\xff\xfe"})

    assert isinstance(found, BadEntry)
    assert found.problem == "it is not UTF-8"
    assert found.as_dict()["entry"] == ENTRY
    assert found.fields["model"] == "\\xff\\xfe"


def test_later_entries_are_greater() -> None:
    """Entries compare by time, then by number, and read as the server has them."""
    assert EntryId(9, 0) < EntryId(10, 0) < EntryId(10, 2) < EntryId(10, 11)
    assert str(EntryId(10, 2)) == "10-2"


@given(
    st.text(max_size=20),
    st.dictionaries(st.binary(max_size=20), st.binary(max_size=20), max_size=5),
)
def test_anything_is_one_or_the_other(entry: str, some: dict[bytes, bytes]) -> None:
    """Whatever is in a stream is a row or a bad entry, and never an error."""
    assert isinstance(row_of(TAG, entry, some), BadEntry)
    overlaid = row_of(TAG, ENTRY, flat(record()) | some)
    assert isinstance(overlaid, Row | BadEntry)
