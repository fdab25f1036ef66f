"""Moments are read as RFC 3339 writes them, and no other way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.config.moment import moment_text, parse_moment_ms


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:01z", 1_000),
        ("1970-01-01T09:00:00+09:00", 0),
        ("1970-01-01T00:00:00-00:30", 1_800_000),
        ("2026-01-01T12:00:00Z", 1_767_268_800_000),
        ("2026-01-01T12:00:00.1234Z", 1_767_268_800_123),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
    ],
)
def test_moments(text: str, moment_ms: int) -> None:
    """Offsets count, and letters may be small."""
    assert parse_moment_ms(text) == moment_ms


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("2026-01-01", "offset"),
        ("2026-01-01T12:00:00", "offset"),
        ("2026-01-01T12:00Z", "offset"),
        ("2026-01-01 12:00:00Z", "offset"),
        ("2026-W01-1T12:00:00Z", "offset"),
        ("2026-01-01T12:00:00Z\n", "offset"),
        ("90d", "offset"),
        ("", "offset"),
        (1_767_268_800, "offset"),
        (None, "offset"),
        (["2026-01-01T12:00:00Z"], "offset"),
        ("2026-02-29T12:00:00Z", "there are"),
        ("2026-13-01T12:00:00Z", "there are"),
        ("2026-01-01T24:00:01Z", "there are"),
        ("2026-01-01T12:00:00+24:00", "there are"),
        ("0000-01-01T00:00:00Z", "there are"),
        ("1969-12-31T23:59:59Z", "after 1970"),
        ("1970-01-01T00:00:00+00:01", "after 1970"),
    ],
)
def test_no_moments(value: object, why: str) -> None:
    """What is wrong is said, without a part of the value."""
    with pytest.raises(ValueError, match=why) as caught:
        parse_moment_ms(value)
    assert not isinstance(value, str) or not value or value not in str(caught.value)


@given(st.integers(0, 253_402_300_799))
def test_there_and_back(seconds: int) -> None:
    """What is written is read as the same second."""
    text = moment_text(seconds * 1_000 + 999)

    assert parse_moment_ms(text) == seconds * 1_000
