"""An entry in litellm's form becomes price lists, or problems with their place."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tokenweir.config.prices.entry import read_entry
from tokenweir.core.price import ModelPrice, PriceList, Rate, Rates, TokenClass

INPUT, OUTPUT = TokenClass.INPUT, TokenClass.OUTPUT


def test_a_plain_entry() -> None:
    """Prices are kept, everything else is passed over."""
    entry = read_entry(
        {
            "input_cost_per_token": Decimal("2.5e-6"),
            "output_cost_per_token": Decimal("1e-5"),
            "cache_read_input_token_cost": None,
            "max_input_tokens": Decimal(128_000),
            "mode": "chat",
            "tiered_pricing": "none",
        }
    )

    expected = Rates({INPUT: Rate(2_500_000), OUTPUT: Rate(10_000_000)})
    assert entry.lists == [PriceList(expected)]
    assert entry.problems == []


def test_steps_and_tiers() -> None:
    """Each tier is a list of its own, with prices by length in order."""
    entry = read_entry(
        {
            "input_cost_per_token_above_400k_tokens": Decimal("9e-6"),
            "input_cost_per_token_above_200k_tokens": Decimal("6e-6"),
            "input_cost_per_token": Decimal("3e-6"),
            "input_cost_per_token_above_200k_tokens_flex": Decimal("4e-6"),
            "input_cost_per_token_batches": Decimal("1e-6"),
        }
    )

    long = Rate(3_000_000, ((200_000, 6_000_000), (400_000, 9_000_000)))
    assert entry.lists == [
        PriceList(Rates({INPUT: long})),
        # No price for short inputs: they cost what the next longer ones do.
        PriceList(Rates({INPUT: Rate(4_000_000, ((200_000, 4_000_000),))}), "flex"),
        PriceList(Rates({INPUT: Rate(1_000_000)}), "batch"),
    ]


def test_prices_by_range() -> None:
    """The other form of prices by length; ranges of something else are passed over."""
    entry = read_entry(
        {
            "tiered_pricing": [
                {
                    "range": [Decimal(0), Decimal(256_000)],
                    "input_cost_per_token": Decimal("5e-8"),
                    "output_cost_per_token": Decimal("4e-7"),
                },
                {
                    "range": [Decimal(256_000), Decimal(1_000_000)],
                    "input_cost_per_token": Decimal("2.5e-7"),
                    "note": "x",
                },
                {"max_results_range": [Decimal(0), Decimal(25)]},
                {
                    "range": [Decimal("1e999"), Decimal(1)],
                    "input_cost_per_token": Decimal(0),
                },
            ]
        }
    )

    assert entry.problems == []
    assert entry.lists == [
        PriceList(
            Rates({INPUT: Rate(50_000, ((256_000, 250_000),)), OUTPUT: Rate(400_000)})
        )
    ]


def test_since_and_fee() -> None:
    """A date on which prices begin, and a fee for each request."""
    entry = read_entry(
        {
            "since": "2026-01-01",
            "input_cost_per_request": Decimal("0.005"),
            "input_cost_per_token": Decimal("1e-6"),
        }
    )

    rates = Rates({INPUT: Rate(1_000_000)}, 5_000_000_000)
    assert entry.lists == [PriceList(rates, since_ms=1_767_225_600_000)]
    old = read_entry({"since": "1960-01-01", "input_cost_per_token": Decimal(0)})
    assert old.lists[0].since_ms == 0


def test_free() -> None:
    """Zeros are prices: of one's own machines, say."""
    entry = read_entry(
        {"input_cost_per_token": Decimal(0), "output_cost_per_token": Decimal(0)}
    )

    assert entry.lists == [PriceList(Rates({INPUT: Rate(0), OUTPUT: Rate(0)}))]


def test_echoes() -> None:
    """Reasoning at the price of output is half of it in a batch, as output is."""
    entry = read_entry(
        {
            "output_cost_per_token": Decimal("2e-6"),
            "output_cost_per_reasoning_token": Decimal("2e-6"),
            "output_cost_per_token_batches": Decimal("1e-6"),
        }
    )
    price = ModelPrice("m", "t", tuple(entry.lists))

    batch = price.rates(0, "batch")
    assert batch is not None
    assert batch.of(TokenClass.REASONING) == Rate(1_000_000)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"mode": "chat"},
        {"input_cost_per_token": None},
        {"input_cost_per_token": Decimal(0), "output_cost_per_image": Decimal("0.04")},
    ],
)
def test_no_price_of_tokens(content: dict[str, object]) -> None:
    """Nothing, or zeros beside a price of something else, is no price (B06)."""
    entry = read_entry(content)

    assert (entry.lists, entry.problems) == ([], [])


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("input_cost_per_token", "3e-6", "must be a number"),
        ("input_cost_per_token", True, "must be a number"),
        ("input_cost_per_token", Decimal(3), "for one token, not for a million"),
        ("input_cost_per_token", Decimal(-1), "for one token, not for a million"),
        ("input_cost_per_request", Decimal(101), "must be from 0 to 100 USD"),
        ("input_cost_per_request", "1", "must be from 0 to 100 USD"),
        ("since", "yesterday", "must be a date such as 2026-12-01"),
        ("since", Decimal(2026), "must be a date such as 2026-12-01"),
    ],
)
def test_problems(name: str, value: object, text: str) -> None:
    """What is wrong is told with its field, and what is right is read."""
    entry = read_entry({"output_cost_per_token": Decimal("1e-6"), name: value})

    assert [(place, text in told) for place, told in entry.problems] == [(name, True)]
    assert [prices.rates.by_class[OUTPUT] for prices in entry.lists] == [
        Rate(1_000_000)
    ]
