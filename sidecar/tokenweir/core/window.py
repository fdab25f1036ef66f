"""
Calendar windows: the hours, days, weeks and months that a budget is for.

Theory of operation
===================

A window is bounded by *anchors*: readings of a wall clock, such as "the 31st at
00:00 in Tokyo". What makes that hard is that wall clocks are put forward and back.
So an anchor's instant is defined as

    the first instant at which the clock reads the anchor, or later.

That has one answer for every reading. Where a clock is put forward over an anchor
(midnight did not exist in São Paulo on 4 November 2018), the window begins when the
clock jumps. Where it is put back over one (midnight came twice in Havana), the
window begins the first time, and that day has 25 hours. Where a whole day is left
out (30 December 2011 in Samoa), it has no window. Instants grow with anchors, so
windows tile time: no gap, no overlap, none empty.

Hours are different in one point: the second time that a clock reads 01:00, another
hour begins, so that a budget per hour is never for two. Where a clock moves by half
an hour (Lord Howe), hours of 30 and of 90 minutes remain.

A month that has no such day ends before it would come: the 31st is the last day.

Pure: time zones come as `tzinfo`, so that reading the zone database is for others.
What is returned can be kept until `current.end_ms`: it does not change before.
"""

from __future__ import annotations

import calendar
import enum
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import assert_never

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_MONTHS = 12
# The most that a clock was ever put back at once since 1970; in Antarctica.
_HOURS_PUT_BACK = 7
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Per(enum.StrEnum):
    """How long a window is, by the calendar."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Calendar:
    """
    When windows begin.

    Attributes:
        per: How long they are.
        zone: Whose wall clock.
        hour: 0 to 23, at which days, weeks and months begin; hours: not used.
        weekday: 0 (Monday) to 6, on which weeks begin.
        day: 1 to 31, on which months begin; a shorter month's last day if it has
            no such day.
    """

    per: Per
    zone: tzinfo
    hour: int = 0
    weekday: int = 0
    day: int = 1


@dataclass(frozen=True, slots=True)
class Window:
    """From *begin_ms* on until before *end_ms*, in milliseconds since 1970 (UTC)."""

    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Windows:
    """Three that follow each other: a ledger whose clock differs a little has its own."""

    previous: Window
    current: Window
    next: Window


def windows_at(rule: Calendar, now_ms: int) -> Windows:
    """
    Return the window that *now_ms*, of 1970 or later, is in, and those around it.

    Raises:
        OverflowError: The moment is not well before the year 9999.
    """
    begin_ms, end_ms = _bounds(rule, now_ms)
    return Windows(
        Window(_bounds(rule, begin_ms - 1)[0], begin_ms),
        Window(begin_ms, end_ms),
        Window(end_ms, _bounds(rule, end_ms)[1]),
    )


def _bounds(rule: Calendar, now_ms: int) -> tuple[int, int]:
    """
    Return the last beginning of a window up to *now_ms*, and the first after it.

    The anchor before the clock's reading is not always the last one whose instant
    has passed: a clock that was put back reads less than it did. So one more is
    looked at to each side.
    """
    reading = _reading(rule.zone, now_ms)
    reach = _HOURS_PUT_BACK if rule.per is Per.HOUR else 1
    instants: set[int] = set()
    for steps in range(-reach, reach + 2):
        first_ms, last_ms = _instants_ms(rule.zone, _anchor(rule, reading, steps))
        instants.add(first_ms)
        if rule.per is Per.HOUR:
            instants.add(last_ms)
    return (
        max(ms for ms in instants if ms <= now_ms),
        min(ms for ms in instants if ms > now_ms),
    )


# === anchors: readings of a wall clock ============================================


def _anchor(rule: Calendar, reading: datetime, steps: int) -> datetime:
    """Return the anchor that is *steps* after the last one up to *reading*."""
    match rule.per:
        case Per.HOUR:
            return reading.replace(minute=0, second=0) + steps * _HOUR
        case Per.DAY:
            return _at(rule, _date(rule, reading) + steps * _DAY)
        case Per.WEEK:
            date = _date(rule, reading)
            since = (date.weekday() - rule.weekday) % 7
            return _at(rule, date + (7 * steps - since) * _DAY)
        case Per.MONTH:
            return _of_month(rule, _date(rule, reading), steps)
        case _:
            assert_never(rule.per)


def _date(rule: Calendar, reading: datetime) -> datetime:
    """Return the day that *reading* belongs to, if days begin at the rule's hour."""
    return reading - rule.hour * _HOUR


def _at(rule: Calendar, date: datetime) -> datetime:
    return date.replace(hour=rule.hour, minute=0, second=0)


def _of_month(rule: Calendar, date: datetime, steps: int) -> datetime:
    if date.day < min(rule.day, calendar.monthrange(date.year, date.month)[1]):
        steps -= 1
    months = date.year * _MONTHS + date.month - 1 + steps
    year, month = divmod(months, _MONTHS)
    day = min(rule.day, calendar.monthrange(year, month + 1)[1])
    return _at(rule, date.replace(year=year, month=month + 1, day=day))


# === instants =====================================================================
#
# Readings are naive. `fold` tells which of two equal ones is meant (PEP 495); for one
# that is left out, 0 means what it would be had the clock not been put forward.


def _reading(zone: tzinfo, now_ms: int) -> datetime:
    instant = _EPOCH + timedelta(seconds=now_ms // 1000)
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _ms(zone: tzinfo, reading: datetime) -> int:
    since = reading.replace(tzinfo=zone).astimezone(UTC) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1000


def _instants_ms(zone: tzinfo, anchor: datetime) -> tuple[int, int]:
    """
    Return the first instant at which the clock reads *anchor*, and the last.

    If it never does, both are the instant at which it jumps over it.
    """
    once_ms = _ms(zone, anchor)
    again_ms = _ms(zone, anchor.replace(fold=1))
    if again_ms >= once_ms:
        return once_ms, again_ms
    # The anchor is left out. The jump is after *again_ms*, and *once_ms* at the latest.
    early_ms, late_ms = again_ms, once_ms
    while late_ms - early_ms > 1000:
        middle_ms = (early_ms + late_ms) // 2000 * 1000
        if _reading(zone, middle_ms) >= anchor:
            late_ms = middle_ms
        else:
            early_ms = middle_ms
    return late_ms, late_ms
