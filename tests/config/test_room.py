"""A quota that can't hold the longest answer of a model is told."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from tokenweir.config.room import Room
from tokenweir.core.budget import NANOUSD_PER_USD
from tokenweir.core.cap import Cap
from tokenweir.core.policy import Axis, Budget, Model, Policy, Quota, Tenant
from tokenweir.core.price import ModelPrice, flat_price
from tokenweir.core.pricing import NO_PRICING, Pricing
from tokenweir.core.window import Calendar, Per

DAY = Budget(Calendar(Per.DAY, UTC))
LONG = Model("long", "o", max_output_tokens=1_000, maximum_is_known=True)
SHORT = Model("short", "o", max_output_tokens=10, maximum_is_known=True)
UNKNOWN = Model("unknown", "o", max_output_tokens=10**6)
# A dollar for each token.
DEAR = Pricing(ceiling=flat_price("any", "test", (1, 10**12)))


def quota(axis: Axis, most: int, **fields: Any) -> Quota:
    """Return a limit of *most*."""
    return Quota("q", axis, most, most, **fields)


def told(
    limit: Quota,
    *models: Model,
    pricing: Pricing = DEAR,
    prices: bool = True,
    caps: tuple[Cap, ...] = (),
) -> list[str]:
    """Return what is said of it, where tenant t has it."""
    parts = ("providers", "models", "tenants", "keys")
    nothing: dict[str, Any] = {part: {} for part in parts}
    policy = Policy("d", **nothing, model_families=(), pricing=pricing, caps=caps)
    return list(Room(policy, prices=prices).too_small(limit, [Tenant("t")], models))


@pytest.mark.parametrize("axis", [Axis.TOKENS, Axis.OUTPUT_TOKENS])
def test_tokens(axis: Axis) -> None:
    """The longest answer that the policy knows of counts."""
    assert told(quota(axis, 999), SHORT, LONG, UNKNOWN) == [
        (
            "has room for 999 tokens, and an answer of long may take 1,000 tokens: "
            "requests that ask for more than fits are refused for good. Raise it, or cap "
            "what apps may ask for (`caps`)"
        )
    ]
    assert told(quota(axis, 1_000), SHORT, LONG, UNKNOWN) == []
    assert told(quota(axis, 1), UNKNOWN) == []
    assert told(quota(axis, 1)) == []


def test_money() -> None:
    """What so many tokens cost is compared with the budget, where that is known."""
    budget = quota(Axis.BUDGET_USD, 999 * NANOUSD_PER_USD, budget=DAY)
    without = Pricing(ceiling=ModelPrice("any", "test", ()))

    assert (
        "room for $999.00, and an answer of long may take $1,000.00"
        in (told(budget, SHORT, LONG)[0])
    )
    assert told(budget, SHORT) == []
    for pricing in (NO_PRICING, without):
        assert told(budget, LONG, pricing=pricing) == []
    assert told(budget, LONG, prices=False) == []


def test_what_a_budget_lets_pass_at_most() -> None:
    """Up to a hard limit calls go on."""
    hard = Budget(Calendar(Per.DAY, UTC), hard_limit=1_000)

    assert told(quota(Axis.BUDGET_TOKENS, 1, budget=hard), LONG) == []
    assert len(told(quota(Axis.BUDGET_TOKENS, 1, budget=DAY), LONG)) == 1


@pytest.mark.parametrize("axis", [Axis.REQUESTS, Axis.CONCURRENCY, Axis.INPUT_TOKENS])
def test_what_counts_no_output(axis: Axis) -> None:
    """An answer takes nothing of it."""
    assert told(quota(axis, 1), LONG) == []


def test_shadow_mode() -> None:
    """It refuses nobody."""
    assert told(quota(Axis.TOKENS, 1, shadow=True), LONG) == []


@pytest.mark.parametrize(
    ("cap", "fits"),
    [
        (Cap(999, 1), True),
        (Cap(1_001, 1), False),
        (Cap(None, 1), False),
        (Cap(999, 1, models=("lo*",)), True),
        (Cap(999, 1, models=("other",)), False),
        (Cap(999, 1, tenants=("t", "u")), True),
        (Cap(999, 1, tenants=("u",)), False),
        (Cap(999, 1, routes=("messages",)), False),
    ],
)
def test_caps(cap: Cap, fits: bool) -> None:
    """What a cap lowers for all is not asked for."""
    assert (told(quota(Axis.TOKENS, 999), LONG, caps=(cap,)) == []) is fits


def test_caps_of_a_route() -> None:
    """They count for a quota of that route."""
    cap = Cap(999, 1, routes=("messages",))

    assert told(quota(Axis.TOKENS, 999, routes=("messages",)), LONG, caps=(cap,)) == []
