"""
litellm's names of prices, USD for one token, which many tools write and read.

    input_cost_per_token                             the class
    input_cost_per_token_above_200k_tokens           for inputs that are longer
    input_cost_per_token_above_200k_tokens_flex      at a tier of service

Names that do not say "of a token" in this form are none of ours: prices of seconds,
pixels and searches, limits, features.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenweir.core.price import BATCH_TIER, DEFAULT_TIER, TokenClass, tier_named

_CLASSES = {
    "input_cost_per_token": TokenClass.INPUT,
    "cache_read_input_token_cost": TokenClass.CACHED_INPUT,
    "input_cost_per_token_cache_hit": TokenClass.CACHED_INPUT,  # an older name
    "cache_creation_input_token_cost": TokenClass.CACHE_WRITE,
    "cache_creation_input_token_cost_above_1hr": TokenClass.CACHE_WRITE_1H,
    "input_cost_per_audio_token": TokenClass.AUDIO_INPUT,
    "input_cost_per_image_token": TokenClass.IMAGE_INPUT,
    "output_cost_per_token": TokenClass.OUTPUT,
    "output_cost_per_reasoning_token": TokenClass.REASONING,
    "output_cost_per_audio_token": TokenClass.AUDIO_OUTPUT,
    "output_cost_per_image_token": TokenClass.IMAGE_OUTPUT,
}
REQUEST_FEE = "input_cost_per_request"

_NAME = re.compile(
    rf"(?P<class>{'|'.join(sorted(_CLASSES, key=len, reverse=True))})"
    r"(?:_above_(?P<thousands>\d{1,6})k_tokens)?(?:_(?P<tier>[a-z]+))?"
)
_TIERS = {"batches": BATCH_TIER}


@dataclass(frozen=True, slots=True)
class PriceField:
    """What a price is for: inputs of more than *above* tokens; 0: of any length."""

    token_class: TokenClass
    above: int = 0
    tier: str = DEFAULT_TIER


def read_field(name: str) -> PriceField | None:
    """Return what the field *name* prices, None if it is not a price of tokens."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    tier = found["tier"] or DEFAULT_TIER
    return PriceField(
        _CLASSES[found["class"]],
        int(found["thousands"] or 0) * 1000,
        tier_named(_TIERS.get(tier, tier)),
    )
