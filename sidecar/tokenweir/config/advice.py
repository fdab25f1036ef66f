"""
What is right but probably not meant.

A limit that never applies looks exactly like one that is never reached, until the
bill comes: so whatever can't ever match is said before it is relied on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tokenweir.config.budget_advice import BudgetAdvice
from tokenweir.config.cap_advice import cap_advice
from tokenweir.config.name_pattern import any_overlap
from tokenweir.core.dialects import by_route, default_dialect
from tokenweir.core.identify import TOKEN_FREE_PATHS
from tokenweir.core.policy import Axis, Model, Policy, Quota, Tenant

# What the body of a request on these routes holds is not read: no model is known.
_UNREAD_ROUTES = frozenset({"models", "opaque", "other"})

# What names a model and costs no tokens: its dialect, by route.
_TOKEN_FREE = {
    route: default_dialect(path, ()).name for path, route in TOKEN_FREE_PATHS.items()
}

_UNREAD_AXES = frozenset({Axis.REQUESTS, Axis.CONCURRENCY})


def advise(policy: Policy, *, credentials: bool = True) -> tuple[str, ...]:
    """
    Return what is worth a look, a line each, beginning with the path.

    Set *credentials* to false if they were not looked up, nor prices.
    """
    lines = [*_tenant_advice(policy), *_quota_advice(policy), *cap_advice(policy)]
    if credentials:
        lines += _price_advice(policy)
    if credentials and policy.single_tenant is None:
        lines += _provider_advice(policy)
    return tuple(lines)


def _provider_advice(policy: Policy) -> Iterator[str]:
    for provider in policy.providers.values():
        if provider.credential is None:
            yield (
                f"providers.{provider.name}: has no credential, so the key that an app "
                "sends to Tokenweir is passed on to it"
            )


def _price_advice(policy: Policy) -> Iterator[str]:
    """Tell of models that budgets refuse. Of families, what is called is not known."""
    limited = [
        (quota, tenant)
        for quota, tenants in _quotas(policy)
        if quota.axis is Axis.BUDGET_USD and not quota.shadow
        for tenant in tenants
    ]
    for model in policy.models.values():
        name = model.upstream_model or model.name
        if policy.pricing.price(model.provider, name) is None and any(
            _matches_model(quota, tenant, model, policy) for quota, tenant in limited
        ):
            yield (
                f"models.{model.name}: has no price, so where a budget in USD applies it "
                "is refused: give it one in an overlay, or set `prices.ceiling`"
            )


def _tenant_advice(policy: Policy) -> Iterator[str]:
    having_keys = {key.tenant for key in policy.keys.values()}
    for tenant in policy.tenants.values():
        if policy.single_tenant is None and tenant.name not in having_keys:
            yield f"tenants.{tenant.name}: has no keys here: only one that is issued can call as it"
        if not tenant.quotas:
            yield f"tenants.{tenant.name}: has no quota, so nothing limits it"
    if policy.single_tenant is not None and len(policy.tenants) > 1:
        yield f"single_tenant: no tenant but {policy.single_tenant} is ever used"


def _quota_advice(policy: Policy) -> Iterator[str]:
    budgets = BudgetAdvice(policy)
    for quota, tenants in _quotas(policy):
        models = _matched(quota, tenants, policy)
        if not _matches_unread(quota, policy) and next(models, None) is None:
            yield f"quota {quota.id}: can never match, so it limits nothing"
            continue
        if quota.shadow:
            yield f"quota {quota.id}: is in shadow mode, so it refuses nobody"
        if quota.budget is not None:
            every = tuple(_matched(quota, tenants, policy))
            for text in budgets.of(quota, tenants, every):
                yield f"quota {quota.id}: {text}"


def _quotas(policy: Policy) -> Iterator[tuple[Quota, list[Tenant]]]:
    """Yield each quota once, with the tenants (or the one key's bearer) that have it."""
    having: dict[str, tuple[Quota, list[Tenant]]] = {}
    for tenant in policy.tenants.values():
        for quota in tenant.quotas:
            having.setdefault(quota.id, (quota, []))[1].append(tenant)
    yield from having.values()
    for key in policy.keys.values():
        tenant = policy.tenants[key.tenant]
        models = key.models or tenant.models
        bearer = replace(tenant, models=models, quotas=key.quotas + tenant.quotas)
        yield from ((quota, [bearer]) for quota in key.quotas)


def _matched(
    quota: Quota, tenants: Iterable[Tenant], policy: Policy
) -> Iterator[Model]:
    """Yield the models that some of *tenants* may call under *quota*."""
    for model in (*policy.models.values(), *policy.model_families):
        if any(_matches_model(quota, tenant, model, policy) for tenant in tenants):
            yield model


def _matches_unread(quota: Quota, policy: Policy) -> bool:
    """Tell if *quota* applies to some request whose body is not read."""
    if quota.axis not in _UNREAD_AXES or (quota.models and "*" not in quota.models):
        return False
    routes = _UNREAD_ROUTES.intersection(quota.routes or _UNREAD_ROUTES)
    opaque = any(provider.opaque_paths for provider in policy.providers.values())
    return bool(routes if opaque else routes - {"opaque"})


def _matches_model(quota: Quota, tenant: Tenant, model: Model, policy: Policy) -> bool:
    """Tell if *quota* applies to some request of *tenant* for *model*."""
    named = [names for names in (quota.models, tenant.models) if names]
    dialect = policy.providers[model.provider].dialect
    return (
        all(any_overlap(names, [model.name]) for names in named)
        and all(any_overlap(names, named[0]) for names in named[1:])
        and (not quota.routes or dialect in _dialects(quota))
    )


def _dialects(quota: Quota) -> Iterator[str]:
    """Yield the dialects of the quota's routes, as far as it limits anything there."""
    for route in quota.routes:
        if route not in _TOKEN_FREE and route not in _UNREAD_ROUTES:
            yield by_route(route).name
        elif route in _TOKEN_FREE and quota.axis in _UNREAD_AXES:
            yield _TOKEN_FREE[route]
