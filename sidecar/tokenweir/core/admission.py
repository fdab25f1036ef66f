"""
What a request would take.

Everything here is a pure reading of the policy snapshot: which provider and
model answer, which quotas apply, how much is reserved.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tokenweir.core.budget import affordable
from tokenweir.core.caps import NO_CAP, OutputCap, capped, lowest
from tokenweir.core.cost import Demand, tiers_for, worst_cost_nanousd
from tokenweir.core.dialects.base import ModelRequest
from tokenweir.core.downgrade import Attempt
from tokenweir.core.hold import Amounts, Part, Subject, amount_of
from tokenweir.core.identify import Caller, Door, Entry
from tokenweir.core.limits import enforced, parts_of
from tokenweir.core.name_pattern import matches
from tokenweir.core.partition import user_code
from tokenweir.core.policy import (
    Axis,
    Model,
    OnExceeded,
    OnLedgerFailure,
    Policy,
    Provider,
    Quota,
)
from tokenweir.core.price import PICOUSD_PER_NANOUSD, ModelPrice, TokenClass, Unpriced
from tokenweir.core.rejection import (
    Malformed,
    ModelNotAllowed,
    ModelUnpriced,
    PathNotMetered,
    Unsatisfiable,
)

# What tokens can be of where nobody hears or speaks.
SILENT_CLASSES = frozenset(TokenClass) - {
    TokenClass.AUDIO_INPUT,
    TokenClass.AUDIO_OUTPUT,
}
# Limits that a request without a prompt is held against.
TOKEN_FREE_AXES = frozenset({Axis.REQUESTS, Axis.CONCURRENCY})


@dataclass(frozen=True, slots=True)
class Target:
    """
    Who answers.

    Attributes:
        provider: Who runs it.
        model: What the policy says of it; None: the request names none.
        name: The model's name as the app or the policy has it, or ``""``.
    """

    provider: Provider
    model: Model | None = None
    name: str = ""

    @property
    def upstream_name(self) -> str:
        """The model's name as the provider has it, or ``""``."""
        return (self.model.upstream_model if self.model else None) or self.name


@dataclass(frozen=True, slots=True)
class Plan:
    """
    How a request is admitted.

    Attributes:
        target: Who answers.
        subject: Who asks whom for what.
        parts: The limits that it is held against, by tag; the tenant's first.
        on_ledger_failure: What follows when the ledger is silent.
        price: Of the model, or None.
        yielding: Ids of budgets among them that do not block once they are spent.
        cap: How long an answer may be.
        asked: The target that the app asked for, if this is another one, else None.
    """

    target: Target
    subject: Subject
    parts: tuple[Part, ...]
    on_ledger_failure: OnLedgerFailure
    price: ModelPrice | None = None
    yielding: frozenset[str] = frozenset()
    cap: OutputCap = NO_CAP
    asked: Target | None = None


def plan_metered(
    policy: Policy,
    caller: Caller,
    entry: Entry,
    request: ModelRequest,
    attempt: Attempt,
    now_ms: int,
) -> Plan | ModelNotAllowed | Malformed:
    """
    Plan an *attempt* at a *request* that a dialect has read, or say why it can't be.

    *now_ms* is the moment that budgets' windows are computed for.
    """
    model = policy.model(attempt.model)
    if model is None or not _may_call(caller, attempt.model):
        return ModelNotAllowed(attempt.model)
    provider = policy.providers[model.provider]
    if provider.dialect != entry.errors.name:
        return Malformed(
            f"This model's provider speaks the {provider.dialect} API, not the "
            f"{entry.errors.name} one: call it by that API's path.",
            "model",
        )
    target = Target(provider, model, attempt.model)
    cap = _cap(policy, caller, entry, request, target)
    if isinstance(cap, Malformed):
        return cap
    quotas = _applying(caller, entry, attempt)
    named = policy.model(request.model)
    asked = None
    if attempt.model != request.model and named is not None:
        asked = Target(policy.providers[named.provider], named, request.model)
    subject = replace(
        _subject(policy, caller, entry, target),
        user=request.user,
        downgraded_from=asked.name if asked else "",
        capped_from=cap.capped_from,
        output_cap=cap.written,
    )
    values = _partition_values(subject, target)
    # What a budget is spent on in place of a model is spent in the model's name.
    before = values | {"model": named.name if named else values["model"]}
    relaxed = dict.fromkeys(attempt.relaxed, before)
    return Plan(
        target,
        subject,
        parts_of(quotas, values, now_ms, relaxed),
        _on_ledger_failure(caller, quotas),
        policy.pricing.price(provider.name, target.upstream_name),
        frozenset(quota.id for quota in quotas if _yields(quota)) - attempt.relaxed,
        cap,
        asked,
    )


def _cap(
    policy: Policy, caller: Caller, entry: Entry, request: ModelRequest, target: Target
) -> OutputCap | Malformed:
    """Return how long an answer may be, at the door where there are answers."""
    model = target.model
    assert model is not None
    if entry.door is not Door.METERED or not request.can_be_capped:
        return NO_CAP
    cap = lowest(policy.caps, caller.tenant.name, entry.route, target.name)
    # What a model can't do it would refuse: that a cheaper one answers, or that the
    # policy sets a cap, is not the app's mistake. Its own choice is its own.
    ours = target.name != request.model or request.output_cap is None
    maximum = model.max_output_tokens if ours and model.maximum_is_known else None
    expected = min(model.default_output_tokens, model.max_output_tokens)
    return capped(request, cap, maximum, expected)


def plan_unread(policy: Policy, caller: Caller, entry: Entry) -> Plan | PathNotMetered:
    """Plan a request whose body, if any, nobody reads: no token limit applies."""
    for provider in _callable_without_model(policy, entry.errors.name):
        if _takes(provider, entry):
            return _plan_unread(policy, caller, entry, Target(provider))
    return PathNotMetered(entry.path)


def _plan_unread(policy: Policy, caller: Caller, entry: Entry, target: Target) -> Plan:
    quotas = _applying(caller, entry, Attempt(""))
    subject = _subject(policy, caller, entry, target)
    values = _partition_values(subject, target)
    return Plan(
        target,
        subject,
        parts_of(quotas, values),
        _on_ledger_failure(caller, quotas),
    )


def _callable_without_model(policy: Policy, dialect: str) -> list[Provider]:
    """
    Return who can be meant by a caller of *dialect* that names no model.

    The default provider comes first, then the others that speak the dialect; if nobody
    does, whoever there is.
    """
    names = policy.default_providers
    default = names.get(dialect) or next(iter(names.values()), None)
    everybody = policy.providers.values()
    found = [each for each in everybody if each.dialect == dialect] or [*everybody]
    return sorted(found, key=lambda provider: provider.name != default)


def _takes(provider: Provider, entry: Entry) -> bool:
    if entry.door in (Door.UNKNOWN, Door.UNLISTED):
        return provider.lets_pass(entry.method, entry.path)
    return entry.door is not Door.LOOKALIKE


def _may_call(caller: Caller, model: str) -> bool:
    return all(
        matches(model, allowed)
        for allowed in (caller.tenant.models, caller.key.models)
        if allowed
    )


def _applying(caller: Caller, entry: Entry, attempt: Attempt) -> tuple[Quota, ...]:
    return tuple(
        quota
        for quota in caller.quotas
        if quota.id in attempt.relaxed
        or (
            (entry.door is Door.METERED or quota.axis in TOKEN_FREE_AXES)
            and (not quota.models or matches(attempt.model, quota.models))
            and (not quota.routes or entry.route in quota.routes)
        )
    )


def _subject(policy: Policy, caller: Caller, entry: Entry, target: Target) -> Subject:
    return Subject(
        tenant=caller.tenant.name,
        key_id=caller.key.id,
        user="",
        route=entry.route,
        model=target.name,
        provider=target.provider.name,
        path=policy.responses.path_of(entry.route),
    )


def _partition_values(subject: Subject, target: Target) -> dict[str, str]:
    # Under a family, apps choose the names: they must not choose their limits so.
    return {
        "tenant": subject.tenant,
        "key": subject.key_id,
        "user": user_code(subject.tenant, subject.user) or "-",
        "route": subject.route,
        "model": target.model.name if target.model else "-",
        "provider": subject.provider,
    }


def _yields(quota: Quota) -> bool:
    budget = quota.budget
    return budget is not None and budget.on_exceeded is not OnExceeded.BLOCK


# What holds if quotas say different things, the strictest first.
_STRICTEST = (OnLedgerFailure.CLOSED, OnLedgerFailure.BOUNDED, OnLedgerFailure.OPEN)


def _on_ledger_failure(caller: Caller, quotas: Iterable[Quota]) -> OnLedgerFailure:
    modes = [quota.on_ledger_failure for quota in quotas if not quota.shadow]
    if not modes:
        return caller.tenant.on_ledger_failure
    # One quota that must hold is enough.
    return min(modes, key=_STRICTEST.index)


def output_ceiling(plan: Plan, request: ModelRequest, input_tokens: int) -> int:
    """
    Return the most output tokens that are reserved, for all choices together.

    With a client's cap: that, what the policy has made of it, or the model's maximum,
    whichever is lowest. Without: what the policy has set, or the model's default,
    clamped so that what nobody asked for never makes a request unsatisfiable.
    """
    model = plan.target.model
    assert model is not None
    told = request.output_cap if plan.cap.tokens is None else plan.cap.tokens
    most = model.default_output_tokens if told is None else told
    ceiling = min(most, model.max_output_tokens) * request.choices
    if request.output_cap is not None:
        return ceiling
    for limit in enforced(plan.parts):
        if limit.axis in (Axis.TOKENS, Axis.BUDGET_TOKENS):
            ceiling = min(ceiling, limit.most - input_tokens)
        elif limit.axis is Axis.OUTPUT_TOKENS:
            ceiling = min(ceiling, limit.capacity)
    return max(ceiling, 1)


def priced(
    plan: Plan, request: ModelRequest, amounts: Amounts, now_ms: int
) -> Amounts | ModelUnpriced:
    """
    Return *amounts* with their cost in the worst case.

    Without a price there is none; where a budget of money applies, that refuses. Output
    that nobody asked for is as much less as it takes to be within a whole budget.
    """
    cost = _worst_cost(plan, request, amounts, now_ms)
    budgets = [limit for limit in enforced(plan.parts) if limit.axis is Axis.BUDGET_USD]
    if not isinstance(cost, int):
        if not budgets:
            return amounts
        what = (cost.what or cost.why) if cost else "model"
        return ModelUnpriced(plan.target.name, what)
    most = min((limit.most for limit in budgets), default=cost)
    if cost > most and request.output_cap is None:

        def cost_of(output_tokens: int) -> int:
            less = replace(amounts, output_tokens=output_tokens)
            found = _worst_cost(plan, request, less, now_ms)
            assert isinstance(found, int), "more of the same had a price"
            return found

        fewer = range(1, amounts.output_tokens)
        tokens = max(1, bisect_right(fewer, most, key=cost_of))
        amounts, cost = replace(amounts, output_tokens=tokens), cost_of(tokens)
    return replace(amounts, cost_nanousd=affordable(cost))


def _worst_cost(
    plan: Plan, request: ModelRequest, amounts: Amounts, now_ms: int
) -> int | Unpriced | None:
    """Return the most that *amounts* can cost; None: the model has no price."""
    if plan.price is None:
        return None
    demand = Demand(amounts.input_tokens, amounts.output_tokens, _classes_of(request))
    return worst_cost_nanousd(
        demand, plan.price, now_ms, tiers_for(request.service_tier)
    )


def _classes_of(request: ModelRequest) -> frozenset[TokenClass]:
    """Return the classes that the tokens of *request* can be of: sound is dear."""
    silent = SILENT_CLASSES
    if request.hears:
        silent |= {TokenClass.AUDIO_INPUT}
    if request.speaks:
        silent |= {TokenClass.AUDIO_OUTPUT}
    return silent


def output_nanousd(price: ModelPrice | None, now_ms: int) -> int:
    """Return what an output token costs at least, rounded down; 0: unknown."""
    rates = price.rates(now_ms) if price else None
    rate = rates.of(TokenClass.OUTPUT) if rates else None
    return rate.base // PICOUSD_PER_NANOUSD if rate else 0


def unsatisfiable(plan: Plan, amounts: Amounts) -> Unsatisfiable | None:
    """
    Return the limit that can never hold *amounts*, if there is one.

    Budgets that yield once they are spent do so from the first: that is no such limit.
    """
    for limit in enforced(plan.parts):
        requested = amount_of(limit.axis, amounts)
        if requested > limit.most and limit.quota not in plan.yielding:
            return Unsatisfiable(
                limit.quota,
                limit.axis,
                limit.partition,
                limit.most,
                requested,
                limit.rate,
            )
    return None
