"""
Quotas that can't have any effect, whatever is called.

A limit that never applies looks exactly like one that is never reached, until the bill
comes. The reasons are a closed list: `tokenweir check` and a metric name them. Quotas in
shadow mode are looked at as well: one that can't refuse when enforced proves nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tokenweir.config.matching import Held, Matching, dialects
from tokenweir.config.money_effect import all_free, all_unpriced
from tokenweir.config.outdone import outdone_by
from tokenweir.config.reach import out_of_reach
from tokenweir.config.slip import Slips
from tokenweir.core.policy import Axis, OnExceeded, Policy, Quota


class Why(enum.StrEnum):
    """Why a quota has no effect."""

    NEVER_MATCHES = "never_matches"  # its names and routes exclude each other
    MISSPELT = "misspelt"  # its models are probably slips
    NO_KEYS = "no_keys"  # nobody can call as any of its tenants
    KEYS_MAY_NOT = "keys_may_not"  # no key may call what it is for
    OUTDONE = "outdone"  # another quota refuses first
    OUT_OF_REACH = "out_of_reach"  # so much can't come
    UNPRICED = "unpriced"  # a budget of money for what has no price
    FREE = "free"  # a budget of money for what costs nothing


# Nothing ever comes that such a quota applies to.
MATCH_NOTHING = frozenset({Why.NEVER_MATCHES, Why.NO_KEYS, Why.KEYS_MAY_NOT})


@dataclass(frozen=True, slots=True)
class Ineffective:
    """The *quota* has no effect: *why*, and the same in words, with what helps."""

    quota: Quota
    why: Why
    text: str


_Found = tuple[Why, str]


def ineffective(policy: Policy, *, prices: bool = True) -> Iterator[Ineffective]:
    """
    Yield each quota that has no effect, by the first reason for it.

    *policy* has the keys that work only, see `matching.without_ended_keys`. Where every
    caller is one tenant, quotas of others are left out: nobody relies on them. Set
    *prices* to false if files of prices were not looked up.
    """
    search = _Search(policy, prices=prices)
    for held in search.matching.quotas():
        if policy.single_tenant is not None and not held.scopes:
            continue
        found = search.reason(held)
        if found is not None:
            yield Ineffective(held.quota, *found)


class _Search:
    """Looks for reasons, in one *policy*."""

    def __init__(self, policy: Policy, *, prices: bool) -> None:
        self.matching = Matching(policy)
        self._pricing = policy.pricing if prices else None
        self._slips = Slips(policy)

    def reason(self, held: Held) -> _Found | None:
        """Return the first reason for which what is *held* has no effect, or None."""
        return (
            self._mismatch(held)
            or self._misspelt(held.quota)
            or self._outdone(held)
            or self._out_of_reach(held)
            or self._without_cost(held)
        )

    def _mismatch(self, held: Held) -> _Found | None:
        quota, matching = held.quota, self.matching
        if not matching.can_match(quota, held.widest):
            text = f"can never match, so it limits nothing: {self._excluded(held)}"
            return Why.NEVER_MATCHES, text
        if not held.scopes:
            text = "limits nobody, as none of its tenants has a key: issue one"
            return Why.NO_KEYS, text
        if not matching.can_match(quota, held.scopes):
            text = (
                "is for what none of its tenants' keys may call, so it limits nothing: "
                "widen a key's `models` or `routes`, or remove it"
            )
            return Why.KEYS_MAY_NOT, text
        return None

    def _excluded(self, held: Held) -> str:
        """Return what keeps a quota from ever matching."""
        quota = held.quota
        if not self.matching.names_meet(quota, held.widest):
            return (
                f"nobody who has it may call {_listed(quota.models)}. Name models that "
                "they may"
            )
        if not any(dialects(quota.axis, quota.routes)):
            return (
                f"no request on {_listed(quota.routes)} has what it counts, or passes. "
                "Change its `routes`"
            )
        return (
            f"no model that it is for is called by {_listed(quota.routes)}. Change its "
            "`routes` or its `models`"
        )

    def _misspelt(self, quota: Quota) -> _Found | None:
        meant = [self._slips.meant(name) for name in quota.models]
        if not meant or None in meant:
            return None
        names = " or ".join(name for name in meant if name is not None)
        text = (
            f"is for {_listed(quota.models)}, which only a family of names stands for "
            f"and nobody knows: did you mean {names}? If it is right, give it an entry "
            "in `models`"
        )
        return Why.MISSPELT, text

    def _outdone(self, held: Held) -> _Found | None:
        other = outdone_by(held.quota, held.tenants)
        if other is None:
            return None
        budget = held.quota.budget
        if budget is not None and budget.on_exceeded is not OnExceeded.BLOCK:
            does = f"is never spent: {other.id} blocks first"
        else:
            does = f"never decides: {other.id} refuses whatever it would"
        return Why.OUTDONE, f"{does}. Lower it, raise that, or remove it"

    def _out_of_reach(self, held: Held) -> _Found | None:
        models = self.matching.models(held.quota, held.scopes)
        why = out_of_reach(held.quota, held.tenants, models)
        if why is None:
            return None
        return Why.OUT_OF_REACH, f"is out of reach: {why}. Lower it, or remove it"

    def _without_cost(self, held: Held) -> _Found | None:
        quota = held.quota
        if quota.axis is not Axis.BUDGET_USD or self._pricing is None:
            return None
        models = tuple(self.matching.models(quota, held.scopes))
        if all_unpriced(models, self._pricing):
            follows = "counts nothing" if quota.shadow else "refuses them all"
            text = (
                f"is a budget in USD for models that have no price, so it {follows}: "
                "give them one in an overlay, or set `prices.ceiling`"
            )
            return Why.UNPRICED, text
        if all_free(models, self._pricing):
            text = (
                "is a budget in USD for models that cost nothing, so it is never spent: "
                "limit tokens or requests, or give them a price in an overlay"
            )
            return Why.FREE, text
        return None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
