"""
What tokens cost: price lists, by model, class of tokens, tier of service and date.

Money is counted in integers. A token's price is in **pico-USD** (10^-12 USD): $1 per
million tokens is 1,000,000 of them. The finest price that providers publish has six
decimals per million tokens, which is one. Costs are sums of products of such prices,
exact, and rounded up to nano-USD once, at the very end (`tokenweir.core.cost`).

A price that is not known is never 0. Classes that providers price like another one
unless they say otherwise follow it (`LIKE`). Audio follows nothing: it costs ten times
what text does. A tier of service without a price list is unpriced too, and never as
the default tier is.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from types import MappingProxyType

PICOUSD_PER_USD = 10**12
PICOUSD_PER_NANOUSD = 1_000
TOKENS_PER_MILLION = 10**6
# $10,000 per million tokens, more than ten times the dearest model's. What is above
# is a price per million tokens where one per token is asked for.
MAX_PICOUSD_PER_TOKEN = 10**10

DAY_MS = 86_400_000


class TokenClass(enum.StrEnum):
    """A class of `tokenweir.core.usage.TokenUsage`, by the name of its field."""

    INPUT = "input_tokens"
    CACHED_INPUT = "cached_input_tokens"
    CACHE_WRITE = "cache_write_tokens"
    CACHE_WRITE_1H = "cache_write_1h_tokens"
    AUDIO_INPUT = "audio_input_tokens"
    IMAGE_INPUT = "image_input_tokens"
    OUTPUT = "output_tokens"
    REASONING = "reasoning_tokens"
    AUDIO_OUTPUT = "audio_output_tokens"
    IMAGE_OUTPUT = "image_output_tokens"


# In the order in which they stand in a prompt: a cache holds its beginning.
INPUT_CLASSES = (
    TokenClass.CACHED_INPUT,
    TokenClass.CACHE_WRITE_1H,
    TokenClass.CACHE_WRITE,
    TokenClass.INPUT,
    TokenClass.IMAGE_INPUT,
    TokenClass.AUDIO_INPUT,
)
OUTPUT_CLASSES = (
    TokenClass.OUTPUT,
    TokenClass.REASONING,
    TokenClass.AUDIO_OUTPUT,
    TokenClass.IMAGE_OUTPUT,
)

# What is charged like another class if it has no price of its own.
LIKE: Mapping[TokenClass, TokenClass] = MappingProxyType(
    {
        TokenClass.CACHED_INPUT: TokenClass.INPUT,
        TokenClass.CACHE_WRITE: TokenClass.INPUT,
        TokenClass.CACHE_WRITE_1H: TokenClass.CACHE_WRITE,
        TokenClass.IMAGE_INPUT: TokenClass.INPUT,
        TokenClass.REASONING: TokenClass.OUTPUT,
        TokenClass.IMAGE_OUTPUT: TokenClass.OUTPUT,
    }
)

DEFAULT_TIER = "default"
BATCH_TIER = "batch"
# As providers call it where nothing special was served.
_DEFAULT_TIER_NAMES = frozenset({"", "auto", "default", "on_demand", "standard"})


@dataclass(frozen=True, slots=True)
class Rate:
    """
    The price of one token, in pico-USD, by the length of the input.

    Attributes:
        base: Of a request whose input is short.
        steps: *(above, price)* for inputs of more than *above* tokens, rising.
    """

    base: int
    steps: tuple[tuple[int, int], ...] = ()

    def at(self, input_tokens: int) -> int:
        """Return the price if the whole input is *input_tokens* long."""
        price = self.base
        for above, higher in self.steps:
            if input_tokens > above:
                price = higher
        return price

    def highest(self, input_tokens: int) -> int:
        """Return the highest price that an input of up to *input_tokens* can have."""
        reached = [price for above, price in self.steps if input_tokens > above]
        return max([self.base, *reached])

    def between(self, begin: int, end: int) -> int:
        """Return the price of the tokens at places *begin* up to *end* of the input."""
        total, place, price = 0, begin, self.base
        for above, higher in self.steps:
            upto = min(max(above, place), end)
            total, place, price = total + (upto - place) * price, upto, higher
        return total + (end - place) * price


@dataclass(frozen=True, slots=True)
class Rates:
    """
    What a request costs, by one price list.

    Attributes:
        by_class: Without those that have no price of their own.
        request_picousd: For each request, whatever its size.
    """

    by_class: Mapping[TokenClass, Rate]
    request_picousd: int = 0

    def of(self, token_class: TokenClass) -> Rate | None:
        """Return the price of *token_class*, its own or one that it follows."""
        wanted: TokenClass | None = token_class
        while wanted is not None:
            rate = self.by_class.get(wanted)
            if rate is not None:
                return rate
            wanted = LIKE.get(wanted)
        return None


@dataclass(frozen=True, slots=True)
class Hours:
    """A part of each day (UTC), in ms since midnight; it may go past midnight."""

    begin_ms: int
    end_ms: int

    def include(self, now_ms: int) -> bool:
        """Tell if *now_ms* is within."""
        since_ms = (now_ms % DAY_MS - self.begin_ms) % DAY_MS
        return since_ms < (self.end_ms - self.begin_ms) % DAY_MS


@dataclass(frozen=True, slots=True)
class PriceList:
    """
    Prices, and when they hold.

    Attributes:
        rates: For the default tier all of them, for others what is different.
        tier: The tier of service, as `tier_named` writes it.
        since_ms: In milliseconds since 1970 (UTC); 0: always.
        hours: Only then; None: all day.
        until_ms: Not from then on; None: for ever.
    """

    rates: Rates
    tier: str = DEFAULT_TIER
    since_ms: int = 0
    hours: Hours | None = None
    until_ms: int | None = None

    def holds(self, now_ms: int) -> bool:
        """Tell if these prices are in force at *now_ms*."""
        if now_ms < self.since_ms:
            return False
        if self.until_ms is not None and now_ms >= self.until_ms:
            return False
        return self.hours is None or self.hours.include(now_ms)


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """
    All that is known of a model's prices.

    Attributes:
        model: What they are for, as their source calls it: ``"openai/gpt-4o"``.
        source: Where they come from: ``"genai-prices 0.2.3"``.
        lists: Of those in force, the last one of a tier counts. If there is none of
            the default tier, its first one does: it is the oldest.
        any_tier: The default tier's prices are those of all tiers.
    """

    model: str
    source: str
    lists: tuple[PriceList, ...]
    any_tier: bool = False

    def tiers(self, now_ms: int) -> tuple[str, ...]:
        """Return the tiers that have prices at *now_ms*, the default first."""
        names = {prices.tier for prices in self.lists if prices.holds(now_ms)}
        return (DEFAULT_TIER, *sorted(names - {DEFAULT_TIER}))

    def rates(self, now_ms: int, tier: str = DEFAULT_TIER) -> Rates | None:
        """Return the prices at *now_ms* for *tier*, None if it has none."""
        default = self._default(now_ms)
        if tier == DEFAULT_TIER or self.any_tier:
            return default
        special = [
            prices.rates
            for prices in self.lists
            if prices.tier == tier and prices.holds(now_ms)
        ]
        if not special:
            return None
        # One list may name what another leaves out; what none names is as by default.
        by_class: dict[TokenClass, Rate] = dict(default.by_class)
        for rates in special:
            by_class.update(rates.by_class)
        return Rates(MappingProxyType(by_class), default.request_picousd)

    def _default(self, now_ms: int) -> Rates:
        lists = [prices for prices in self.lists if prices.tier == DEFAULT_TIER]
        for prices in reversed(lists):
            if prices.holds(now_ms):
                return prices.rates
        return lists[0].rates if lists else Rates(MappingProxyType({}))


class WhyUnpriced(enum.StrEnum):
    """What it is that has no price."""

    MODEL = "model"
    TIER = "tier"
    TOKEN_CLASS = "class"  # noqa: S105 -- not that kind of token


@dataclass(frozen=True, slots=True)
class Unpriced:
    """
    There is no such price. It is for the caller to refuse, or to charge a ceiling.

    Attributes:
        why: What has none.
        model: The model's name.
        what: The name of the tier or class, or of what the model resembles; ``""``.
    """

    why: WhyUnpriced
    model: str
    what: str = ""


def tier_named(text: str | None) -> str:
    """Return the tier of service that a response calls *text*, or does not name."""
    name = (text or "").strip().lower()
    return DEFAULT_TIER if name in _DEFAULT_TIER_NAMES else name


def picousd_per_token(usd: Decimal) -> int:
    """
    Return *usd*, the price of one token, in pico-USD, rounded to the nearest.

    What costs anything does not become free.

    Raises:
        ValueError: It is below 0, no number, or above `MAX_PICOUSD_PER_TOKEN`.
    """
    highest = Decimal(MAX_PICOUSD_PER_TOKEN) / PICOUSD_PER_USD
    if usd.is_nan() or not 0 <= usd <= highest:
        raise ValueError("must be from 0 to 0.01: USD for one token, not for a million")
    picousd = int((usd * PICOUSD_PER_USD).to_integral_value(ROUND_HALF_UP))
    return max(picousd, 1) if usd else 0


def flat_price(model: str, source: str, rates: tuple[int, int]) -> ModelPrice:
    """
    Return a price that is the same for all classes of a side, and for all tiers.

    *rates* are those of input and of output, in pico-USD per token: a ceiling for
    models that have no price, or the price of what runs on one's own machines.
    """
    by_class = dict.fromkeys(INPUT_CLASSES, Rate(rates[0]))
    by_class |= dict.fromkeys(OUTPUT_CLASSES, Rate(rates[1]))
    prices = PriceList(Rates(MappingProxyType(by_class)))
    return ModelPrice(model, source, (prices,), any_tier=True)
