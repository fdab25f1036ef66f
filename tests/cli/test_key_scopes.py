"""What a key may do is read from options, or it is said what would be right."""

from __future__ import annotations

import argparse
import time
from typing import Any

import pytest

from tokenweir.cli.key_scopes import add_scopes, expiry, quota, scopes_of, span_ms
from tokenweir.config.moment import moment_text, parse_moment_ms


def scopes(*arguments: str) -> dict[str, object]:
    """Return what *arguments* say."""
    parser = argparse.ArgumentParser()
    add_scopes(parser)
    return scopes_of(parser.parse_args(arguments))


def test_scopes() -> None:
    """Each option is a field of the key; what is not given is none."""
    assert scopes() == {}
    assert scopes(
        "--models", "gpt-*", "o3", "--routes", "messages",
        "--expires", "2100-01-31T09:00:00+09:00",
        "--quota", "{tokens_per_minute: 1_000}", "--quota", "{concurrency: 2, name: x}",
    ) == {
        "models": ["gpt-*", "o3"],
        "routes": ["messages"],
        "expires_at": "2100-01-31T00:00:00Z",
        "quotas": [{"tokens_per_minute": 1_000}, {"concurrency": 2, "name": "x"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("90s", 90_000),
        ("30m", 1_800_000),
        ("24h", 86_400_000),
        ("7d", 604_800_000),
    ],
)
def test_spans(text: str, expected: int) -> None:
    """A number and its unit."""
    assert span_ms(text) == expected


@pytest.mark.parametrize("text", ["", "90", "d", "1w", "-1d", "1.5h", "1 d", "٣d"])
def test_no_spans(text: str) -> None:
    """What is none is told by what would be."""
    with pytest.raises(argparse.ArgumentTypeError, match="90d"):
        span_ms(text)


def test_expiry_in_a_while() -> None:
    """It counts from now; what is beyond every plan is a hundred years."""
    before_ms = time.time_ns() // 1_000_000
    in_a_day = parse_moment_ms(expiry("1d"))

    assert 86_399_000 <= in_a_day - before_ms <= 86_500_000
    assert moment_text(parse_moment_ms(expiry("999999d"))) < "2200"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("soon", "a moment.*such as 90d"),
        ("2027-01-31", "offset"),
        ("2020-01-31T00:00:00Z", "future"),
        ("0s", "future"),
    ],
)
def test_no_expiry(text: str, why: str) -> None:
    """A key that has expired by now is a mistake."""
    with pytest.raises(argparse.ArgumentTypeError, match=why):
        expiry(text)


@pytest.mark.parametrize("text", ["", "5", "[1]", "{a: ", "{a: }", "{a: 1, a: 2}"])
def test_no_quota(text: str) -> None:
    """What is no mapping of YAML is refused before anything is made."""
    with pytest.raises(argparse.ArgumentTypeError):
        quota(text)


def test_a_quota() -> None:
    """Its values are those that a policy file would have."""
    made: dict[str, Any] = quota("{budget_usd: 0.25, per: day, models: ['gpt-*']}")

    assert made == {"budget_usd": 0.25, "per": "day", "models": ["gpt-*"]}
