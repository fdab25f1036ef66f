"""
Which budgets an exchange was charged to, told from what was written about it.

A record names who asked whom for what, not the limits that were held against it. Under
a policy these follow, by the same rules as in `tokenweir.core.admission`, but for one
thing: of an exchange that was downgraded it is not written which of the budgets were
spent. A budget that was spent counts the cheaper model's tokens in the name of the model
that was asked for; one that was not counts them in the cheaper model's own name, if it
is for that at all. Where both come to the same there is nothing to doubt, nor where only
one budget can have sent the exchange down. Everywhere else a charge is told as doubtful.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tokenweir.core.hold import Limit
from tokenweir.core.holding import key_of
from tokenweir.core.name_pattern import matches
from tokenweir.core.partition import shared_tag_of, tag_of
from tokenweir.core.policy import OnExceeded, Policy, Quota

# What is written in place of what a request does not name.
NOBODY = "-"


@dataclass(frozen=True, slots=True)
class Spender:
    """
    Who asked whom for what, as records and sums have it.

    Attributes:
        tenant: Who pays.
        key: Id of the API key.
        user: Code of the end user; ``""``: none was named; None: no longer known.
        route: See `tokenweir.core.hold.Subject`.
        model: Which answered, as the policy calls it.
        provider: Who runs it.
        downgraded_from: The model that was asked for; ``""``: the same; None: another
            one for some or all of the exchanges, which is not known.
    """

    tenant: str
    key: str
    user: str | None
    route: str
    model: str
    provider: str
    downgraded_from: str | None = ""


@dataclass(frozen=True, slots=True)
class Charge:
    """
    A budget that counts an exchange.

    Attributes:
        quota: The budget.
        partition: Whose; None: it can't be told.
        is_certain: Whether it counts it at all.
    """

    quota: Quota
    partition: str | None
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class Account:
    """Where a budget's counter is: its tag, and its limit's key under that."""

    tag: str
    key: str


def account(quota: Quota, partition: str, tenant: str) -> Account:
    """Return where the counter of *quota* for *partition*, the *tenant*'s, is."""
    limit = Limit(quota.id, quota.axis, partition, 0, quota.capacity)
    is_own = "tenant" in quota.partition
    tag = tag_of(tenant) if is_own else shared_tag_of(quota.id, partition)
    return Account(tag, key_of(limit))


def charges(
    policy: Policy, budgets: Iterable[Quota], spender: Spender
) -> tuple[Charge, ...]:
    """
    Return which of *budgets* count what *spender* used.

    Args:
        policy: Tells what names of models mean.
        budgets: Those of the caller: quotas on budget axes.
        spender: Who asked whom for what.
    """
    budgets = tuple(budgets)
    found: list[Charge] = []
    for quota in budgets:
        if not quota.routes or spender.route in quota.routes:
            found += _charges(policy, quota, budgets, spender)
    return tuple(found)


def _charges(
    policy: Policy, quota: Quota, budgets: Iterable[Quota], spender: Spender
) -> list[Charge]:
    is_for_answer = _is_for(quota, spender.model)
    plain = _partition(quota, _values(policy, spender, spender.model))
    spent = _partition(quota, _values(policy, spender, spender.downgraded_from))
    if not _can_be_spent(quota, budgets, spender) or (is_for_answer and plain == spent):
        return [Charge(quota, plain)] if is_for_answer else []
    if _must_be_spent(quota, budgets, spender):
        return [Charge(quota, spent)]
    doubtful = [Charge(quota, spent, is_certain=False)]
    if is_for_answer:
        doubtful.append(Charge(quota, plain, is_certain=False))
    return doubtful


def _can_be_spent(quota: Quota, budgets: Iterable[Quota], spender: Spender) -> bool:
    """Tell if *quota* may have been one that an exchange was downgraded for."""
    if not _yields(quota) or spender.downgraded_from == "":
        return False
    if spender.downgraded_from is None or not quota.models:
        return True
    chains = (each.budget.downgrade_to for each in budgets if each.budget)
    tried = {spender.downgraded_from, *(model for chain in chains for model in chain)}
    return any(matches(model, quota.models) for model in tried)


def _must_be_spent(quota: Quota, budgets: Iterable[Quota], spender: Spender) -> bool:
    """Tell if no other than *quota* can have changed the model that was asked for."""
    asked = spender.downgraded_from
    return asked is not None and [quota] == [
        each
        for each in budgets
        if each.budget is not None
        and each.budget.on_exceeded is OnExceeded.DOWNGRADE
        and _is_for(each, asked)
        and (not each.routes or spender.route in each.routes)
    ]


def _yields(quota: Quota) -> bool:
    budget = quota.budget
    return budget is not None and budget.on_exceeded is not OnExceeded.BLOCK


def _is_for(quota: Quota, model: str) -> bool:
    return not quota.models or matches(model, quota.models)


def _values(
    policy: Policy, spender: Spender, name: str | None
) -> Mapping[str, str | None]:
    """Return the values of a partition's keys, for a model of that *name*."""
    model = policy.model(name) if name else None
    user = spender.user
    return {
        "tenant": spender.tenant,
        "key": spender.key,
        "user": NOBODY if user == "" else user,
        "route": spender.route,
        "model": model.name if model else NOBODY if name == "" else name,
        "provider": spender.provider,
    }


def _partition(quota: Quota, values: Mapping[str, str | None]) -> str | None:
    parts = [values[key] for key in quota.partition]
    if None in parts:
        return None
    return ",".join(
        f"{key}={part}" for key, part in zip(quota.partition, parts, strict=True)
    )
