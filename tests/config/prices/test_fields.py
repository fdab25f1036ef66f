"""Names of prices say what they are for."""

from __future__ import annotations

import pytest

from tokenweir.config.prices.fields import PriceField, read_field
from tokenweir.core.price import TokenClass


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("input_cost_per_token", PriceField(TokenClass.INPUT)),
        ("cache_read_input_token_cost", PriceField(TokenClass.CACHED_INPUT)),
        ("input_cost_per_token_cache_hit", PriceField(TokenClass.CACHED_INPUT)),
        ("cache_creation_input_token_cost", PriceField(TokenClass.CACHE_WRITE)),
        (
            "cache_creation_input_token_cost_above_1hr",
            PriceField(TokenClass.CACHE_WRITE_1H),
        ),
        (
            "cache_creation_input_token_cost_above_1hr_above_200k_tokens",
            PriceField(TokenClass.CACHE_WRITE_1H, 200_000),
        ),
        ("input_cost_per_audio_token", PriceField(TokenClass.AUDIO_INPUT)),
        ("input_cost_per_image_token", PriceField(TokenClass.IMAGE_INPUT)),
        ("output_cost_per_token", PriceField(TokenClass.OUTPUT)),
        ("output_cost_per_reasoning_token", PriceField(TokenClass.REASONING)),
        ("output_cost_per_audio_token", PriceField(TokenClass.AUDIO_OUTPUT)),
        ("output_cost_per_image_token", PriceField(TokenClass.IMAGE_OUTPUT)),
        ("output_cost_per_token_flex", PriceField(TokenClass.OUTPUT, 0, "flex")),
        ("output_cost_per_token_batches", PriceField(TokenClass.OUTPUT, 0, "batch")),
        (
            "input_cost_per_token_above_272k_tokens_priority",
            PriceField(TokenClass.INPUT, 272_000, "priority"),
        ),
    ],
)
def test_prices_of_tokens(name: str, expected: PriceField) -> None:
    """The class, the length of input from which on it holds, and the tier."""
    assert read_field(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "input_cost_per_second",
        "input_cost_per_character",
        "output_cost_per_image",
        "input_dbu_cost_per_token",
        "cache_creation_input_token_cost_above_12hr",
        "max_input_tokens",
        "supports_vision",
        "input_cost_per_token_above_9999999k_tokens",
        "",
    ],
)
def test_other_fields(name: str) -> None:
    """Prices of anything but tokens, and what is no price."""
    assert read_field(name) is None
