"""
What the parts of a prompt that can repeat have cost.

Providers report one figure for the whole input. Of it each part has the share that it
has of the prompt's bytes. What was read from a cache is the beginning of the input, so
cached tokens fall to the parts in the order in which they are read; all others of a
request cost alike, whatever class they are of.
"""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.core.budget import affordable
from tokenweir.core.cost import Served
from tokenweir.core.price import (
    INPUT_CLASSES,
    PICOUSD_PER_NANOUSD,
    TokenClass,
    tier_named,
)
from tokenweir.core.pricing import Answered, Pricing
from tokenweir.core.prompt_part import PromptCost, PromptPart, PromptParts
from tokenweir.core.usage import Source, TokenUsage

Costs = tuple[tuple[PromptPart, PromptCost], ...]


def prompt_costs(
    prompt: PromptParts | None,
    pricing: Pricing,
    usage: TokenUsage,
    answered: Answered,
    source: Source,
) -> Costs:
    """
    Return what each part of *prompt* came to in one call.

    Nothing, if no input was used. What has no price costs 0 here. Only a usage whose
    *source* is the provider's report tells what came from a cache.
    """
    total = usage.total_input_tokens
    if prompt is None or not total or not prompt.total_bytes:
        return ()
    cached = usage.cached_input_tokens
    cached_picousd, fresh_picousd = _input_picousd(pricing, usage, answered)
    found = []
    begin = 0
    is_reported = source is Source.REPORTED
    for part in prompt.parts:
        end = min(total, begin + total * part.size_bytes // prompt.total_bytes)
        from_cache = min(cached, end) - min(cached, begin)
        fresh = end - begin - from_cache
        picousd = _share(cached_picousd, from_cache, cached)
        picousd += _share(fresh_picousd, fresh, total - cached)
        nanousd = affordable(picousd // PICOUSD_PER_NANOUSD)
        tokens = end - begin
        known = tokens if is_reported else 0
        cost = PromptCost(1, tokens, known, from_cache, total, nanousd)
        found.append((part, cost))
        begin = end
    return tuple(found)


def _share(picousd: int, tokens: int, of_tokens: int) -> int:
    return picousd * tokens // of_tokens if of_tokens else 0


def _input_picousd(
    pricing: Pricing, usage: TokenUsage, answered: Answered
) -> tuple[int, int]:
    """Return what cached input cost, and what all other input did; 0: unknown."""
    by_class = dict(_picousd_by_class(pricing, usage, answered))
    cached = by_class.pop(TokenClass.CACHED_INPUT, 0)
    return cached, sum(by_class.values())


def _picousd_by_class(
    pricing: Pricing, usage: TokenUsage, answered: Answered
) -> Iterator[tuple[TokenClass, int]]:
    served = Served(answered.started_ms, tier_named(answered.tier))
    price = pricing.prices.answered(
        answered.provider, answered.model, answered.answered
    )
    price = price or pricing.ceiling
    rates = price.rates(served.now_ms, served.tier) if price else None
    place = 0
    for token_class in INPUT_CLASSES:
        tokens = getattr(usage, token_class.value)
        rate = rates.of(token_class) if rates else None
        if rate is not None and pricing.marginal:
            yield token_class, rate.between(place, place + tokens)
        elif rate is not None:
            yield token_class, tokens * rate.at(usage.total_input_tokens)
        place += tokens
