"""
A model's entry in a price file, in litellm's form.

Beside litellm's prices it may have `since` (``"2026-12-01"``, UTC), and `base_model`:
the model whose prices it has, for a deployment of one's own naming. Everything else
is for others and is passed over.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from tokenweir.config.prices.fields import REQUEST_FEE, PriceField, read_field
from tokenweir.core.price import (
    DAY_MS,
    DEFAULT_TIER,
    LIKE,
    PICOUSD_PER_USD,
    PriceList,
    Rate,
    Rates,
    TokenClass,
    picousd_per_token,
)

BASE_MODEL = "base_model"
_SINCE = "since"
_BY_LENGTH = "tiered_pricing"
_MAX_REQUEST_USD = 100
_LONGEST = 10**9


@dataclass(slots=True)
class Entry:
    """
    What was read.

    Attributes:
        lists: One for each tier; none if nothing of it is a price of tokens.
        problems: ``(field, text)``; what is named there was left out.
    """

    lists: list[PriceList] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)


def read_entry(content: Mapping[str, object]) -> Entry:
    """Return the prices in *content*, whose numbers are `Decimal`. Never raises."""
    entry = Entry()
    since_ms = _since_ms(content, entry)
    fee = _request_fee(content, entry)
    prices = dict(_prices(content, entry))
    if _is_placeholder(prices, content):
        return entry
    by_tier: dict[str, dict[TokenClass, dict[int, int]]] = {DEFAULT_TIER: {}}
    for name, picousd in prices.items():
        classes = by_tier.setdefault(name.tier, {})
        classes.setdefault(name.token_class, {})[name.above] = picousd
    for tier, classes in by_tier.items():
        rates = {name: _rate(steps) for name, steps in classes.items()}
        if tier == DEFAULT_TIER:
            rates = _without_echoes(rates)
        if rates:
            listed = Rates(MappingProxyType(rates), fee)
            entry.lists.append(PriceList(listed, tier, since_ms))
    return entry


def _prices(
    content: Mapping[str, object], entry: Entry
) -> Iterator[tuple[PriceField, int]]:
    # litellm's other form for prices by length: a list of ranges.
    ranges = content.get(_BY_LENGTH)
    for part in ranges if isinstance(ranges, list) else []:
        match part:
            case {"range": [Decimal() as begin, _], **members} if (
                0 <= begin <= _LONGEST
            ):
                yield from _priced(members, entry, int(begin))
            case _:
                pass  # by the number of results, and the like
    yield from _priced(content, entry)


def _priced(
    members: Mapping[Any, object], entry: Entry, above: int = 0
) -> Iterator[tuple[PriceField, int]]:
    for name, value in members.items():
        price = read_field(name)
        # null is how some write that there is none.
        if price is None or value is None:
            continue
        try:
            yield replace(price, above=price.above or above), _picousd(value)
        except ValueError as error:
            entry.problems.append((name, str(error)))


def _rate(steps: Mapping[int, int]) -> Rate:
    """Return the price by length; none for short inputs: as for the next longer ones."""
    base = steps[min(steps)]
    return Rate(base, tuple(sorted((n, usd) for n, usd in steps.items() if n)))


def _without_echoes(rates: dict[TokenClass, Rate]) -> dict[TokenClass, Rate]:
    """
    Leave prices out that are those of the class which theirs follows anyway.

    litellm's table repeats the price of output for reasoning, but not for each tier:
    there it would seem to have the default tier's.
    """
    return {
        name: rate
        for name, rate in rates.items()
        if name not in LIKE or rate != rates.get(LIKE[name])
    }


def _is_placeholder(
    prices: Mapping[PriceField, int], content: Mapping[str, object]
) -> bool:
    """
    Tell if zeros mean "not by tokens".

    So they do in litellm's table where there is another price: of seconds, of images.
    """
    return not any(prices.values()) and any(
        isinstance(value, Decimal) and value > 0
        for name, value in content.items()
        if "_cost_per_" in name and name != REQUEST_FEE
    )


def _picousd(value: object) -> int:
    if not isinstance(value, Decimal):
        raise ValueError("must be a number")  # noqa: TRY004 -- a problem like others
    return picousd_per_token(value)


def _request_fee(content: Mapping[str, object], entry: Entry) -> int:
    value = content.get(REQUEST_FEE)
    if value is None:
        return 0
    if isinstance(value, Decimal) and 0 <= value <= _MAX_REQUEST_USD:
        return round(value * PICOUSD_PER_USD)
    entry.problems.append((REQUEST_FEE, f"must be from 0 to {_MAX_REQUEST_USD} USD"))
    return 0


def _since_ms(content: Mapping[str, object], entry: Entry) -> int:
    value = content.get(_SINCE)
    if value is None:
        return 0
    try:
        date = dt.date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        entry.problems.append((_SINCE, "must be a date such as 2026-12-01"))
        return 0
    return max(0, (date - dt.date(1970, 1, 1)).days * DAY_MS)
