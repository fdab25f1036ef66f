"""What becomes of a request's cap on its output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.cap import Cap
from tokenweir.core.caps import (
    LEAST_THINKING_TOKENS,
    NO_CAP,
    OutputCap,
    capped,
    lowest,
)
from tokenweir.core.dialects.base import ModelRequest, Prompt
from tokenweir.core.rejection import Malformed

CAPS = (
    Cap(2_000),
    Cap(300, 200, models=("gpt-*",)),
    Cap(None, 100, routes=("chat_completions",)),
    Cap(50, tenants=("acme",), models=("claude",)),
)


def request(asked: int | None, thinking: int | None = None) -> ModelRequest:
    """Return a request with a cap and a budget for thinking."""
    return ModelRequest(
        model="m",
        stream=False,
        output_cap=asked,
        choices=1,
        user="",
        wants_usage=True,
        prompt=Prompt(),
        thinking_tokens=thinking,
    )


def made_of(
    asked: int | None, cap: Cap, maximum: int | None = None, thinking: int | None = None
) -> OutputCap | Malformed:
    """Return what a cap becomes where 4,096 tokens are expected without one."""
    return capped(request(asked, thinking), cap, maximum, 4_096)


@pytest.mark.parametrize(
    ("tenant", "route", "model", "expected"),
    [
        ("acme", "messages", "other", Cap(2_000)),
        ("acme", "messages", "gpt-4o", Cap(300, 200)),
        ("acme", "chat_completions", "gpt-4o", Cap(300, 100)),
        ("acme", "messages", "claude", Cap(50)),
        ("globex", "messages", "claude", Cap(2_000)),
    ],
)
def test_the_lowest_that_applies(
    tenant: str, route: str, model: str, expected: Cap
) -> None:
    """Of each figure, over all entries that are for this tenant, route and model."""
    assert lowest(CAPS, tenant, route, model) == expected


def test_no_caps() -> None:
    """Without any there is none, and nothing is changed."""
    assert lowest((), "acme", "messages", "m") == Cap()
    assert made_of(None, Cap()) == NO_CAP
    assert made_of(700, Cap()) == OutputCap(700, 700)
    assert not OutputCap(700, 700).is_changed


@pytest.mark.parametrize(
    ("asked", "cap", "maximum", "tokens", "told"),
    [
        (2_000, Cap(300, 200), None, 300, ("2000", "300")),
        (250, Cap(300, 200), None, 250, ("", "")),
        (300, Cap(300), None, 300, ("", "")),
        (0, Cap(300, 200), None, 0, ("", "")),
        (None, Cap(300, 200), None, 200, ("unset", "200")),
        (None, Cap(300), None, 300, ("unset", "300")),
        (None, Cap(None, 200), None, 200, ("unset", "200")),
        (5_000, Cap(None, 200), None, 5_000, ("", "")),
        (5_000, Cap(), 1_000, 1_000, ("5000", "1000")),
        (5_000, Cap(3_000), 1_000, 1_000, ("5000", "1000")),
        (None, Cap(3_000), 1_000, 1_000, ("unset", "1000")),
        (None, Cap(), 1_000, None, ("", "")),
    ],
)
def test_what_is_written(
    asked: int | None,
    cap: Cap,
    maximum: int | None,
    tokens: int | None,
    told: tuple[str, str],
) -> None:
    """A larger cap is lowered, an absent one set, any other left; and that is told."""
    made = made_of(asked, cap, maximum)

    assert isinstance(made, OutputCap)
    assert made.tokens == tokens
    assert (made.capped_from, made.written) == told


def test_what_was_expected() -> None:
    """The app's cap, else what is reserved without one: savings are told by it."""
    lowered, unset = made_of(2_000, Cap(300)), made_of(None, Cap(300))

    assert isinstance(lowered, OutputCap)
    assert isinstance(unset, OutputCap)
    assert (lowered.expected, unset.expected) == (2_000, 4_096)


@pytest.mark.parametrize(
    ("asked", "thinking", "tokens", "lowered"),
    [
        (16_000, 8_000, 4_000, 2_000),
        (16_000, 2_000, 4_000, 1_024),  # a quarter of it would be too little
        (None, 8_000, 4_000, 2_000),  # half, as nobody said what the answer needs
        (None, 1_100, 4_000, 1_100),
        (8_000, 32_000, 4_000, None),  # of all turns, and bound by no cap
        (8_000, 500, 4_000, None),  # none that a provider takes
        (8_000, None, 4_000, None),
        (2_000, 1_500, 2_000, None),  # the cap is the app's
    ],
)
def test_thinking(
    asked: int | None, thinking: int | None, tokens: int, lowered: int | None
) -> None:
    """It shrinks in proportion, so that the answer keeps its share."""
    made = made_of(asked, Cap(tokens), thinking=thinking)

    assert isinstance(made, OutputCap)
    assert made.thinking_tokens == lowered


@pytest.mark.parametrize("tokens", [1, LEAST_THINKING_TOKENS])
def test_no_room_to_think(tokens: int) -> None:
    """A cap that leaves none refuses, and says what to do."""
    made = made_of(16_000, Cap(tokens), thinking=8_000)

    assert isinstance(made, Malformed)
    assert made.param == "thinking.budget_tokens"
    assert f"{tokens:,} tokens" in made.message
    assert "without `thinking`" in made.message


some = st.none() | st.integers(1, 100_000)


@given(some, some, some, some, some)
def test_never_more_and_always_valid(
    asked: int | None,
    output_tokens: int | None,
    if_unset: int | None,
    maximum: int | None,
    thinking: int | None,
) -> None:
    """No cap is raised, none is above the policy's, and thinking is always below it."""
    made = made_of(asked, Cap(output_tokens, if_unset), maximum, thinking)

    if isinstance(made, Malformed):
        assert output_tokens or if_unset or maximum
        return
    for bound in (asked, output_tokens):
        assert bound is None or (made.tokens is not None and made.tokens <= bound)
    if made.thinking_tokens is not None:
        assert thinking is not None
        assert made.tokens is not None
        assert LEAST_THINKING_TOKENS <= made.thinking_tokens <= thinking
        assert made.thinking_tokens < made.tokens
