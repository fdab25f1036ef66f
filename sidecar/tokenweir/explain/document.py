"""An explanation as JSON: every figure an integer, names as in logs and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tokenweir.core.commands import Forward, Reject
from tokenweir.core.hold import Denied, Granted, LimitState, amount_of
from tokenweir.core.outgoing import TIMEOUT_HEADER
from tokenweir.core.policy import ApiKey, Model, Policy, Provider
from tokenweir.core.price import TokenClass
from tokenweir.core.reason import reason_of
from tokenweir.explain.dry_ledger import Reserving, Standing
from tokenweir.explain.explanation import Answers, Explanation
from tokenweir.explain.governed import Governed
from tokenweir.explain.way import RETRIED, Way, way_of
from tokenweir.extproc.budget_wording import moment
from tokenweir.extproc.messages import LocalReply

Json = Mapping[str, Any]


def document_of(answers: Answers) -> Json:
    """Return *answers* for machines."""
    told, unused = answers.now, answers.unused
    head = told.question.head
    return {
        "at": moment(told.now_ms),
        "policy": told.question.policy.digest,
        "governance": answers.governed.described,
        "ledger": answers.ledger,
        "request": {
            "method": head.method,
            "path": head.path,
            "body_bytes": len(told.question.body),
            "door": told.entry.door.name.lower(),
            "route": told.entry.route,
        },
        "caller": _caller(told, answers.governed),
        "target": _target(told),
        "way": _way(way_of(told)),
        "counts": [
            {
                "model": each.model,
                "tokens": each.tokens,
                "source": each.source,
                "factor": round(each.factor, 4),
            }
            for each in told.counts
        ],
        "reservations": [_reserving(each) for each in told.reservings],
        "quotas": [
            {
                "id": each.quota.id,
                "of": "key" if each.is_key else "tenant",
                "applies": not each.why_not,
                "why_not": each.why_not or None,
            }
            for each in told.quotas
        ],
        "decision": dict(_decision(told)),
        "if_unused": None if unused is None else _in_short(unused),
        "reply": None if told.reply is None else _reply(told.reply),
        "edits": {
            name: {"from": _read(old), "to": _read(new)}
            for name, (old, new) in told.edits.items()
        },
    }


def model_and_provider(told: Explanation) -> tuple[Model | None, Provider | None]:
    """Return what would answer by the policy, as far as the request came."""
    policy, subject = told.question.policy, told.subject
    model = policy.model(subject.model) if subject.model else None
    return model, policy.providers.get(subject.provider)


def upstream_name(model: Model | None, name: str) -> str:
    """Return what the provider is asked for, where apps ask for *name*."""
    return (model.upstream_model if model else None) or name


def timeout_class(told: Explanation) -> str | None:
    """Return how long Envoy would wait, by the name of the class; None: not sent."""
    if not isinstance(told.answer, Forward):
        return None
    headers = dict(told.answer.set_headers)
    return str(headers.get(TIMEOUT_HEADER, "")) or None


def _in_short(told: Explanation) -> Json:
    answer, subject = told.answer, told.subject
    reason = str(reason_of(answer.why)) if isinstance(answer, Reject) else None
    return {
        "admitted": reason is None,
        "model": None if reason else subject.model or None,
        "downgraded_from": subject.downgraded_from or None,
        "status": told.reply.status if told.reply else None,
        "reason": reason,
    }


def _caller(told: Explanation, governed: Governed) -> Json | None:
    if told.caller is None:
        return None
    key: ApiKey = told.caller.key
    ends = None if key.ends_at_ms is None else moment(key.ends_at_ms)
    return {
        "tenant": told.caller.tenant.name,
        "key_id": key.id,
        "key_issued": governed.is_issued(key),
        "user": bool(told.subject.user),
        "tenant_models": list(told.caller.tenant.models),
        "key_models": list(key.models),
        "key_routes": list(key.routes),
        "key_ends_at": ends,
        "key_end": None if ends is None else str(key.end),
    }


def _target(told: Explanation) -> Json | None:
    model, provider = model_and_provider(told)
    if provider is None:
        return None
    name = upstream_name(model, told.subject.model)
    return {
        "model": told.subject.model or None,
        "asked_model": told.subject.downgraded_from or told.subject.model or None,
        "provider": provider.name,
        "upstream_model": name or None,
        "cluster": provider.cluster,
        "url": f"{provider.scheme}://{provider.host}:{provider.port}{provider.path_prefix}",
        "credential": "provider" if provider.credential else "app",
        "timeout_class": timeout_class(told),
        "price": _price(told.question.policy, provider.name, name, told.now_ms),
    }


def _way(way: Way | None) -> Json | None:
    if way is None:
        return None
    return {
        "route": way.route,
        "cluster": way.cluster,
        "method": way.method,
        "url": way.url,
        "timeout_class": way.timeouts.name,
        "total_ms": way.timeouts.total_ms or None,
        "idle_ms": way.timeouts.idle_ms,
        "retries": way.retries,
        "retried": list(RETRIED) if way.retries else [],
        "answer": "read" if way.is_read else "unread",
        "path": way.path,
        "set_headers": list(way.set_headers),
        "removed_headers": list(way.removed_headers),
    }


def _price(policy: Policy, provider: str, name: str, now_ms: int) -> Json | None:
    price = policy.pricing.price(provider, name) if name else None
    if price is None:
        return None
    rates = price.rates(now_ms)
    sides = {"input": TokenClass.INPUT, "output": TokenClass.OUTPUT}
    found = {side: rates.of(cls) if rates else None for side, cls in sides.items()}
    return {
        "source": price.source,
        **{
            f"{side}_picousd_per_token": None if rate is None else rate.base
            for side, rate in found.items()
        },
    }


def _reserving(each: Reserving) -> Json:
    match each.outcome:
        case Granted():
            outcome = "granted"
        case Denied():
            outcome = "denied"
        case _:
            outcome = "stale"
    amounts = each.hold.amounts
    return {
        "model": each.hold.subject.model or None,
        "requests": amounts.requests,
        "input_tokens": amounts.input_tokens,
        "output_tokens": amounts.output_tokens,
        "cost_nanousd": amounts.cost_nanousd,
        "outcome": outcome,
        "limits": [_standing(standing) for standing in each.standings]
        or [
            {"quota": limit.quota, "requested": amount_of(limit.axis, amounts)}
            for part in each.hold.parts
            for limit in part.limits
        ],
    }


def _standing(standing: Standing) -> Json:
    limit, failure = standing.limit, standing.failure
    return {
        "quota": limit.quota,
        "limit": limit.axis,
        "partition": limit.partition,
        "shadow": limit.shadow,
        "capacity": limit.capacity,
        "hard_limit": limit.hard_limit or None,
        "requested": standing.requested,
        "fits": failure is None,
        "wait_ms": 0 if failure is None else failure.wait_ms,
        "before": _state(standing.before),
        "after": _state(standing.after),
    }


def _state(state: LimitState) -> Json:
    return {"remaining": state.remaining, "reset_ms": state.reset_ms}


def _decision(told: Explanation) -> Iterator[tuple[str, Any]]:
    yield "admitted", told.reply is None
    yield "downgraded_from", told.subject.downgraded_from or None
    if isinstance(told.answer, Forward):
        yield "flags", list(told.answer.ticket.flags)
        yield "shadowed", [each.quota for each in told.answer.ticket.shadowed]
        yield "strip_usage", told.answer.strip_usage
    else:
        yield "reason", str(reason_of(told.answer.why))


def _reply(reply: LocalReply) -> Json:
    return {
        "status": reply.status,
        "headers": dict(reply.headers),
        "body": _read(reply.body.decode()),
    }


def _read(text: str) -> Any:
    return json.loads(text) if text else None
