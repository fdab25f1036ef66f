"""
The processor's log, for people: one line of JSON → one line of text.

The fields are those of docs/observability.md. A field that is missing, or a line
that is no JSON, is no reason to stop watching.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tokenweir.core.policy import BUDGETS, Axis
from tokenweir.extproc.budget_wording import amount
from tokenweir.stack.denial import REQUEST_ID
from tokenweir.stack.terminal import Style

NOBODY = "-"
# Told to operators of fleets; whoever sits before the stack sees it anyway.
UNTOLD_EVENTS = frozenset(
    {"serving", "draining", "stopped", "envoy_current", "envoy_updated"}
)
# Of an event that is no exchange: the fields that every line has.
COMMON_FIELDS = frozenset({"time", "level", "event"})
# Of events that come to pass while somebody tries things.
MEANINGS = {
    "policy_loaded": "in use from now on",
    "policy_refused": "the last good policy stays",
    "quotas_ineffective": "these do nothing: `tokenweir check` says why",
    "ledger_failed": "the ledger gave no answer",
    "spool_filling": "what was used is charged when the ledger is back",
    "spool_empty": "all of that is charged",
    "holds_reaped": "nobody had settled them: charged by an estimate",
    "envoy_outdated": "Envoy has not followed yet: envoy.log may say why",
    "fault": "a bug of Tokenweir's: the log has more",
}
LEVEL_STYLES = {"warning": Style.WARNING, "error": Style.ERROR}


def readable(line: str) -> tuple[str, Style] | None:
    """Return what to show of a log's *line*, or None: nothing."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.get("event") in UNTOLD_EVENTS | {None}:
        return None
    if fields["event"] == "exchange":
        return None if _is_self_test(fields) else _exchange(fields)
    if fields["event"] == "budget_crossed":
        return _crossing(fields)
    return _event(fields)


def _is_self_test(fields: Mapping[str, Any]) -> bool:
    """Tell if it is the refusal that a stack has asked for, to see if it is made."""
    return (
        fields.get("request_id") == REQUEST_ID and fields.get("decision") == "refused"
    )


def _exchange(fields: Mapping[str, Any]) -> tuple[str, Style]:
    text, style = _outcome(fields)
    subject = (
        f"{_word(fields, 'tenant'):<8} {_word(fields, 'model'):<18} "
        f"{_word(fields, 'route'):<16}"
    )
    return f"{_clock(fields)} {subject} {text}", style


def _outcome(fields: Mapping[str, Any]) -> tuple[str, Style]:
    match fields.get("decision"):
        case "refused":
            parts = [f"REFUSED {_refusal(fields)}", *_downgrade(fields)]
            return ", ".join(parts), Style.REFUSED
        case "abandoned":
            # Envoy's own refusals, as of a body in too large chunks, look like this.
            return "not forwarded: the app left, or Envoy refused it", Style.WARNING
        case _:
            parts = [*_answer(fields), *_remarks(fields)]
            return ", ".join(parts), _answer_style(fields)


def _refusal(fields: Mapping[str, Any]) -> str:
    reason = _word(fields, "reason")
    if "quota" not in fields:
        return reason
    parts = [f"by {fields['quota']}"]
    # Of requests, or of those in flight, one is needed anyway.
    if (requested := fields.get("requested", 1)) > 1:
        parts.append(f"needs {_amount(_word(fields, 'limit'), requested)}")
    return ", ".join([*parts, _wait(fields)])


def _wait(fields: Mapping[str, Any]) -> str:
    wait_ms = fields.get("wait_ms")
    if wait_ms is None:
        return "never fits"
    if _word(fields, "limit") in BUDGETS:
        return f"begins anew in {_long(wait_ms)}"
    return f"fits in {_seconds(wait_ms)}"


def _answer(fields: Mapping[str, Any]) -> list[str]:
    tokens = fields.get("tokens") or {}
    used = [
        f"{tokens.get('total_input_tokens', 0):,} in",
        f"{tokens.get('total_output_tokens', 0):,} out ({_word(fields, 'source')})",
    ]
    # Else there are none to use.
    told = used if any(tokens.values()) or fields.get("model") else []
    if cost := fields.get("cost_nanousd"):
        told = [*told, amount(Axis.BUDGET_USD, cost)]
    return [
        f"{fields.get('status') or NOBODY}",
        *told,
        _seconds(fields.get("duration_ms", 0)),
    ]


def _remarks(fields: Mapping[str, Any]) -> list[str]:
    """Return what is out of the ordinary, and the first token's time."""
    remarks = _downgrade(fields)
    if (first_ms := fields.get("first_token_ms")) is not None:
        remarks.append(f"first token after {_seconds(first_ms)}")
    if fields.get("outcome") not in {None, "completed"}:
        remarks.append(str(fields["outcome"]))
    if (attempts := fields.get("attempts", 1)) > 1:
        remarks.append(f"{attempts} attempts")
    remarks.extend(str(flag) for flag in fields.get("flags", ()))
    remarks.extend(f"shadow: {quota}" for quota in fields.get("shadowed", ()))
    return remarks


def _downgrade(fields: Mapping[str, Any]) -> list[str]:
    asked = fields.get("downgraded_from")
    return [f"downgraded from {asked}"] if asked else []


def _answer_style(fields: Mapping[str, Any]) -> Style:
    if fields.get("outcome") not in {None, "completed"}:
        return Style.WARNING
    return Style.PLAIN if (fields.get("status") or 0) < 400 else Style.ERROR


def _event(fields: Mapping[str, Any]) -> tuple[str, Style]:
    told = {key: value for key, value in fields.items() if key not in COMMON_FIELDS}
    parts = [f"{key}={_value(value)}" for key, value in told.items()]
    style = LEVEL_STYLES.get(str(fields.get("level")), Style.NOTE)
    event = str(fields["event"])
    meaning = f"({MEANINGS[event]})" if event in MEANINGS else ""
    words = [_clock(fields), event, *parts, meaning]
    return " ".join(word for word in words if word), style


def _crossing(fields: Mapping[str, Any]) -> tuple[str, Style]:
    """Return how much of a budget is spent, and whose it is."""
    quota, _, rest = _word(fields, "limit").partition("|")
    axis, _, whose = rest.partition("|")
    spent, capacity = (
        _amount(axis, fields.get(name, 0)) for name in ("spent", "capacity")
    )
    text = (
        f"{_clock(fields)} {fields.get('percent', 0)}% of {quota} ({whose or NOBODY}) "
        f"are spent: {spent} of {capacity}"
    )
    return text, Style.WARNING


def _amount(axis: str, figure: int) -> str:
    return amount(Axis(axis), figure) if axis in BUDGETS else f"{figure:,}"


def _value(value: object) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _word(fields: Mapping[str, Any], name: str) -> str:
    return str(fields.get(name) or NOBODY)


def _clock(fields: Mapping[str, Any]) -> str:
    """Return the line's time of day, here and not in Greenwich."""
    try:
        moment = datetime.fromisoformat(str(fields.get("time")))
    except ValueError:
        return "--:--:--"
    return moment.astimezone().strftime("%H:%M:%S")


def _seconds(duration_ms: float) -> str:
    return (
        f"{duration_ms / 1000:.2f} s"
        if duration_ms < 10_000
        else f"{duration_ms / 1000:.0f} s"
    )


def _long(duration_ms: float) -> str:
    """Return a time of minutes, hours or days, rounded up."""
    minutes = -(-int(duration_ms) // 60_000)
    if minutes < 120:
        return f"{minutes} min"
    hours = -(-minutes // 60)
    return f"{hours} h" if hours < 48 else f"{-(-hours // 24)} days"
