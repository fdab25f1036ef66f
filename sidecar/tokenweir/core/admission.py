"""
What a request would take, and what it looks like on its way out.

Everything here is a pure reading of the policy snapshot: which provider and
model answer, which quotas apply, how much is reserved, which headers change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tokenweir.core.dialects.base import ModelRequest
from tokenweir.core.hold import Amounts, Limit, Part, Subject, amount_of
from tokenweir.core.identify import KEY_HEADERS, Caller, Door, Entry
from tokenweir.core.partition import shared_tag_of, tag_of, user_code
from tokenweir.core.policy import (
    Axis,
    Model,
    OnLedgerFailure,
    Policy,
    Provider,
    Quota,
    Secret,
    matches,
)
from tokenweir.core.rejection import (
    Malformed,
    ModelNotAllowed,
    PathNotMetered,
    Unsatisfiable,
)

CLUSTER_HEADER = "x-tokenweir-cluster"
TIMEOUT_HEADER = "x-tokenweir-timeout"
# Limits that a request without a prompt is held against.
TOKEN_FREE_AXES = frozenset({Axis.REQUESTS, Axis.CONCURRENCY})


@dataclass(frozen=True, slots=True)
class Target:
    """Who answers: *provider*, and *model* unless the request names none."""

    provider: Provider
    model: Model | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """
    How a request is admitted.

    Attributes:
        target: Who answers.
        subject: Who asks whom for what.
        parts: The limits that it is held against, by tag; the tenant's first.
        on_ledger_failure: What follows when the ledger is silent.
    """

    target: Target
    subject: Subject
    parts: tuple[Part, ...]
    on_ledger_failure: OnLedgerFailure


def plan_metered(
    policy: Policy, caller: Caller, entry: Entry, request: ModelRequest
) -> Plan | ModelNotAllowed | Malformed:
    """Plan a *request* that a dialect has read, or say why it can't be."""
    model = policy.model(request.model)
    if model is None or not _may_call(caller, request.model):
        return ModelNotAllowed(request.model)
    provider = policy.providers[model.provider]
    if provider.dialect != entry.errors.name:
        return Malformed(
            f"This model's provider speaks the {provider.dialect} API, not the "
            f"{entry.errors.name} one: call it by that API's path.",
            "model",
        )
    target = Target(provider, model)
    return _plan(caller, entry, target, user=request.user, model=request.model)


def plan_unread(policy: Policy, caller: Caller, entry: Entry) -> Plan | PathNotMetered:
    """Plan a request whose body, if any, nobody reads: no token limit applies."""
    for provider in _callable_without_model(policy, entry.errors.name):
        if _takes(provider, entry):
            return _plan(caller, entry, Target(provider), user="", model="")
    return PathNotMetered(entry.path)


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
        for allowed in (caller.tenant.models, caller.models)
        if allowed
    )


def _plan(
    caller: Caller, entry: Entry, target: Target, *, user: str, model: str
) -> Plan:
    subject = Subject(
        tenant=caller.tenant.name,
        key_id=caller.key_id,
        user=user,
        route=entry.route,
        model=model,
        provider=target.provider.name,
    )
    quotas = tuple(
        quota
        for quota in caller.tenant.quotas
        if (entry.door is Door.METERED or quota.axis in TOKEN_FREE_AXES)
        and (not quota.models or matches(model, quota.models))
        and (not quota.routes or entry.route in quota.routes)
    )
    return Plan(
        target,
        subject,
        _parts(quotas, subject, target),
        _on_ledger_failure(caller, quotas),
    )


def _parts(
    quotas: Iterable[Quota], subject: Subject, target: Target
) -> tuple[Part, ...]:
    # Under a family, apps choose the names: they must not choose their limits so.
    values = {
        "tenant": subject.tenant,
        "key": subject.key_id,
        "user": user_code(subject.tenant, subject.user) or "-",
        "route": subject.route,
        "model": target.model.name if target.model else "-",
        "provider": subject.provider,
    }
    # The tenant's tag is there also without limits: it keeps the usage records.
    own = tag_of(subject.tenant)
    by_tag: dict[str, list[Limit]] = {own: []}
    for quota in quotas:
        partition = ",".join(f"{key}={values[key]}" for key in quota.partition)
        tag = own if "tenant" in quota.partition else shared_tag_of(quota.id, partition)
        limit = Limit(
            quota.id, quota.axis, partition, quota.rate, quota.capacity, quota.shadow
        )
        by_tag.setdefault(tag, []).append(limit)
    return tuple(Part(tag, tuple(limits)) for tag, limits in by_tag.items())


def _on_ledger_failure(caller: Caller, quotas: Iterable[Quota]) -> OnLedgerFailure:
    modes = [quota.on_ledger_failure for quota in quotas if not quota.shadow]
    if not modes:
        return caller.tenant.on_ledger_failure
    # One quota that must hold is enough.
    return min(modes, key=lambda mode: mode is not OnLedgerFailure.CLOSED)


def output_ceiling(
    request: ModelRequest, model: Model, parts: Iterable[Part], input_tokens: int
) -> int:
    """
    Return the most output tokens that are reserved, for all choices together.

    With a client's cap: that, or the model's maximum if it is lower. Without:
    the policy's default, clamped so that the default alone never makes a
    request unsatisfiable.
    """
    if request.output_cap is not None:
        return min(request.output_cap, model.max_output_tokens) * request.choices
    ceiling = min(model.default_output_tokens, model.max_output_tokens)
    ceiling *= request.choices
    for limit in _enforced(parts):
        if limit.axis is Axis.TOKENS:
            ceiling = min(ceiling, limit.capacity - input_tokens)
        elif limit.axis is Axis.OUTPUT_TOKENS:
            ceiling = min(ceiling, limit.capacity)
    return max(ceiling, 1)


def unsatisfiable(parts: Iterable[Part], amounts: Amounts) -> Unsatisfiable | None:
    """Return the limit that can never hold *amounts*, if there is one."""
    for limit in _enforced(parts):
        requested = amount_of(limit.axis, amounts)
        if requested > limit.capacity:
            return Unsatisfiable(
                limit.quota,
                limit.axis,
                limit.partition,
                limit.capacity,
                requested,
                limit.rate,
            )
    return None


def _enforced(parts: Iterable[Part]) -> Iterable[Limit]:
    return (limit for part in parts for limit in part.limits if not limit.shadow)


def outgoing_headers(
    policy: Policy, target: Target, route: str
) -> tuple[tuple[tuple[str, str | Secret], ...], tuple[str, ...]]:
    """Return the headers to set and to remove on the way to the provider."""
    provider = target.provider
    timeout = target.model.timeout_class if target.model else None
    timeout = timeout or policy.route_timeouts.get(route, "default")
    changes: list[tuple[str, str | Secret]] = [
        (CLUSTER_HEADER, provider.cluster),
        (TIMEOUT_HEADER, timeout),
    ]
    if provider.credential is None:
        return tuple(changes), ()
    if provider.dialect == "anthropic":
        header, credential = "x-api-key", provider.credential
    else:
        header = "authorization"
        credential = Secret(f"Bearer {provider.credential.reveal()}")
    changes.append((header, credential))
    # The app's own key proves who pays; it is none of the provider's business.
    return tuple(changes), tuple(name for name in KEY_HEADERS if name != header)
