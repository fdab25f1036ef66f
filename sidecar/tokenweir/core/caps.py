"""
What becomes of a request's cap on its output.

A policy may lower a cap (an answer that needs 300 tokens does not run to 2,000), and
set one where the app has none. Of all caps that apply the lowest counts. What is
decided here is written into the body, or it would bind nobody.

Thinking is a part of what is capped, and the provider refuses a budget for it that is
not below the cap. So a lower cap shrinks the budget in the same proportion: what share
of its output is for the answer stays the app's choice. Below `LEAST_THINKING_TOKENS`
no provider thinks; a cap that has no room for them refuses the request, in words that
say so, instead of having the provider do it in words that do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tokenweir.core.cap import Cap
from tokenweir.core.dialects.base import ModelRequest
from tokenweir.core.hold import UNSET
from tokenweir.core.name_pattern import matches
from tokenweir.core.rejection import Malformed

# The least that Anthropic takes as a budget.
LEAST_THINKING_TOKENS = 1_024


@dataclass(frozen=True, slots=True)
class OutputCap:
    """
    The most that a choice may generate.

    Attributes:
        asked: The app's own cap, or None.
        tokens: What the provider is told, or None: nothing.
        thinking_tokens: What a budget for thinking is lowered to, or None.
        expected: What an answer without this cap would have stayed below, as far as
            anybody knows: the app's cap, else what is reserved without one.
    """

    asked: int | None = None
    tokens: int | None = None
    thinking_tokens: int | None = None
    expected: int = 0

    @property
    def is_changed(self) -> bool:
        """Whether it is not the app's."""
        return self.tokens != self.asked

    @property
    def capped_from(self) -> str:
        """What stood in its place: a number, `UNSET`, or ``""`` if it is the app's."""
        if not self.is_changed:
            return ""
        return UNSET if self.asked is None else str(self.asked)

    @property
    def written(self) -> str:
        """What was written into the body; ``""``: nothing."""
        return str(self.tokens) if self.is_changed else ""


NO_CAP = OutputCap()


def lowest(caps: Iterable[Cap], tenant: str, route: str, model: str) -> Cap:
    """Return what *caps* come to for such requests: the lowest figure of each kind."""
    applying = [cap for cap in caps if _applies(cap, tenant, route, model)]
    return Cap(
        min((cap.output_tokens for cap in applying if cap.output_tokens), default=None),
        min((cap.if_unset for cap in applying if cap.if_unset), default=None),
    )


def _applies(cap: Cap, tenant: str, route: str, model: str) -> bool:
    return (
        (not cap.tenants or tenant in cap.tenants)
        and (not cap.routes or route in cap.routes)
        and (not cap.models or matches(model, cap.models))
    )


def capped(
    request: ModelRequest, cap: Cap, maximum: int | None, expected: int
) -> OutputCap | Malformed:
    """
    Return what the cap of *request* becomes, or why it can't become that.

    Args:
        request: What the app asks for.
        cap: What the policy says, see `lowest`.
        maximum: What the model can be asked for at the most; None: not to be minded.
        expected: What is reserved without a cap.
    """
    asked = request.output_cap
    wanted = asked if asked is not None else cap.if_unset
    bounds = [wanted, cap.output_tokens]
    if asked is not None or any(bounds):
        bounds.append(maximum)
    tokens = min((bound for bound in bounds if bound is not None), default=None)
    if tokens is None or tokens == asked:
        return OutputCap(asked, tokens)
    thinking = _thinking(request, tokens)
    if thinking is not None and thinking >= tokens:
        return _no_room(tokens)
    return OutputCap(asked, tokens, thinking, expected if asked is None else asked)


def _thinking(request: ModelRequest, tokens: int) -> int | None:
    budget, asked = request.thinking_tokens, request.output_cap
    if budget is None or budget < LEAST_THINKING_TOKENS:
        return None  # what is no budget is the provider's to refuse
    if asked is None:
        lowered = tokens // 2
    elif budget < asked:
        lowered = budget * tokens // asked
    else:
        # Between calls of tools a budget may be above the cap: it is that of all turns.
        return None
    return min(budget, max(lowered, LEAST_THINKING_TOKENS))


def _no_room(tokens: int) -> Malformed:
    return Malformed(
        f"The gateway's policy lets an answer of this model have {tokens:,} tokens at "
        f"most, and thinking needs {LEAST_THINKING_TOKENS:,} of them and one more: send "
        "the request without `thinking`, or have the cap raised.",
        "thinking.budget_tokens",
    )
