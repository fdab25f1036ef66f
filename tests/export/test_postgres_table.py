"""A record fits into the columns of a table, and out of them again."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tests.export.rows import MIDNIGHT_MS, row
from tokenweir.export.postgres_table import (
    TYPES,
    column_of,
    qualified,
    record_of_row,
    values_of,
    without_nul,
)
from tokenweir.export.record import COLUMNS, MAX_MOMENT_MS


def test_columns() -> None:
    """Every field has a column, whose name tells its unit if it has another one."""
    assert [column_of(name) for name in COLUMNS] == list(TYPES)[: len(COLUMNS)]
    assert TYPES["cost_usd"] == "numeric(20,9)"
    assert TYPES["reserved_at"] == "timestamp with time zone"
    assert TYPES["input_tokens"] == "bigint"
    assert TYPES["model"] == "text"


@given(
    st.integers(0, MAX_MOMENT_MS),
    st.integers(0, 10**18 - 1),
    st.integers(0, 10**18 - 1),
)
def test_there_and_back(moment_ms: int, seq: int, nanousd: int) -> None:
    """No figure changes on the way, however large."""
    made = row(
        "a",
        f"{moment_ms}-{seq}",
        cost_nanousd=str(nanousd),
        reserved_at_ms=str(moment_ms),
    )
    raw = list(values_of(made))

    assert record_of_row(raw) == made.as_dict()


def test_values() -> None:
    """Values have the types of their columns."""
    values = dict(zip(TYPES, values_of(row(correction=True)), strict=True))

    assert values["cost_usd"] == Decimal("0.250000075")
    assert values["reserved_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert values["recorded_at"].timestamp() * 1_000 == MIDNIGHT_MS
    assert values["correction"] is True
    assert values["extra"] is None


def test_names() -> None:
    """A dot parts schema and table; nothing in a name is SQL."""
    assert qualified("a.b").as_string() == '"a"."b"'
    assert qualified('x"; DROP').as_string() == '"x""; DROP"'
    assert without_nul("a\0b") == "a\ufffdb"
