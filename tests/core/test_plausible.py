"""Which reports are believed: surprising ones, but none that can't be true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.examples import ticket
from tokenweir.core.plausible import (
    INPUT_SLACK,
    LEAST_DOUBTED_TOKENS,
    MOST_INPUT_TOKENS,
    MOST_OUTPUT_TOKENS,
    OUTPUT_SLACK,
    generated_at_most,
    is_plausible,
)
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import TokenUsage


def asked(
    cap: int | None = None, maximum: int | None = None, choices: int = 1
) -> Ticket:
    """Return the ticket of a request with *cap* for all choices."""
    return replace(ticket(output_cap=cap), max_output_tokens=maximum, choices=choices)


def believed(of: Ticket, passed_bytes: int = 0) -> int:
    """Return the most output that is believed; one more is not."""
    low, high = 0, 10**12
    while low < high:
        middle = (low + high + 1) // 2
        if is_plausible(of, TokenUsage(output_tokens=middle), passed_bytes):
            low = middle
        else:
            high = middle - 1
    return low


@pytest.mark.parametrize(
    ("of", "most"),
    [
        (asked(), MOST_OUTPUT_TOKENS),
        (asked(choices=3), 3 * MOST_OUTPUT_TOKENS),
        (asked(maximum=16_384), 16_384),
        (asked(maximum=16_384, choices=3), 3 * 16_384),
        (asked(cap=100), 100),
        (asked(cap=100, maximum=50), 50),
        (asked(cap=100, maximum=50, choices=2), 100),
        (asked(cap=0, maximum=50), 0),
        (asked(cap=10**9), MOST_OUTPUT_TOKENS),
    ],
)
def test_generated_at_most(of: Ticket, most: int) -> None:
    """A model stops at the app's cap and at its own maximum, in each choice."""
    assert generated_at_most(of) == most


@pytest.mark.parametrize(
    ("of", "most"),
    [
        (asked(), OUTPUT_SLACK * MOST_OUTPUT_TOKENS),
        (asked(cap=16), OUTPUT_SLACK * MOST_OUTPUT_TOKENS),
        (asked(cap=10**9), OUTPUT_SLACK * MOST_OUTPUT_TOKENS),
        (asked(choices=3), 3 * OUTPUT_SLACK * MOST_OUTPUT_TOKENS),
        (asked(maximum=64_000), OUTPUT_SLACK * 64_000),
        (asked(maximum=64_000, choices=2), 2 * OUTPUT_SLACK * 64_000),
        (asked(cap=16, maximum=64_000), OUTPUT_SLACK * 64_000),
        (asked(cap=100_000, maximum=64_000), OUTPUT_SLACK * 100_000),
        (asked(cap=10**9, maximum=64_000), OUTPUT_SLACK * MOST_OUTPUT_TOKENS),
        (asked(maximum=1_000_000), OUTPUT_SLACK * 1_000_000),
        (asked(maximum=10), LEAST_DOUBTED_TOKENS),
    ],
)
def test_output(of: Ticket, most: int) -> None:
    """Output is believed with slack up to what model and app allow, at least much."""
    assert believed(of) == most


def test_output_by_bytes() -> None:
    """However much it is: what passed may have been a token in each byte."""
    of = asked(cap=16, maximum=16)

    assert believed(of, passed_bytes=1_000_000) == 1_000_000


@pytest.mark.parametrize(
    ("estimate", "most"),
    [(1, MOST_INPUT_TOKENS), (10**6, INPUT_SLACK * 10**6)],
)
def test_input(estimate: int, most: int) -> None:
    """Input is believed up to any context window, and far above the estimate."""
    of = ticket(input_tokens=estimate)

    assert is_plausible(of, TokenUsage(input_tokens=most), 0)
    assert not is_plausible(of, TokenUsage(input_tokens=most + 1), 0)


@pytest.mark.parametrize(
    "usage",
    [
        TokenUsage(cached_input_tokens=10**9),
        TokenUsage(cache_write_tokens=10**9),
        TokenUsage(cache_write_1h_tokens=10**9),
        TokenUsage(audio_input_tokens=10**9),
        TokenUsage(output_tokens=10**9),
        TokenUsage(reasoning_tokens=10**9),
        TokenUsage(audio_output_tokens=10**9),
    ],
)
def test_every_class(usage: TokenUsage) -> None:
    """No class of tokens is a way around."""
    assert not is_plausible(asked(), usage, 0)


@pytest.mark.parametrize(
    "usage",
    [
        TokenUsage(input_tokens=11, reasoning_tokens=100_000, output_tokens=3),
        TokenUsage(cached_input_tokens=1_000_000, output_tokens=3),
        TokenUsage(input_tokens=900_000, cache_write_1h_tokens=100_000),
    ],
)
def test_surprises(usage: TokenUsage) -> None:
    """Long reasoning, and a context that the request does not show, are believed."""
    assert is_plausible(asked(), usage, 0)
