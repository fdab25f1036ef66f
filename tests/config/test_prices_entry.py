"""What a policy says about prices is read, or told."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tokenweir.config.prices_entry import PricesEntry

CEILING = {"input_usd_per_million": 2.5, "output_usd_per_million": "10"}


def test_list_prices_are_enough() -> None:
    """Nothing has to be said."""
    assert PricesEntry().model_dump() == {
        "overlays": [],
        "ceiling": None,
        "marginal": False,
    }


def test_everything() -> None:
    """A ceiling is held in pico-USD for a token."""
    entry = PricesEntry.model_validate(
        {"overlays": ["/a", "/b"], "ceiling": CEILING, "marginal": True}
    )

    assert entry.overlays == ["/a", "/b"]
    assert entry.marginal is True
    assert entry.ceiling is not None
    assert entry.ceiling.input_usd_per_million == 2_500_000
    assert entry.ceiling.output_usd_per_million == 10_000_000


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"overlays": "/a"}, ("overlays",)),
        ({"overlays": ["a"]}, ("overlays", 0)),
        ({"overlays": ["/a"] * 17}, ("overlays",)),
        ({"ceiling": 5}, ("ceiling",)),
        (
            {"ceiling": {**CEILING, "input_usd_per_million": -1}},
            ("ceiling", "input_usd_per_million"),
        ),
        (
            {"ceiling": {"input_usd_per_million": 1}},
            ("ceiling", "output_usd_per_million"),
        ),
        ({"marginal": 1}, ("marginal",)),
    ],
)
def test_what_is_wrong(fields: dict[str, Any], place: tuple[str | int, ...]) -> None:
    """Half a ceiling is none, and a path is one from the root."""
    with pytest.raises(ValidationError) as caught:
        PricesEntry.model_validate(fields)

    assert [error["loc"] for error in caught.value.errors()] == [place]
