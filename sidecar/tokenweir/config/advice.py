"""
What is right but probably not meant.

A limit that never applies looks exactly like one that is never reached, until the
bill comes: so whatever can't ever match is said before it is relied on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tokenweir.config.budget_advice import BudgetAdvice
from tokenweir.config.cap_advice import cap_advice
from tokenweir.config.ineffective import (
    MATCH_NOTHING,
    Ineffective,
    Why,
    ineffective,
)
from tokenweir.config.matching import Matching, without_ended_keys
from tokenweir.config.room import Room
from tokenweir.config.slip import Slips
from tokenweir.core.policy import Axis, Policy, Quota

# Quotas that are named in one line.
_MAX_NAMED = 5


def advise(
    policy: Policy, *, credentials: bool = True, issued: bool = False, now_ms: int = 0
) -> tuple[str, ...]:
    """
    Return what is worth a look, a line each, beginning with the path.

    Args:
        policy: What is looked at.
        credentials: False if they were not looked up, nor prices.
        issued: It has the keys, too, that were issued for the fleet.
        now_ms: Keys that have ended until then can't be used any more.
    """
    policy = without_ended_keys(policy, now_ms)
    vain = {found.quota.id: found for found in ineffective(policy, prices=credentials)}
    lines = [
        *_tenant_advice(policy, vain, issued=issued),
        *_quota_advice(policy, vain, prices=credentials),
        *cap_advice(policy),
    ]
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
    matching = Matching(policy)
    limited = [
        held
        for held in matching.quotas()
        if held.quota.axis is Axis.BUDGET_USD and not held.quota.shadow
    ]
    for model in policy.models.values():
        name = model.upstream_model or model.name
        if policy.pricing.price(model.provider, name) is None and any(
            matching.matches_model(held.quota, scope, model)
            for held in limited
            for scope in held.widest
        ):
            yield (
                f"models.{model.name}: has no price, so where a budget in USD applies it "
                "is refused: give it one in an overlay, or set `prices.ceiling`"
            )


def _tenant_advice(
    policy: Policy, vain: Mapping[str, Ineffective], *, issued: bool
) -> Iterator[str]:
    having_keys = {key.tenant for key in policy.keys.values()}
    for tenant in policy.tenants.values():
        if policy.single_tenant is None and tenant.name not in having_keys:
            idle = [
                quota.id
                for quota in tenant.quotas
                if quota.id in vain and vain[quota.id].why is Why.NO_KEYS
            ]
            text = "has no keys here: only one that is issued can call as it"
            if issued:
                text = "has no keys that work, here or issued: nobody can call as it"
            follows = f", so until then nobody is limited by {_named(idle)}"
            yield f"tenants.{tenant.name}: {text}{follows if idle else ''}"
        if not tenant.quotas:
            yield f"tenants.{tenant.name}: has no quota, so nothing limits it"
    if policy.single_tenant is not None and len(policy.tenants) > 1:
        yield f"single_tenant: no tenant but {policy.single_tenant} is ever used"


def _quota_advice(
    policy: Policy, vain: Mapping[str, Ineffective], *, prices: bool
) -> Iterator[str]:
    budgets, matching = BudgetAdvice(policy), Matching(policy)
    slips, room = Slips(policy), Room(policy, prices=prices)
    for held in matching.quotas():
        quota, found = held.quota, vain.get(held.quota.id)
        texts = [found.text] if found is not None and _is_news(found) else []
        if found is None or found.why not in MATCH_NOTHING - {Why.NO_KEYS}:
            models = tuple(matching.models(quota, held.widest))
            if found is None:
                texts += _slip_advice(quota, slips)
            if quota.shadow:
                texts.append("is in shadow mode, so it refuses nobody")
            texts += room.too_small(quota, held.tenants, models)
            texts += budgets.of(quota, held.tenants, models)
        yield from (f"quota {quota.id}: {text}" for text in texts)


def _is_news(found: Ineffective) -> bool:
    """Tell if nothing else says the same: of the tenant, or of models without price."""
    if found.why is Why.UNPRICED:
        return found.quota.shadow
    return found.why is not Why.NO_KEYS


def _slip_advice(quota: Quota, slips: Slips) -> Iterator[str]:
    """Tell of names that are probably misspelt, beside others that are not."""
    for name in quota.models:
        meant = slips.meant(name)
        if meant is not None:
            yield f"is for {name}, which nobody knows: did you mean {meant}?"


def _named(quotas: Sequence[str]) -> str:
    text = ", ".join(quotas[:_MAX_NAMED])
    more = len(quotas) - _MAX_NAMED
    return f"{text} and {more} more" if more > 0 else text
