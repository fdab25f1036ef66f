"""Durations and sizes, as people write them, are exact or refused."""

from __future__ import annotations

import math

import pytest

from tokenweir.config.quantity import parse_body_limit_bytes, parse_duration_ms


@pytest.mark.parametrize(
    ("value", "duration_ms"),
    [
        (0, 0),
        (1, 1000),
        (0.25, 250),
        ("500ms", 500),
        ("30s", 30_000),
        ("10m", 600_000),
        ("24h", 86_400_000),
        (86_400, 86_400_000),
    ],
)
def test_durations(value: object, duration_ms: int) -> None:
    """Seconds, or a number with its unit."""
    assert parse_duration_ms(value) == duration_ms


@pytest.mark.parametrize(
    "value", ["10", "1.5s", "10 m", "1h30m", "-1s", "", True, [], None]
)
def test_what_is_no_duration(value: object) -> None:
    """A text without a unit could be anything, so it is nothing."""
    with pytest.raises(ValueError, match=r"^must be seconds, or text such as 500ms"):
        parse_duration_ms(value)


@pytest.mark.parametrize("value", [-1, 86_401, "25h", 1e308, math.inf, 10**400])
def test_durations_out_of_bounds(value: object) -> None:
    """No duration is below zero or above a day, however large the number."""
    with pytest.raises(ValueError, match=r"^must be from 0 to 24h$"):
        parse_duration_ms(value)


@pytest.mark.parametrize(
    ("value", "size_bytes"),
    [
        (1024, 1024),
        ("1KiB", 1024),
        ("8 MiB", 8_388_608),
        ("64MiB", 67_108_864),
        ("2048B", 2048),
    ],
)
def test_sizes(value: object, size_bytes: int) -> None:
    """Bytes, or a number with a binary unit."""
    assert parse_body_limit_bytes(value) == size_bytes


@pytest.mark.parametrize(
    "value", ["8", "8MB", "8mib", "1.5MiB", "", True, 2048.0, None]
)
def test_what_is_no_size(value: object) -> None:
    """A unit that could mean two sizes is refused."""
    with pytest.raises(ValueError, match=r"^must be bytes, or text such as 512KiB"):
        parse_body_limit_bytes(value)


@pytest.mark.parametrize("value", [0, -1, 1023, 67_108_865, "65MiB", "1023B"])
def test_sizes_out_of_bounds(value: object) -> None:
    """A body limit is from 1 KiB to 64 MiB."""
    with pytest.raises(ValueError, match=r"^must be from 1KiB to 64MiB$"):
        parse_body_limit_bytes(value)
