import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.header_values import (
    duration,
    printable_ascii,
    sf_integer,
    sf_string,
    time_of_day,
    whole_seconds,
)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (1, "1ms"),
        (120, "120ms"),
        (999, "999ms"),
        (1_000, "1s"),
        (1_001, "2s"),
        (9_000, "9s"),
        (59_001, "1m0s"),
        (90_000, "1m30s"),
        (360_000, "6m0s"),
        (3_600_000, "1h0m0s"),
        (5_430_000, "1h30m30s"),
    ],
)
def test_duration(ms: int, text: str) -> None:
    """Durations look as OpenAI writes them, without fractions."""
    assert duration(ms) == text


@given(st.integers(0, 10**10))
def test_duration_is_read_by_hand_written_parsers(ms: int) -> None:
    """What a client adds up from the units is never less than the real wait."""
    unit_ms = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
    parts = re.findall(r"(\d+)(ms|[hms])", duration(ms))
    read_ms = sum(int(number) * unit_ms[unit] for number, unit in parts)

    assert ms <= read_ms < ms + 1_000


@pytest.mark.parametrize(
    ("wait_ms", "seconds"),
    [(-3_000, 1), (0, 1), (1, 1), (700, 1), (1_000, 1), (1_001, 2), (59_990, 60)],
)
def test_whole_seconds(wait_ms: int, seconds: int) -> None:
    """Waits are rounded up, and are at least a second, also if a clock stepped back."""
    assert whole_seconds(wait_ms) == seconds


@given(st.text(), st.integers(1, 50))
def test_printable_ascii(text: str, limit: int) -> None:
    """Whatever comes in, a header value is one bounded line of printable ASCII."""
    value = printable_ascii(text, limit)

    assert len(value) <= limit
    assert re.fullmatch(r"[ -~]*", value)
    assert value == value.strip()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("acme.tokens_per_minute", '"acme.tokens_per_minute"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("a\r\nb", '"a??b"'),
        ("テナント", '"????"'),
        ("  ", '"-"'),
        ("x" * 200, '"' + "x" * 128 + '"'),
    ],
)
def test_sf_string(text: str, value: str) -> None:
    """A quoted string of RFC 9651 has its quotes escaped and is never empty."""
    assert sf_string(text) == value


@pytest.mark.parametrize(
    ("value", "integer"), [(-1, 0), (0, 0), (7, 7), (10**16, 999_999_999_999_999)]
)
def test_sf_integer(value: int, integer: int) -> None:
    """An integer of RFC 9651 has at most 15 digits; debt shows as nothing left."""
    assert sf_integer(value) == integer


def test_time_of_day() -> None:
    """A moment is RFC 3339 in UTC, rounded up, and can't overflow the calendar."""
    assert time_of_day(1_767_225_600_000) == "2026-01-01T00:00:00Z"
    assert time_of_day(1_767_225_600_001) == "2026-01-01T00:00:01Z"
    assert datetime.fromisoformat(time_of_day(10**18)).year == 9999
