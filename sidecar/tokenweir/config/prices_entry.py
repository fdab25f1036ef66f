"""What the policy says about prices."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator, WithJsonSchema

from tokenweir.config.entry import Entry
from tokenweir.config.money import DOLLARS_PATTERN, parse_usd_per_million
from tokenweir.config.scalar import AbsolutePath

UsdPerMillion = Annotated[
    int,
    PlainValidator(parse_usd_per_million),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 10_000},
                {"type": "string", "pattern": DOLLARS_PATTERN},
            ]
        }
    ),
]


class CeilingEntry(Entry):
    """What a model costs whose price nobody knows."""

    input_usd_per_million: UsdPerMillion = Field(
        description="Of input tokens, in US dollars for a million."
    )
    output_usd_per_million: UsdPerMillion = Field(
        description="Of output tokens, in US dollars for a million."
    )


class PricesEntry(Entry):
    """Prices that are not public, and what follows without any."""

    overlays: Annotated[list[AbsolutePath], Field(max_length=16)] = Field(
        default_factory=list,
        description="JSON files in the form of litellm's price table: negotiated "
        "prices, models of one's own, new ones. The last file comes first, then the "
        "public list prices.",
    )
    ceiling: CeilingEntry | None = Field(
        default=None,
        description="Price of models that have none. Without it a budget in US dollars "
        "refuses them (403): they are never free.",
    )
    marginal: bool = Field(
        default=False,
        description="Where a price rises with the length of the input: only what is "
        "beyond the step pays more. Without it: all of the request does.",
    )
