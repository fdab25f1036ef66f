"""Budgets and whoever spends them, for tests of what is reckoned."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from tests.examples import policy as example
from tokenweir.core.charges import Spender
from tokenweir.core.policy import (
    ApiKey,
    Axis,
    Budget,
    Model,
    OnExceeded,
    Policy,
    Quota,
    Tenant,
)
from tokenweir.core.window import Calendar, Per

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SPENDER = Spender("acme", "ci", "", "chat_completions", "gpt-4o", "openai")


def budget(
    name: str,
    axis: Axis = Axis.BUDGET_USD,
    *,
    partition: tuple[str, ...] = ("tenant",),
    models: tuple[str, ...] = (),
    routes: tuple[str, ...] = (),
    calendar: Calendar = Calendar(Per.DAY, UTC),  # noqa: B008 -- frozen
    downgrade_to: tuple[str, ...] = (),
    throttle: bool = False,
) -> Quota:
    """A budget of 1,000 a day."""
    on_exceeded = OnExceeded.BLOCK
    if downgrade_to:
        on_exceeded = OnExceeded.DOWNGRADE
    elif throttle:
        on_exceeded = OnExceeded.THROTTLE
    rule = Budget(calendar, on_exceeded, downgrade_to)
    return Quota(
        name,
        axis,
        0,
        1_000,
        partition,
        models=models,
        routes=routes,
        budget=rule,
    )


DAY = budget("acme.day")
SHARED = budget("*.day_by_provider", partition=("provider",))


def policy(*quotas: Quota) -> Policy:
    """A policy whose one tenant has *quotas*."""
    models = (Model("gpt-4o", "openai"), Model("mini", "openai"))
    return replace(
        example(),
        models={model.name: model for model in models},
        model_families=(Model("gpt-*", "openai"),),
        tenants={"acme": Tenant("acme", quotas)},
        keys={"0": ApiKey("ci", "acme")},
    )
