from __future__ import annotations

import argparse
from datetime import UTC, datetime

import pytest

from tokenweir.cli.usage_span import (
    Span,
    between,
    bound,
    last_hours,
    month,
    rfc_3339,
    today,
)

MIDNIGHT_S = 1_767_225_600  # 2026-01-01
HOUR = 490_896


def test_today() -> None:
    """Today begins at midnight UTC, also just after it, and ends with this hour."""
    assert today(MIDNIGHT_S + 12.5 * 3_600).begin == "2026-01-01T00:00:00Z"
    assert today(MIDNIGHT_S + 12.5 * 3_600).end == "2026-01-01T13:00:00Z"
    assert today(MIDNIGHT_S) == Span(HOUR, HOUR)
    assert today(MIDNIGHT_S - 1).begin == "2025-12-31T00:00:00Z"


def test_last_hours() -> None:
    """The last hours include the one that runs."""
    assert last_hours(MIDNIGHT_S + 1, 1) == Span(HOUR, HOUR)
    assert last_hours(MIDNIGHT_S + 1, 3) == Span(HOUR - 2, HOUR)


@pytest.mark.parametrize(
    ("first", "last", "begin", "end"),
    [
        ("2026-01-01", "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("2026-01-01", "2026-01-31", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        (
            "2026-01-01T03:00:00Z",
            "2026-01-01T05:00:00Z",
            "2026-01-01T03:00:00Z",
            "2026-01-01T05:00:00Z",
        ),
        # Midnight to midnight in Kolkata: within hours of UTC.
        (
            "2026-01-01T00:00+05:30",
            "2026-01-02T00:00:00+05:30",
            "2025-12-31T18:00:00Z",
            "2026-01-01T19:00:00Z",
        ),
        (
            "2026-01-01t03:59:59.999z",
            "2026-01-01 04:00:00.001Z",
            "2026-01-01T03:00:00Z",
            "2026-01-01T05:00:00Z",
        ),
    ],
)
def test_between(first: str, last: str, begin: str, end: str) -> None:
    """A last day is included, a last moment is the end; parts of hours are whole."""
    span = between(bound(first), bound(last), MIDNIGHT_S)

    assert (span.begin, span.end) == (begin, end)


def test_until_now() -> None:
    """Without an end it is now: the hour that runs is included."""
    first = bound("2025-12-31T22:00Z")

    assert between(first, None, MIDNIGHT_S + 1) == Span(HOUR - 2, HOUR)
    assert between(first, None, MIDNIGHT_S) == Span(HOUR - 2, HOUR - 1)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("2026-01-02", "2026-01-01"),
        ("2026-01-01T05:00Z", "2026-01-01T05:00Z"),
        ("2026-01-02", None),
    ],
)
def test_no_hours(first: str, last: str | None) -> None:
    """What ends before it begins, or is in the future only, is a mistake."""
    with pytest.raises(ValueError, match="before the end"):
        between(bound(first), last and bound(last), MIDNIGHT_S)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        *("", "today", "2026", "2026-1-1", "20260101", "2026-W01-1", "2026-02-29"),
        *("2026-01-01T05", "2026-01-01T05:00", "2026-01-01T25:00Z", "1767225600"),
        *(
            "2026-01-01T05:00:00Z ",
            "1969-12-31",
            "9999-12-31",
            "\u0662\u0660\u0662\u0666-01-01",
        ),
    ],
)
def test_no_moment(text: str) -> None:
    """Only whole dates, and moments whose zone is said, are taken."""
    with pytest.raises(argparse.ArgumentTypeError, match="must be"):
        bound(text)


def test_bound() -> None:
    """A day is told from its first moment."""
    assert bound("2024-02-29").is_day
    assert not bound("2024-02-29T00:00:00Z").is_day
    assert bound("2024-02-29").at == datetime(2024, 2, 29, tzinfo=UTC)


def test_month() -> None:
    """A month is whole, also in leap years and at the end of a year."""
    assert (month("2024-02").begin, month("2024-02").end) == (
        "2024-02-01T00:00:00Z",
        "2024-03-01T00:00:00Z",
    )
    assert month("2025-12").end == "2026-01-01T00:00:00Z"
    for text in ("", "2026", "2026-13", "2026-00", "2026-1", "1969-01", "2026-01-01"):
        with pytest.raises(argparse.ArgumentTypeError, match="such as 2026-11"):
            month(text)


def test_words() -> None:
    """People read when it begins and ends, the day once if it is the same."""
    span = Span(HOUR, HOUR + 5)

    assert span.words(0) == "2026-01-01 00:00 to 06:00 UTC"
    assert month("2025-12").words(0) == "2025-12-01 00:00 to 2026-01-01 00:00 UTC"
    assert span.words(MIDNIGHT_S + 5.5 * 3_600) == "2026-01-01 00:00 UTC until now"
    assert rfc_3339(HOUR) == "2026-01-01T00:00:00Z"
