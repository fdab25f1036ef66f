"""What the fields of one quota say about each other, as far as budgets are concerned."""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.config.budget_entry import AnchorEntry, OnExceededEntry
from tokenweir.config.problem import Problem
from tokenweir.config.schema import QuotaEntry

_ONLY_BUDGETS_HAVE = ("per", "time_zone", "anchor", "on_exceeded", "alerts")


def misfits(entry: QuotaEntry) -> Iterator[Problem]:
    """Yield what does not fit together in *entry*, with paths inside of it."""
    unit = budget_unit(entry)
    if unit is None:
        for name in _ONLY_BUDGETS_HAVE:
            if getattr(entry, name) is not None:
                text = "only goes with budget_usd or budget_tokens: remove it"
                yield Problem((name,), text)
        return
    if entry.per is None:
        text = "is missing: say `hour`, `day`, `week` or `month`"
        yield Problem(("per",), text)
    elif entry.anchor is not None:
        yield from _anchor(entry.anchor, entry.per)
    if entry.on_exceeded is not None:
        amount = entry.budget_usd or entry.budget_tokens or 0
        yield from _on_exceeded(entry.on_exceeded, unit, amount)


def budget_unit(entry: QuotaEntry) -> str | None:
    """Return what the budget *entry* is in, ``"usd"`` or ``"tokens"``; None: no budget."""
    if entry.budget_usd is not None:
        return "usd"
    return "tokens" if entry.budget_tokens is not None else None


def _anchor(anchor: AnchorEntry, per: str) -> Iterator[Problem]:
    if anchor.weekday is not None and per != "week":
        yield Problem(("anchor", "weekday"), "only goes with `per: week`")
    if anchor.day is not None and per != "month":
        yield Problem(("anchor", "day"), "only goes with `per: month`")
    if "hour" in anchor.model_fields_set and per == "hour":
        yield Problem(("anchor", "hour"), "does not go with `per: hour`")


def _on_exceeded(entry: OnExceededEntry, unit: str, amount: int) -> Iterator[Problem]:
    place = "on_exceeded"
    if entry.downgrade_to and entry.throttle_percent:
        text = "does not go with `downgrade_to`: a budget does one or the other"
        yield Problem((place, "throttle_percent"), text)
    other = "tokens" if unit == "usd" else "usd"
    if getattr(entry, f"hard_limit_{other}") is not None:
        text = f"is not what the budget is in: say `hard_limit_{unit}`"
        yield Problem((place, f"hard_limit_{other}"), text)
    name = f"hard_limit_{unit}"
    limit = getattr(entry, name)
    if limit is None:
        return
    if not entry.downgrade_to and not entry.throttle_percent:
        text = "has no effect: without `downgrade_to` or `throttle_percent` it blocks"
        yield Problem((place, name), f"{text} at `budget_{unit}` already")
    elif limit <= amount:
        yield Problem((place, name), f"must be above `budget_{unit}`")
