"""Windows follow the calendar, whatever clocks do."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.window import Calendar, Per, Window, windows_at

HOUR_MS = 3_600_000
DAY_HOURS = 24

# With clocks that are put forward and back by an hour, at midnight, at a minute past
# midnight, by half an hour, by a day; with odd offsets; without any change.
ZONES = (
    "America/Havana",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "UTC",
)

moments = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001
    lambda naive: int(naive.replace(tzinfo=UTC).timestamp() * 1000)
)


def changes(zone: str) -> list[int]:
    """Return the moments near which the clocks of *zone* were changed since 1990."""
    tz = ZoneInfo(zone)
    days = range(7_300, 21_500)
    offsets = [
        datetime.fromtimestamp(day * 86_400, tz=UTC).astimezone(tz).utcoffset()
        for day in days
    ]
    return [
        day * 86_400_000
        for day, before, after in zip(days, offsets, offsets[1:], strict=False)
        if before != after
    ]


CHANGES = {zone: changes(zone) or [0] for zone in ZONES}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Calendar, int]:
    """Any calendar, and a moment: any, or one at which clocks change."""
    zone = draw(st.sampled_from(ZONES))
    rule = Calendar(
        draw(st.sampled_from(list(Per))),
        ZoneInfo(zone),
        hour=draw(st.integers(0, 23)),
        weekday=draw(st.integers(0, 6)),
        day=draw(st.integers(1, 31)),
    )
    near = st.builds(
        int.__add__, st.sampled_from(CHANGES[zone]), st.integers(0, 172_800_000)
    )
    return rule, draw(moments | near)


def ms(text: str, zone: str = "UTC", fold: int = 0) -> int:
    """Return the instant at which the clock of *zone* reads *text*."""
    reading = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return int(reading.timestamp() * 1000)


def current(rule: Calendar, now_ms: int) -> Window:
    """Return the window that *now_ms* is in."""
    return windows_at(rule, now_ms).current


def hours(window: Window) -> float:
    """Return the length of *window*."""
    return (window.end_ms - window.begin_ms) / HOUR_MS


@given(cases())
def test_windows_tile_time(case: tuple[Calendar, int]) -> None:
    """Each follows the one before without gap or overlap, and contains its moment."""
    rule, now_ms = case
    windows = windows_at(rule, now_ms)

    assert windows.current.begin_ms <= now_ms < windows.current.end_ms
    assert windows.previous.end_ms == windows.current.begin_ms
    assert windows.next.begin_ms == windows.current.end_ms
    for window in (windows.previous, windows.current, windows.next):
        assert window.begin_ms < window.end_ms
        assert current(rule, window.begin_ms) == window
        assert current(rule, window.end_ms - 1) == window


@given(cases())
def test_windows_begin_when_the_clock_reads_their_anchor(
    case: tuple[Calendar, int],
) -> None:
    """There the clock reads the anchor, or has jumped over it; never was it later."""
    rule, now_ms = case
    window = current(rule, now_ms)
    begin = datetime.fromtimestamp(window.begin_ms / 1000, tz=UTC)
    reading = begin.astimezone(rule.zone).replace(tzinfo=None)
    before = datetime.fromtimestamp(window.begin_ms / 1000 - 1, tz=UTC)
    jumped = (
        before.astimezone(rule.zone).utcoffset()
        != begin.astimezone(rule.zone).utcoffset()
    )

    assert window.begin_ms % 1000 == 0
    if not jumped:
        assert (reading.minute, reading.second) == (0, 0)
        assert rule.per is Per.HOUR or reading.hour == rule.hour
        assert rule.per is not Per.WEEK or reading.weekday() == rule.weekday
        assert rule.per is not Per.MONTH or reading.day <= rule.day


@given(cases())
def test_lengths(case: tuple[Calendar, int]) -> None:
    """No window is longer or shorter than its kind can be."""
    rule, now_ms = case
    shortest, longest = {
        Per.HOUR: (0.25, 1.75),
        Per.DAY: (0.5, 2 * DAY_HOURS),
        Per.WEEK: (6 * DAY_HOURS - 2, 8 * DAY_HOURS),
        Per.MONTH: (27 * DAY_HOURS - 2, 32 * DAY_HOURS),
    }[rule.per]

    assert shortest <= hours(current(rule, now_ms)) <= longest


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("per", list(Per))
def test_a_year_of_windows(zone: str, per: Per) -> None:
    """Walking from one to the next misses none: as many as the calendar has."""
    rule = Calendar(per, ZoneInfo(zone))
    begin_ms, end_ms = ms("2011-02-01T12:00"), ms("2012-01-31T12:00")
    if per is Per.HOUR:
        begin_ms = ms("2011-12-29T12:00")  # a day before Samoa's jump
        end_ms = begin_ms + 2 * DAY_HOURS * HOUR_MS
    window = current(rule, begin_ms)
    count = 0
    while window.end_ms <= end_ms:
        window, count = current(rule, window.end_ms), count + 1

    elapsed_hours = (end_ms - begin_ms) / HOUR_MS
    typical = {Per.HOUR: 1, Per.DAY: 24, Per.WEEK: 168, Per.MONTH: 730}[per]
    assert abs(count - elapsed_hours / typical) <= 2


@pytest.mark.parametrize(
    ("zone", "date", "length"),
    [
        ("America/New_York", "2026-03-08", 23),
        ("America/New_York", "2026-11-01", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("Asia/Kolkata", "2026-03-08", 24),
        ("Asia/Tokyo", "2026-08-01", 24),
        ("America/Sao_Paulo", "2018-11-04", 23),
        ("America/Havana", "2026-11-01", 25),
        ("Pacific/Apia", "2011-12-29", 24),
        ("Pacific/Apia", "2011-12-31", 24),
    ],
)
def test_days(zone: str, date: str, length: float) -> None:
    """A day is as long as the clock takes from midnight to midnight."""
    rule = Calendar(Per.DAY, ZoneInfo(zone))

    assert hours(current(rule, ms(f"{date}T12:00", zone))) == length


@pytest.mark.parametrize(
    ("zone", "begin"),
    [
        ("Asia/Tokyo", "2026-07-31T15:00"),
        ("America/New_York", "2026-08-01T04:00"),
        ("Asia/Kolkata", "2026-07-31T18:30"),
    ],
)
def test_a_month_begins_at_local_midnight(zone: str, begin: str) -> None:
    """One second earlier it is still July, whatever the offset."""
    rule = Calendar(Per.MONTH, ZoneInfo(zone))
    begin_ms = ms(begin)

    assert current(rule, begin_ms).begin_ms == begin_ms
    assert current(rule, begin_ms - 1000) == Window(
        begin_ms - 31 * DAY_HOURS * HOUR_MS, begin_ms
    )


def test_a_midnight_that_does_not_exist() -> None:
    """The day begins when the clock jumps from 00:00 to 01:00."""
    rule = Calendar(Per.DAY, ZoneInfo("America/Sao_Paulo"))
    jump_ms = ms("2018-11-04T03:00")

    assert current(rule, jump_ms - 1).end_ms == jump_ms
    assert current(rule, jump_ms).begin_ms == jump_ms


def test_an_anchor_within_a_jump() -> None:
    """02:00 to 02:30 is left out: hours and days that begin in it begin at its end."""
    zone = ZoneInfo("Australia/Lord_Howe")
    jump_ms = ms("2026-10-03T15:30")

    assert current(Calendar(Per.DAY, zone, hour=2), jump_ms).begin_ms == jump_ms
    assert current(Calendar(Per.HOUR, zone), jump_ms) == Window(
        jump_ms, jump_ms + HOUR_MS // 2
    )


def test_an_anchor_in_the_middle_of_a_jump() -> None:
    """Where the clock jumped from 23:45 to 00:15, midnight is the jump."""
    # Liberia gave up an offset of 44 minutes and 30 seconds at the end of 6 January.
    rule = Calendar(Per.HOUR, ZoneInfo("Africa/Monrovia"))
    jump_ms = ms("1972-01-07T00:44:30")
    windows = windows_at(rule, jump_ms)

    assert windows.previous == Window(jump_ms - HOUR_MS, jump_ms)
    assert windows.current == Window(jump_ms, ms("1972-01-07T01:00"))


def test_a_midnight_that_comes_twice() -> None:
    """The day begins the first time, and is not begun again."""
    rule = Calendar(Per.DAY, ZoneInfo("America/Havana"))
    first_ms = ms("2026-11-01T04:00")
    again_ms = first_ms + HOUR_MS

    assert current(rule, first_ms).begin_ms == first_ms
    assert current(rule, again_ms).begin_ms == first_ms


def test_a_clock_that_is_put_back_over_midnight() -> None:
    """It reads 23:01 of the day before, and yet it is the new day."""
    rule = Calendar(Per.DAY, ZoneInfo("America/St_Johns"))
    midnight_ms = ms("2006-10-29T02:30")  # a minute later, clocks went back an hour
    window = current(rule, midnight_ms + HOUR_MS // 2)

    assert window.begin_ms == midnight_ms
    assert hours(window) == 25


def test_a_day_that_was_left_out() -> None:
    """30 December 2011 has no window in Samoa, nor have its hours."""
    zone = "Pacific/Apia"
    jump_ms = ms("2011-12-30T10:00")

    for per in (Per.DAY, Per.HOUR):
        windows = windows_at(Calendar(per, ZoneInfo(zone)), jump_ms)
        assert windows.current.begin_ms == ms("2011-12-31T00:00", zone) == jump_ms
        assert hours(windows.previous) == hours(windows.current)


@pytest.mark.parametrize(
    ("zone", "moment", "begin", "end"),
    [
        # New York, 1 November: 01:00 comes twice, and is two hours.
        ("America/New_York", "2026-11-01T05:30", "T05:00", "T06:00"),
        ("America/New_York", "2026-11-01T06:30", "T06:00", "T07:00"),
        # New York, 8 March: 02:00 is left out.
        ("America/New_York", "2026-03-08T06:59", "T06:00", "T07:00"),
        ("America/New_York", "2026-03-08T07:00", "T07:00", "T08:00"),
        # Lord Howe, 5 April: at 02:00 it is 01:30 again.
        ("Australia/Lord_Howe", "2026-04-04T15:15", "T14:00", "T15:30"),
        ("Asia/Kolkata", "2026-03-08T07:00", "T06:30", "T07:30"),
        # Casey, 8 March 2020: at 03:00 it is 00:00 again, for three hours.
        ("Antarctica/Casey", "2020-03-07T15:59", "T15:00", "T16:00"),
        ("Antarctica/Casey", "2020-03-07T16:30", "T16:00", "T17:00"),
    ],
)
def test_hours(zone: str, moment: str, begin: str, end: str) -> None:
    """An hour ends when the clock reads a full hour, also for the second time."""
    rule = Calendar(Per.HOUR, ZoneInfo(zone), hour=7)  # which hours don't ask for
    date = moment[:10]

    assert current(rule, ms(moment)) == Window(ms(date + begin), ms(date + end))


@pytest.mark.parametrize(
    ("day", "moment", "begin", "end"),
    [
        (1, "2026-12-31T23:59", "2026-12-01", "2027-01-01"),
        (15, "2026-01-14T23:59", "2025-12-15", "2026-01-15"),
        (15, "2026-01-15T00:00", "2026-01-15", "2026-02-15"),
        (31, "2026-02-27T12:00", "2026-01-31", "2026-02-28"),
        (31, "2026-02-28T12:00", "2026-02-28", "2026-03-31"),
        (31, "2026-04-30T00:00", "2026-04-30", "2026-05-31"),
        (30, "2028-02-28T23:59", "2028-01-30", "2028-02-29"),
        (29, "2028-02-29T00:00", "2028-02-29", "2028-03-29"),
        (29, "2027-02-28T00:00", "2027-02-28", "2027-03-29"),
    ],
)
def test_months(day: int, moment: str, begin: str, end: str) -> None:
    """A month begins on its day, or on its last one if it has no such day."""
    rule = Calendar(Per.MONTH, UTC, day=day)

    assert current(rule, ms(moment)) == Window(ms(begin), ms(end))


def test_anchored_hours_of_days_weeks_and_months() -> None:
    """Whoever begins the day at six spends the night's money before that."""
    tokyo = ZoneInfo("Asia/Tokyo")

    def begin(rule: Calendar, moment: str) -> int:
        return current(rule, ms(moment, "Asia/Tokyo")).begin_ms

    day = Calendar(Per.DAY, tokyo, hour=6)
    assert begin(day, "2026-11-30T05:59:59") == ms("2026-11-29T06:00", "Asia/Tokyo")
    assert begin(day, "2026-11-30T06:00") == ms("2026-11-30T06:00", "Asia/Tokyo")
    week = Calendar(Per.WEEK, tokyo, hour=6, weekday=6)  # Sunday, 29 November
    assert begin(week, "2026-11-29T05:59") == ms("2026-11-22T06:00", "Asia/Tokyo")
    assert begin(week, "2026-12-05T12:00") == ms("2026-11-29T06:00", "Asia/Tokyo")
    month = Calendar(Per.MONTH, tokyo, hour=6, day=31)
    assert begin(month, "2026-11-30T05:59") == ms("2026-10-31T06:00", "Asia/Tokyo")
    assert begin(month, "2026-11-30T06:00") == ms("2026-11-30T06:00", "Asia/Tokyo")
