"""
From genai-prices' prices, decimals of USD for a million tokens, to ours.

What is not of tokens or requests is left out: searches, pages, seconds. So are
variants by anything but the tier of service, such as a search mode.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from types import MappingProxyType

from genai_prices.types import (
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)

from tokenweir.core import price
from tokenweir.core.price import (
    BATCH_TIER,
    DAY_MS,
    DEFAULT_TIER,
    PICOUSD_PER_USD,
    TOKENS_PER_MILLION,
    Hours,
    PriceList,
    Rate,
    Rates,
    TokenClass,
    picousd_per_token,
    tier_named,
)

_CLASSES = {
    "input_mtok": TokenClass.INPUT,
    "cache_read_mtok": TokenClass.CACHED_INPUT,
    "cache_write_mtok": TokenClass.CACHE_WRITE,
    "cache_write_5m_mtok": TokenClass.CACHE_WRITE,
    "cache_write_1h_mtok": TokenClass.CACHE_WRITE_1H,
    "input_audio_mtok": TokenClass.AUDIO_INPUT,
    "input_image_mtok": TokenClass.IMAGE_INPUT,
    "output_mtok": TokenClass.OUTPUT,
    "output_reasoning_mtok": TokenClass.REASONING,
    "output_audio_mtok": TokenClass.AUDIO_OUTPUT,
    "output_image_mtok": TokenClass.IMAGE_OUTPUT,
}
# Google's lists give one price for text, pictures, video and sound, unless sound is
# dearer. Elsewhere a missing price of sound is one that nobody has written down.
_SOUND_LIKE_TEXT = ("google", "gemini")
_FREE = ":free"


def compile_price(
    model: ModelInfo, provider: str, source: str, *, variants: bool = True
) -> price.ModelPrice:
    """
    Return the prices of *model* as *provider* sells it.

    Without *variants* those of the default tier only: another provider's tiers are
    not those of the one that the list is borrowed from.
    """
    lists = [
        PriceList(_rates(part.prices), DEFAULT_TIER, *_when(part.constraint))
        for part in _standard(model)
    ]
    if model.id.endswith(_FREE) and not any(part.rates.by_class for part in lists):
        free = {TokenClass.INPUT: Rate(0), TokenClass.OUTPUT: Rate(0)}
        lists = [PriceList(Rates(MappingProxyType(free)))]
    if variants:
        lists += _tiers(model)
    seller, family = _SOUND_LIKE_TEXT
    if provider == seller and model.id.startswith(family):
        lists = _with_sound(lists)
    return price.ModelPrice(f"{provider}/{model.id}", source, tuple(lists))


def _standard(model: ModelInfo) -> list[ConditionalPrice]:
    if isinstance(model.prices, ModelPrice):
        return [ConditionalPrice(prices=model.prices)]
    return model.prices


def _tiers(model: ModelInfo) -> Iterator[PriceList]:
    # There the first that names a class counts, here the last one.
    for variant in reversed(model.price_variants or []):
        tier = _tier(variant)
        if tier != DEFAULT_TIER:
            yield PriceList(_rates(variant.prices), tier, *_when(variant.constraint))


def _tier(variant: PriceVariant) -> str:
    match variant.when:
        case {"processing": "batch", **others} if not others:
            return BATCH_TIER
        case {"speed": name, **others} | {"service_tier": name, **others} if not others:
            return tier_named(name)
        case _:
            return DEFAULT_TIER


def _when(
    constraint: StartDateConstraint | TimeOfDateConstraint | None,
) -> tuple[int, Hours | None]:
    match constraint:
        case StartDateConstraint(start_date=date):
            days = date - dt.date(1970, 1, 1)
            return days.days * DAY_MS, None
        case TimeOfDateConstraint(start_time=begin, end_time=end):
            return 0, Hours(_since_midnight_ms(begin), _since_midnight_ms(end))
        case _:
            return 0, None


def _since_midnight_ms(time: dt.time) -> int:
    since = dt.timedelta(hours=time.hour, minutes=time.minute, seconds=time.second) - (
        time.utcoffset() or dt.timedelta()
    )
    return round(since / dt.timedelta(milliseconds=1)) % DAY_MS


def _rates(prices: ModelPrice) -> Rates:
    by_class: dict[TokenClass, Rate] = {}
    for key, token_class in _CLASSES.items():
        value = prices.__dict__.get(key)
        if value is not None:
            by_class[token_class] = _rate(value)
    fee = prices.__dict__.get("requests_kcount") or Decimal(0)
    return Rates(MappingProxyType(by_class), round(fee * PICOUSD_PER_USD / 1000))


def _rate(value: Decimal | TieredPrices) -> Rate:
    if isinstance(value, TieredPrices):
        steps = ((tier.start, _picousd(tier.price)) for tier in value.tiers)
        return Rate(_picousd(value.base), tuple(steps))
    return Rate(_picousd(value))


def _picousd(usd_per_million: Decimal) -> int:
    return picousd_per_token(usd_per_million / TOKENS_PER_MILLION)


def _with_sound(lists: list[PriceList]) -> list[PriceList]:
    """Return *lists* with the price of text for sound, if none has one for it."""
    if any(TokenClass.AUDIO_INPUT in prices.rates.by_class for prices in lists):
        return lists
    return [_hearing(prices) for prices in lists]


def _hearing(prices: PriceList) -> PriceList:
    by_class = dict(prices.rates.by_class)
    if TokenClass.INPUT in by_class:
        by_class[TokenClass.AUDIO_INPUT] = by_class[TokenClass.INPUT]
    rates = Rates(MappingProxyType(by_class), prices.rates.request_picousd)
    return PriceList(rates, prices.tier, prices.since_ms, prices.hours)
