"""
What a cheaper model and a lower cap have saved.

A downgrade has saved what the model that was asked for would have cost for the same
tokens, without what was paid. What a cap has saved nobody can know: the answer that was
not written. If it ended at the cap, it is at the most what was left of the app's own
cap; where the app had none, of what is reserved without one.

What has no price has saved nothing that could be told.
"""

from __future__ import annotations

from dataclasses import replace

from tokenweir.core.budget import affordable
from tokenweir.core.cost import Served, cost_nanousd
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.price import tier_named
from tokenweir.core.pricing import Answered, Pricing
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import TokenUsage


def saved_by_downgrade(
    ticket: Ticket, pricing: Pricing, usage: TokenUsage, tier: str | None
) -> int:
    """
    Return what *usage* would have cost with the model that the app asked for.

    0: it is the one that answered, or nobody knows. *tier* is the response's.
    """
    if ticket.instead_of is None:
        return 0
    # Not the ceiling: it is for charging what is not known, and no reason for praise.
    price = pricing.prices.find(*ticket.instead_of)
    if price is None:
        return 0
    served = Served(ticket.started_ms, tier_named(tier), marginal=pricing.marginal)
    cost = cost_nanousd(usage, price, served)
    return affordable(cost) if isinstance(cost, int) else 0


def saved_by_cap(
    ticket: Ticket,
    facts: ResponseFacts,
    pricing: Pricing,
    usage: TokenUsage,
    answered: Answered,
) -> int:
    """Return what the tokens beyond the policy's cap would have cost at the most."""
    unwritten = _unwritten_tokens(ticket, facts)
    if not unwritten:
        return 0
    more = replace(usage, output_tokens=usage.output_tokens + unwritten)
    with_more, _ = pricing.cost(more, answered)
    without, has_price = pricing.cost(usage, answered)
    return max(0, with_more - without) if has_price else 0


def reached_cap(ticket: Ticket, facts: ResponseFacts) -> bool:
    """Tell if an answer ended because it had reached the policy's cap."""
    return bool(ticket.hold.subject.output_cap) and facts.at_cap > 0


def _unwritten_tokens(ticket: Ticket, facts: ResponseFacts) -> int:
    if not reached_cap(ticket, facts) or ticket.output_cap is None:
        return 0
    left = ticket.expected_tokens - ticket.output_cap // ticket.choices
    # Some servers say twice why a choice ended.
    return max(0, left) * min(facts.at_cap, ticket.choices)
