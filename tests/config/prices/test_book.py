"""Overlays come before the list, configuration before what a response says."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

from tokenweir.config.prices import book
from tokenweir.config.prices.book import PriceBook
from tokenweir.config.prices.overlay import Overlay, read_overlay
from tokenweir.core.cost import Served, cost_nanousd
from tokenweir.core.price import ModelPrice, Unpriced, WhyUnpriced
from tokenweir.core.usage import TokenUsage

LISTED = PriceBook()


def overlay(source: str = "ours", **prices: str) -> Overlay:
    """Return an overlay: prices of input by name, or ``=name`` of a base model."""
    return read_overlay(
        {
            name: {"base_model": text[1:]}
            if text.startswith("=")
            else {"input_cost_per_token": Decimal(text)}
            for name, text in prices.items()
        },
        source,
    )


def from_(price: ModelPrice | Unpriced) -> str:
    """Return which model's price it is, and whose."""
    assert isinstance(price, ModelPrice)
    return f"{price.model} {price.source}".split(" 0.")[0]


def test_the_last_overlay_comes_first() -> None:
    """Then the others, then the list."""
    prices = PriceBook(
        [
            overlay("a", x="1e-6", **{"gpt-4o": "1e-6"}),
            overlay("b", **{"gpt-4o": "2e-6"}),
        ]
    )

    assert from_(prices.price("gpt-4o")) == "gpt-4o b"
    assert from_(prices.price("x")) == "x a"
    assert from_(prices.price("gpt-4o-mini")) == "openai/gpt-4o-mini genai-prices"


def test_an_entry_takes_the_place_of_all() -> None:
    """What an overlay's entry leaves out is not taken from the list."""
    price = PriceBook([overlay(**{"gpt-4o": "1e-6"})]).price("gpt-4o")

    assert isinstance(price, ModelPrice)
    assert cost_nanousd(TokenUsage(output_tokens=1), price, Served(0)) == Unpriced(
        WhyUnpriced.TOKEN_CLASS, "gpt-4o", "output_tokens"
    )


def test_names_with_a_provider() -> None:
    """The entry for a provider is closer than the one for the model."""
    prices = PriceBook(
        [
            overlay(
                **{
                    "gpt-4o": "1e-6",
                    "azure/gpt-4o": "2e-6",
                    "gemini/gemini-2.5-pro": "3e-6",
                    "vllm/llama": "4e-7",
                }
            )
        ]
    )

    assert from_(prices.price("gpt-4o", "azure")) == "azure/gpt-4o ours"
    assert from_(prices.price("azure/gpt-4o")) == "azure/gpt-4o ours"
    assert from_(prices.price("gpt-4o", "openai")) == "gpt-4o ours"
    assert from_(prices.price("openai/gpt-4o", "openai")) == "gpt-4o ours"
    assert (
        from_(prices.price("gemini-2.5-pro", "google")) == "gemini/gemini-2.5-pro ours"
    )
    assert from_(prices.price("LLAMA", "vllm")) == "vllm/llama ours"
    assert prices.price("llama", "other") == Unpriced(WhyUnpriced.MODEL, "llama")


def test_deployments() -> None:
    """A name of one's own stands for a model, of the list or of an overlay."""
    prices = PriceBook(
        [
            overlay(
                **{
                    "team-a": "=azure/gpt-4o",
                    "team-b": "=gpt-4o-mini",
                    "team-c": "=house-model",
                    "house-model": "1e-7",
                    "team-d": "=no-such-model",
                }
            )
        ]
    )

    assert from_(prices.price("team-a", "azure")) == "azure/gpt-4o genai-prices"
    assert from_(prices.price("team-a", "openai")) == "azure/gpt-4o genai-prices"
    assert from_(prices.price("team-b", "azure")) == "azure/gpt-4o-mini genai-prices"
    assert from_(prices.price("team-c")) == "house-model ours"
    assert prices.price("team-d") == Unpriced(WhyUnpriced.MODEL, "no-such-model")


def test_a_price_for_all_makes_of_a_model() -> None:
    """A name without date covers dated ones, unless those are listed at another price."""
    prices = PriceBook([overlay(**{"gpt-4o": "1e-6", "house": "1e-6"})])

    assert from_(prices.price("gpt-4o-2024-08-06")) == "gpt-4o ours"
    assert from_(prices.price("gpt-4o-2024-05-13")) == (
        "openai/gpt-4o-2024-05-13 genai-prices"
    )
    assert from_(prices.price("house-2027-01-01")) == "house ours"
    assert from_(prices.price("gpt-4o-mini-2024-07-18")) == (
        "openai/gpt-4o-mini genai-prices"
    )
    assert isinstance(prices.price("other-2027-01-01"), Unpriced)


def test_b06_unknown_names_have_no_price() -> None:
    """A typo with a dot is priced as what it means, a new name not at all."""
    assert from_(LISTED.price("claude-opus-4.1")) == (
        "anthropic/claude-opus-4-1 genai-prices"
    )
    assert LISTED.price("claude-opus-9") == Unpriced(WhyUnpriced.MODEL, "claude-opus-9")


def test_the_make_that_answered() -> None:
    """A dated name in the response says which make of the model it was."""
    assert from_(LISTED.answered("gpt-4o", "gpt-4o-2024-05-13", "openai")) == (
        "openai/gpt-4o-2024-05-13 genai-prices"
    )
    assert from_(LISTED.answered("gpt-4o", None)) == "openai/gpt-4o genai-prices"
    assert from_(LISTED.answered("gpt-4o", "gpt-4o")) == "openai/gpt-4o genai-prices"


def test_what_else_a_response_says_is_not_believed() -> None:
    """Neither another model, cheaper or dearer, nor one that nobody knows."""
    for claimed in ("gpt-3.5-turbo", "o1-pro", "gpt-4o-mini", "no-such-model"):
        assert from_(LISTED.answered("gpt-4o", claimed)) == "openai/gpt-4o genai-prices"


def test_a_response_names_what_had_no_price() -> None:
    """A deployment that nobody configured is priced as what it says that it is."""
    assert from_(LISTED.answered("our-deployment", "gpt-4o-2024-08-06", "azure")) == (
        "azure/gpt-4o genai-prices"
    )
    unknown = LISTED.answered("our-deployment", "nobody-knows", "azure")
    assert unknown == Unpriced(WhyUnpriced.MODEL, "our-deployment")


def test_the_make_of_a_deployment() -> None:
    """A deployment's base model is compared, not its name."""
    prices = PriceBook([overlay(team="=azure/gpt-4o")])

    assert from_(prices.answered("team", "gpt-4o-2024-05-13", "azure")) == (
        "azure/gpt-4o-2024-05-13 genai-prices"
    )
    assert from_(prices.answered("team", "gpt-4o-mini", "azure")) == (
        "azure/gpt-4o genai-prices"
    )


def test_what_is_remembered_is_bounded() -> None:
    """Names come from requests: a flood of them costs time, not memory."""
    prices = PriceBook([overlay(x="1e-6")])
    for number in range(book.MAX_REMEMBERED + 10):
        prices.price(f"model-{number}", "vllm")

    assert len(prices._remembered) <= book.MAX_REMEMBERED
    assert prices.price("x") is prices.price("x")


def test_providers_of_addresses() -> None:
    """They are told by the list."""
    assert LISTED.provider_of("https://api.openai.com") == "openai"
    assert LISTED.provider_of("http://127.0.0.1") is None


def test_the_list_is_opened_when_it_is_needed() -> None:
    """A price that an overlay has does not cost the time and memory of the list."""
    program = (
        "import sys\n"
        "from decimal import Decimal\n"
        "from tokenweir.config.prices.book import PriceBook\n"
        "from tokenweir.config.prices.overlay import read_overlay\n"
        "entry = {'x': {'input_cost_per_token': Decimal('1e-6')}}\n"
        "book = PriceBook([read_overlay(entry, 's')])\n"
        "book.price('x')\n"
        "print('genai_prices' in sys.modules)\n"
        "book.price('y')\n"
        "print('genai_prices' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == "False\nTrue\n"
