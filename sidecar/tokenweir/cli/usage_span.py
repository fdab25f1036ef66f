"""
Which hours a usage report is about.

Sums are kept by the hour (UTC), so a report is about whole hours: what begins or ends
within one is widened, and every report says what it is about.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

HOURS_A_DAY = 24
HOUR_SECONDS = 3_600
_FORMS = "a day, 2026-11-30, or a moment, 2026-11-30T12:00:00Z"
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# As RFC 3339 has it; seconds may be left out.
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([Zz]|[+-]\d\d:\d\d)",
    re.ASCII,
)
_MONTH = re.compile(r"(\d{4})-(\d\d)", re.ASCII)
# Nothing was counted before, and nobody will be there afterwards.
_YEARS = range(2000, 2200)


@dataclass(frozen=True, slots=True)
class Span:
    """A range of hours since 1970 (UTC), *last* included."""

    first: int
    last: int

    @property
    def begin(self) -> str:
        """When it begins, in RFC 3339."""
        return rfc_3339(self.first)

    @property
    def end(self) -> str:
        """When it ends, in RFC 3339."""
        return rfc_3339(self.last + 1)

    def words(self, now_s: float) -> str:
        """Return both for people: what ends in an hour that runs is until now."""
        begin, end = _moment(self.first), _moment(self.last + 1)
        if self.last == int(now_s // HOUR_SECONDS):
            return f"{begin:%Y-%m-%d %H:%M} UTC until now"
        same_day = begin.date() == end.date()
        until = f"{end:%H:%M}" if same_day else f"{end:%Y-%m-%d %H:%M}"
        return f"{begin:%Y-%m-%d %H:%M} to {until} UTC"


@dataclass(frozen=True, slots=True)
class Bound:
    """
    Where a range begins or ends.

    Attributes:
        at: The moment, or the beginning of the day.
        is_day: The whole day is meant.
    """

    at: datetime
    is_day: bool


def today(now_s: float) -> Span:
    """Return the hours since midnight UTC, the one that runs included."""
    last = int(now_s // HOUR_SECONDS)
    return Span(last - last % HOURS_A_DAY, last)


def last_hours(now_s: float, hours: int) -> Span:
    """Return the last *hours*, the one that runs included."""
    last = int(now_s // HOUR_SECONDS)
    return Span(last - hours + 1, last)


def between(first: Bound, last: Bound | None, now_s: float) -> Span:
    """
    Return the hours from *first* to *last*; None: to now.

    A day that is last is included. Raises: ValueError, if there are none.
    """
    begin = _seconds(first.at)
    if last is None:
        end = now_s
    else:
        end = _seconds(last.at + timedelta(days=1) if last.is_day else last.at)
    if end <= begin:
        raise ValueError("--from: must be before the end")
    return Span(int(begin // HOUR_SECONDS), -int(-end // HOUR_SECONDS) - 1)


def bound(text: str) -> Bound:
    """Read a day or a moment. Raises: argparse.ArgumentTypeError."""
    is_day = bool(_DAY.fullmatch(text))
    if not is_day and not _MOMENT.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be {_FORMS}")
    try:
        at = datetime.fromisoformat(text.upper())
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {_FORMS}: {text} never is") from None
    if at.year not in _YEARS:
        raise argparse.ArgumentTypeError("must be of this century or the next")
    return Bound(at.replace(tzinfo=UTC) if is_day else at.astimezone(UTC), is_day)


def month(text: str) -> Span:
    """Read a calendar month (UTC). Raises: argparse.ArgumentTypeError."""
    found = _MONTH.fullmatch(text)
    if not found or int(found[1]) not in _YEARS or not 1 <= int(found[2]) <= 12:
        raise argparse.ArgumentTypeError("must be a month, such as 2026-11")
    first = datetime(int(found[1]), int(found[2]), 1, tzinfo=UTC)
    following = (first + timedelta(days=31)).replace(day=1)
    begin, end = (_seconds(each) // HOUR_SECONDS for each in (first, following))
    return Span(int(begin), int(end) - 1)


def rfc_3339(hour: int) -> str:
    """Return when an *hour* since 1970 begins."""
    return _moment(hour).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * HOUR_SECONDS, tz=UTC)


def _seconds(moment: datetime) -> float:
    return moment.timestamp()
