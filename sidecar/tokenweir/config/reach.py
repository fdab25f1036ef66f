"""
Limits above anything that can come: another one keeps what is counted below them.

A limit of output is out of reach if as many requests as may come can't generate so much,
each at its model's maximum. A budget of tokens is out of reach if its window is over
before a limit per minute has let as many pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tokenweir.config.outdone import covers
from tokenweir.core.policy import Axis, Model, Quota, Tenant
from tokenweir.core.window import Per

# The longest that such a window can be, by far: clocks are put back.
_MINUTES = {
    Per.HOUR: 2 * 60,
    Per.DAY: 2 * 24 * 60,
    Per.WEEK: 8 * 24 * 60,
    Per.MONTH: 32 * 24 * 60,
}


def out_of_reach(
    quota: Quota, tenants: Sequence[Tenant], models: Iterable[Model]
) -> str | None:
    """
    Return why *quota* of all *tenants* can't be reached, if so.

    *models* are those that it is for.
    """
    if quota.axis is Axis.OUTPUT_TOKENS:
        return _by_requests(quota, tenants, tuple(models))
    if quota.axis is Axis.BUDGET_TOKENS:
        return _by_rate(quota, tenants)
    return None


def _by_requests(
    quota: Quota, tenants: Sequence[Tenant], models: Sequence[Model]
) -> str | None:
    if not models or not all(model.maximum_is_known for model in models):
        return None
    most = max(model.max_output_tokens for model in models)
    for other in _around(quota, tenants, Axis.REQUESTS):
        if other.rate * most < quota.rate and other.capacity * most < quota.capacity:
            # With several choices a request can; who asks for those is rare.
            return (
                f"{other.id} lets {other.rate:,} requests a minute pass, of at most "
                f"{most:,} output tokens (`max_output_tokens`) for each choice"
            )
    return None


def _by_rate(quota: Quota, tenants: Sequence[Tenant]) -> str | None:
    assert quota.budget is not None
    minutes = _MINUTES[quota.budget.calendar.per]
    for other in _around(quota, tenants, Axis.TOKENS):
        if other.rate * minutes + other.capacity < quota.capacity:
            return (
                f"{other.id} lets {other.rate:,} tokens a minute pass, which is less in "
                "its whole window"
            )
    return None


def _around(quota: Quota, tenants: Sequence[Tenant], axis: Axis) -> Iterator[Quota]:
    """Yield enforced limits of *axis* that apply wherever *quota* does."""
    for other in tenants[0].quotas:
        if (
            other.axis is axis
            and covers(other, quota)
            and all(other in tenant.quotas for tenant in tenants)
        ):
            yield other
