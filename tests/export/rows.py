"""Usage records and entries of streams, for tests."""

from __future__ import annotations

from collections.abc import Mapping

from tokenweir.core.hold import Amounts, Hold, Outcome, Settlement, Subject
from tokenweir.core.partition import tag_of
from tokenweir.core.record import record_of
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.export.record import Row, row_of

MIDNIGHT_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SUBJECT = Subject(
    "acme", "acme-ci", "ann", "chat_completions", "gpt-4o", "openai", "rq", "0123"
)


def record(
    hold: str = "0-1-a", *, correction: bool = False, **fields: str
) -> dict[str, str]:
    """Return a record as the ledger writes it, with some other *fields*."""
    settlement = Settlement(
        TokenUsage(input_tokens=100, output_tokens=20),
        Source.REPORTED,
        Outcome.COMPLETED,
        status=200,
        model="gpt-4o-2024-08-06",
        duration_ms=900,
        cost_nanousd=250_000_075,
    )
    made = record_of(Hold(hold, (), Amounts(), SUBJECT), settlement)
    made |= {"reserved_at_ms": str(MIDNIGHT_MS), "correction": str(int(correction))}
    return made | fields


def flat(fields: Mapping[str, str]) -> dict[bytes, bytes]:
    """Return *fields* as a server has them."""
    return {name.encode(): value.encode() for name, value in fields.items()}


def row(
    hold: str = "0-1-a",
    entry: str = f"{MIDNIGHT_MS}-0",
    *,
    correction: bool = False,
    **fields: str,
) -> Row:
    """Return a record as sinks get it."""
    made = row_of(
        tag_of("acme"), entry, flat(record(hold, correction=correction, **fields))
    )
    assert isinstance(made, Row)
    return made
