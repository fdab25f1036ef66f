"""An explanation for people: what was asked, each try, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from tokenweir.cli.price_text import price_text
from tokenweir.cli.table import Amount, Cell, shown, table
from tokenweir.cli.way_text import way_text
from tokenweir.core.budget import MAX_SPENT
from tokenweir.core.commands import Forward, Reject
from tokenweir.core.hold import Denied, Granted, LimitState
from tokenweir.core.policy import Axis, KeyEnd, Policy
from tokenweir.core.reason import reason_of
from tokenweir.core.usage import Source
from tokenweir.explain.document import (
    model_and_provider,
    timeout_class,
    upstream_name,
)
from tokenweir.explain.dry_ledger import Reserving, Standing
from tokenweir.explain.explanation import Answers, Count, Explanation
from tokenweir.explain.governed import Governed
from tokenweir.extproc.budget_wording import amount, moment

COLUMNS = ("quota", "whose", "most", "left now", "needs", "left after", "fits")
_HOW = {
    Source.COUNTED: "counted by the model's own tokenizer",
    Source.ESTIMATED: "estimated",
    Source.REPORTED: "reported",
}
_NOTHING_USED = "none: as if nothing were used yet (--ledger reads what is)"
_SOURCES = {"file": "from a file", "ledger": "as published"}
_ENDED = {
    KeyEnd.EXPIRED: "expired at",
    KeyEnd.ROTATED: "was replaced by a newer secret, and ended at",
    KeyEnd.REVOKED: "was revoked at",
}
_ENDS = {
    KeyEnd.EXPIRED: "expires at",
    KeyEnd.ROTATED: "was replaced by a newer secret, and works until",
}
# What a long value is cut to, so that the rest stays in view.
_LINE = 100


def text_of(answers: Answers) -> str:
    """Return *answers* in words."""
    told = answers.now
    lines = [*_asked(answers), *_tries(told), *_others(told), *_outcome(told)]
    return "\n".join([*lines, *_unused(answers)])


def _asked(answers: Answers) -> Iterator[str]:
    told = answers.now
    head, entry = told.question.head, told.entry
    size = f", {len(told.question.body):,} bytes" if told.question.body else ", no body"
    door = entry.door.name.lower().replace("_", "-")
    yield f"request   {head.method} {shown(head.path)}: {door} path{size}, route {entry.route}"
    yield f"caller    {_caller(told, answers.governed)}"
    yield f"policy    {_policy(answers.governed.described)}"
    keys = answers.governed.described.get("keys")
    if isinstance(keys, Mapping):
        yield f"keys      {_issued(keys)}"
    yield f"ledger    {answers.ledger or _NOTHING_USED}"
    yield f"moment    {moment(told.now_ms)}"


def _policy(described: Mapping[str, object]) -> str:
    """Return which policy is in force, as a sidecar describes it."""
    text = f"{described['digest']}, {_SOURCES[str(described['source'])]}"
    if "version" not in described:
        return text
    comment = f": {described['comment']}" if described["comment"] else ""
    return f"{text}: version {_version(described)}{comment}"


def _issued(keys: Mapping[str, object]) -> str:
    """Return which issued keys there are, as a sidecar describes them."""
    ignored = keys["ignored"]
    assert isinstance(ignored, list)
    text = f"as published: version {_version(keys)}; {keys['count']} secrets in it"
    return f"{text}, {len(ignored)} of them ignored" if ignored else text


def _version(described: Mapping[str, object]) -> str:
    return f"{described['version']} by {described['by']}, {described['published_at']}"


def _caller(told: Explanation, governed: Governed) -> str:
    if told.caller is None:
        return "not known"
    key, tenant = told.caller.key, told.caller.tenant
    issued = " (issued)" if governed.is_issued(key) else ""
    parts = [f"tenant {tenant.name}, key {key.id}{issued}"]
    if tenant.models:
        parts.append(f"the tenant may call {', '.join(tenant.models)}")
    if key.models:
        parts.append(f"the key may call {', '.join(key.models)}")
    if key.routes:
        parts.append(f"the key is for {', '.join(key.routes)}")
    if key.ends_at_ms is not None:
        ended = told.now_ms >= key.ends_at_ms or key.end is KeyEnd.REVOKED
        how = (_ENDED if ended else _ENDS)[key.end]
        parts.append(f"the key {how} {moment(key.ends_at_ms)}")
    return "; ".join(parts)


# === tries ========================================================================


def _tries(told: Explanation) -> Iterator[str]:
    for number, each in enumerate(told.reservings, 1):
        name = each.hold.subject.model
        title = f"try {number}" if len(told.reservings) > 1 else "reserving"
        yield f"\n{title}{f': {shown(name)}' if name else ''}"
        yield from _goes_to(told.question.policy, each, told.now_ms)
        yield from _takes(each, told.counts)
        if each.standings:
            rows = [_row(standing) for standing in each.standings]
            yield from _indented(table(COLUMNS, rows, bold=False))
        elif not any(part.limits for part in each.hold.parts):
            yield "  no quota applies"
        yield f"  {_result(each)}"


def _goes_to(policy: Policy, each: Reserving, now_ms: int) -> Iterator[str]:
    subject = each.hold.subject
    provider = policy.providers[subject.provider]
    model = policy.model(subject.model) if subject.model else None
    name = upstream_name(model, subject.model)
    url = f"{provider.scheme}://{provider.host}:{provider.port}{provider.path_prefix}"
    renamed = f" as {shown(name)}" if name != subject.model else ""
    yield f"  to        {provider.name}{renamed}, {url}, cluster {provider.cluster}"
    if model is not None:
        price = price_text(model, policy.pricing, now_ms)
        yield f"  price     {price or _family_price(policy, provider.name, name)}"


def _family_price(policy: Policy, provider: str, name: str) -> str:
    price = policy.pricing.price(provider, name)
    return "no price" if price is None else f"from {price.source}"


def _takes(each: Reserving, counts: Iterable[Count]) -> Iterator[str]:
    amounts, model = each.hold.amounts, each.hold.subject.model
    if not amounts.input_tokens and not amounts.output_tokens:
        yield "  takes     1 request, no tokens"
        return
    how = [_how(count) for count in counts if count.tokens]
    source = f" ({how[-1]})" if how and model else ""
    worst = f"at most {amounts.output_tokens:,} out"
    cost = amount(Axis.BUDGET_USD, amounts.cost_nanousd)
    money = f", at most {cost}" if amounts.cost_nanousd else ""
    yield f"  takes     1 request, {amounts.input_tokens:,} tokens in{source}, {worst}{money}"


def _how(count: Count) -> str:
    if count.factor == 1.0:
        return _HOW[count.source]
    return f"{_HOW[count.source]}, text times {count.factor:.2f} as reports have taught"


def _row(standing: Standing) -> list[Cell]:
    limit = standing.limit
    most = limit.hard_limit < MAX_SPENT
    fits = "yes" if standing.failure is None else f"no, wait {_wait(standing)}"
    if limit.shadow:
        fits += " (shadow)"
    elif limit.hard_limit:
        fits += " (spent: up to its hard limit)"
    return [
        limit.quota,
        limit.partition,
        # Without a hard limit of its own it is other budgets' to block.
        _figure(limit.axis, limit.most) if most else "-",
        _left(limit.axis, standing.before),
        _figure(limit.axis, standing.requested),
        _left(limit.axis, standing.after),
        fits,
    ]


def _wait(standing: Standing) -> str:
    assert standing.failure is not None
    return f"{max(1, -(-standing.failure.wait_ms // 1_000)):,} s"


def _left(axis: Axis, state: LimitState) -> Amount:
    return _figure(axis, state.remaining)


def _figure(axis: Axis, figure: int) -> Amount:
    if axis is Axis.BUDGET_USD:
        return Amount(amount(axis, figure))
    return Amount(f"{figure:,}")


def _result(each: Reserving) -> str:
    match each.outcome:
        case Granted():
            return "granted"
        case Denied(failures=failures):
            return f"denied by {', '.join(failure.quota for failure in failures)}"
        case _:
            return "a budget's window has turned meanwhile: once more"


# === the rest =====================================================================


def _others(told: Explanation) -> Iterator[str]:
    others = [each for each in told.quotas if each.why_not]
    if others:
        yield "\nquotas that do not apply"
    for each in others:
        yield f"  {each.quota.id}: {each.why_not}"


def _outcome(told: Explanation) -> Iterator[str]:
    yield "\ndecision"
    if isinstance(told.answer, Forward):
        yield from _admitted(told, told.answer)
        return
    reply = told.reply
    assert reply is not None
    yield f"  refused: {reply.status} {reason_of(told.answer.why)}"
    yield from (f"  {name}: {value}" for name, value in reply.headers)
    yield from _indented(
        json.dumps(json.loads(reply.body), indent=2, ensure_ascii=False)
    )


def _admitted(told: Explanation, answer: Forward) -> Iterator[str]:
    _model, provider = model_and_provider(told)
    subject = told.subject
    if subject.downgraded_from:
        yield (
            f"  downgraded: {subject.model} answers instead of "
            f"{shown(subject.downgraded_from)}: {_denying(told)} has no room for that"
        )
    else:
        yield "  admitted"
    if provider is not None:
        whose = (
            "the provider's credential" if provider.credential else "the app's headers"
        )
        yield f"  sent with {whose}, timeouts {timeout_class(told)}"
        yield from way_text(told)
    for name, (old, new) in told.edits.items():
        yield f"  body: {name}: {_cut(old) or '(not set)'} becomes {_cut(new) or '(not set)'}"
    if answer.strip_usage:
        yield "  the usage that the app did not ask for is taken out of the stream"
    for failure in answer.ticket.shadowed:
        yield f"  {failure.quota} would have refused it, but is in shadow mode"
    yield from (f"  flag: {flag}" for flag in answer.ticket.flags)


def _unused(answers: Answers) -> Iterator[str]:
    """Yield what would be decided on an empty ledger, if another one was read."""
    if answers.unused is None:
        return
    now, unused = _in_short(answers.now), _in_short(answers.unused)
    yield "\nif nothing were used yet"
    yield f"  {'the same' if now == unused else unused}"


def _in_short(told: Explanation) -> str:
    if isinstance(told.answer, Reject):
        assert told.reply is not None
        return f"refused: {told.reply.status} {reason_of(told.answer.why)}"
    subject = told.subject
    if subject.downgraded_from:
        asked = shown(subject.downgraded_from)
        return f"downgraded: {subject.model} answers instead of {asked}"
    return f"admitted{f': {shown(subject.model)} answers' if subject.model else ''}"


def _denying(told: Explanation) -> str:
    names = {
        failure.quota
        for each in told.reservings
        if isinstance(each.outcome, Denied)
        for failure in each.outcome.failures
    }
    return ", ".join(sorted(names))


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.splitlines())


def _cut(text: str) -> str:
    return text if len(text) <= _LINE else f"{text[: _LINE - 1]}…"
