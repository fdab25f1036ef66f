"""Prices are integers, and one that is not known is never 0."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.price import (
    DAY_MS,
    INPUT_CLASSES,
    LIKE,
    MAX_PICOUSD_PER_TOKEN,
    OUTPUT_CLASSES,
    Hours,
    ModelPrice,
    PriceList,
    Rate,
    Rates,
    TokenClass,
    flat_price,
    picousd_per_token,
    tier_named,
)
from tokenweir.core.usage import TokenUsage

HOUR_MS = 3_600_000
INPUT, OUTPUT = TokenClass.INPUT, TokenClass.OUTPUT


def rates(input_: int, output: int) -> Rates:
    """Return plain prices."""
    return Rates({INPUT: Rate(input_), OUTPUT: Rate(output)})


def test_classes_are_those_of_usage() -> None:
    """Every class of tokens that can be used can have a price, on its own side."""
    used = [field.name for field in fields(TokenUsage)]

    assert sorted(used) == sorted(TokenClass)
    assert {*INPUT_CLASSES, *OUTPUT_CLASSES} == set(TokenClass)
    for token_class in TokenClass:
        one = TokenUsage(**{token_class.value: 1})
        assert one.total_input_tokens == INPUT_CLASSES.count(token_class)
        assert one.total_output_tokens == OUTPUT_CLASSES.count(token_class)


def test_classes_without_a_price_follow_another() -> None:
    """Caches and pictures are charged like text, thoughts like output."""
    plain = rates(2, 5)
    cached = Rates({INPUT: Rate(2), TokenClass.CACHE_WRITE: Rate(3)})

    assert plain.of(TokenClass.CACHED_INPUT) == Rate(2)
    assert plain.of(TokenClass.CACHE_WRITE_1H) == Rate(2)
    assert plain.of(TokenClass.IMAGE_INPUT) == Rate(2)
    assert (
        plain.of(TokenClass.REASONING) == plain.of(TokenClass.IMAGE_OUTPUT) == Rate(5)
    )
    assert cached.of(TokenClass.CACHE_WRITE_1H) == Rate(3)
    assert cached.of(OUTPUT) is None


@pytest.mark.parametrize(
    "token_class", [TokenClass.AUDIO_INPUT, TokenClass.AUDIO_OUTPUT]
)
def test_audio_is_never_charged_as_text(token_class: TokenClass) -> None:
    """Without a price of its own it has none (B11)."""
    assert rates(2, 5).of(token_class) is None
    assert token_class not in LIKE


def test_steps_are_crossed_and_not_reached() -> None:
    """An input of exactly 200,000 tokens is not yet a long one."""
    rate = Rate(3, ((200_000, 6), (400_000, 5)))

    assert [rate.at(n) for n in (0, 200_000, 200_001, 400_000, 400_001)] == [
        3,
        3,
        6,
        6,
        5,
    ]
    assert [rate.highest(n) for n in (0, 200_000, 200_001, 10**9)] == [3, 3, 6, 6]
    assert Rate(7).at(10**9) == Rate(7).highest(10**9) == 7


def test_places_in_a_prompt() -> None:
    """Marginal prices: each token pays that of its place."""
    rate = Rate(3, ((10, 6), (20, 5)))

    assert rate.between(0, 10) == 30
    assert rate.between(0, 25) == 10 * 3 + 10 * 6 + 5 * 5
    assert rate.between(8, 12) == 2 * 3 + 2 * 6
    assert rate.between(15, 18) == 3 * 6
    assert rate.between(30, 31) == 5
    assert rate.between(4, 4) == 0


RATES = st.builds(
    lambda base, steps: Rate(base, tuple(sorted(steps.items()))),
    st.integers(0, 100),
    st.dictionaries(st.integers(0, 50), st.integers(0, 100), max_size=3),
)


@given(RATES, st.integers(0, 60), st.integers(0, 60))
def test_places_add_up(rate: Rate, begin: int, count: int) -> None:
    """A stretch costs what its tokens cost one by one, and no more than the highest."""
    end = begin + count
    one_by_one = sum(rate.at(place + 1) for place in range(begin, end))

    assert rate.between(begin, end) == one_by_one
    assert one_by_one <= count * rate.highest(end)


def test_history() -> None:
    """The last price that was in force counts; before all of them, the first."""
    price = ModelPrice(
        "m",
        "test",
        (
            PriceList(rates(1, 1), since_ms=100),
            PriceList(rates(2, 2), since_ms=200),
            PriceList(rates(3, 3), since_ms=300),
        ),
    )

    found = [price.rates(now_ms) for now_ms in (99, 100, 199, 200, 10**13)]
    assert found == [rates(n, n) for n in (1, 1, 1, 2, 3)]


def test_hours_of_the_day() -> None:
    """A price by night holds from its first millisecond until before its last."""
    night = Hours(22 * HOUR_MS, 6 * HOUR_MS)
    price = ModelPrice(
        "m", "t", (PriceList(rates(2, 2)), PriceList(rates(1, 1), hours=night))
    )
    midnight_ms = 20_000 * DAY_MS

    def at(since_ms: int) -> Rates | None:
        return price.rates(midnight_ms + since_ms)

    assert at(22 * HOUR_MS - 1) == at(6 * HOUR_MS) == rates(2, 2)
    assert at(22 * HOUR_MS) == at(0) == at(6 * HOUR_MS - 1) == rates(1, 1)
    assert Hours(HOUR_MS, 2 * HOUR_MS).include(HOUR_MS)
    assert not Hours(HOUR_MS, 2 * HOUR_MS).include(2 * HOUR_MS)


def test_a_tier_that_was_given_up() -> None:
    """From that moment on it has no price."""
    lists = (PriceList(rates(2, 2)), PriceList(rates(1, 1), "flex", 10, until_ms=20))
    price = ModelPrice("m", "t", lists)

    found = [price.rates(now_ms, "flex") for now_ms in (9, 10, 19, 20)]
    assert found == [None, rates(1, 1), rates(1, 1), None]


def test_tiers() -> None:
    """A tier has prices of its own from a date on; what they leave out is as default."""
    default = Rates({INPUT: Rate(10), OUTPUT: Rate(40)}, request_picousd=7)
    price = ModelPrice(
        "m",
        "t",
        (
            PriceList(default),
            PriceList(Rates({INPUT: Rate(5)}), "flex", since_ms=100),
            PriceList(Rates({INPUT: Rate(4), OUTPUT: Rate(20)}), "flex", since_ms=200),
        ),
    )

    assert price.tiers(99) == ("default",)
    assert price.tiers(200) == ("default", "flex")
    assert price.rates(99, "flex") is None
    assert price.rates(100, "flex") == Rates({INPUT: Rate(5), OUTPUT: Rate(40)}, 7)
    assert price.rates(200, "flex") == Rates({INPUT: Rate(4), OUTPUT: Rate(20)}, 7)
    assert price.rates(200, "priority") is None


def test_a_price_without_lists() -> None:
    """An empty entry has no price for anything."""
    nothing = ModelPrice("m", "t", ()).rates(0)

    assert nothing is not None
    assert [nothing.of(token_class) for token_class in TokenClass] == [None] * len(
        TokenClass
    )


def test_a_flat_price() -> None:
    """It is the same for each class of a side, and for whatever tier."""
    price = flat_price("m", "ceiling", (3, 9))
    found = price.rates(0, "never heard of")

    assert found is not None
    assert {found.of(c) for c in INPUT_CLASSES} == {Rate(3)}
    assert {found.of(c) for c in OUTPUT_CLASSES} == {Rate(9)}


@pytest.mark.parametrize(
    ("text", "tier"),
    [
        (None, "default"),
        ("", "default"),
        ("default", "default"),
        ("standard", "default"),
        ("on_demand", "default"),
        ("auto", "default"),
        (" Flex ", "flex"),
        ("priority", "priority"),
        ("scale", "scale"),
    ],
)
def test_names_of_tiers(text: str | None, tier: str) -> None:
    """Providers' words for nothing special are one, all others stay apart."""
    assert tier_named(text) == tier


@pytest.mark.parametrize(
    ("usd", "picousd"),
    [
        ("0", 0),
        ("0.000003", 3_000_000),
        ("3e-6", 3_000_000),
        ("0.00000000000149", 1),
        ("0.0000000000015", 2),
        ("1e-30", 1),
        ("0.01", MAX_PICOUSD_PER_TOKEN),
    ],
)
def test_prices_are_rounded_to_a_millionth_of_a_millionth(
    usd: str, picousd: int
) -> None:
    """To the nearest, but nothing that costs becomes free."""
    assert picousd_per_token(Decimal(usd)) == picousd


@pytest.mark.parametrize(
    "usd", ["-1e-9", "0.0100001", "3", "Infinity", "-Infinity", "NaN"]
)
def test_what_is_no_price_of_a_token(usd: str) -> None:
    """Who writes a price per million tokens is told."""
    with pytest.raises(ValueError, match="for one token, not for a million"):
        picousd_per_token(Decimal(usd))
