"""
One JSON line for each exchange, and one for each event that matters.

Rule 1: a line holds ids, names of the policy, figures, and words of closed
vocabularies. No key, header, body or path, nor the text of an exception: any of
them may carry a secret or a prompt. Of an error, its type and place are told.

Rule 2: writing never waits; see `tokenweir.telemetry.lines`.

Every field is described in docs/observability.md: change both together.
"""

from __future__ import annotations

import enum
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TextIO

from tokenweir.core.budget import Crossing
from tokenweir.core.hold import Settlement, Subject
from tokenweir.core.partition import user_code
from tokenweir.core.plausible import IMPLAUSIBLE_REPORT
from tokenweir.core.reason import Reason, reason_of
from tokenweir.core.rejection import (
    QuotaExhausted,
    QuotaFailure,
    Rejection,
    Unsatisfiable,
)
from tokenweir.core.usage import TokenUsage
from tokenweir.telemetry.decision import decision_of
from tokenweir.telemetry.hooks import FROM_FILE, Delivery, ExchangeDetails, Origin
from tokenweir.telemetry.lines import LineWriter
from tokenweir.telemetry.places import error_facts, type_name
from tokenweir.telemetry.throttle import Throttle

MAX_TEXT = 256  # of a value that a client chose, such as a model's name
MAX_LISTED = 20
# A ledger that is down fails every call: one line says it for this long.
LEDGER_LINE_EVERY_S = 10.0


class Level(enum.StrEnum):
    """How much an operator should care."""

    INFO = "info"
    WARNING = "warning"  # look at it some time
    ERROR = "error"  # something is broken


class UserIds(enum.StrEnum):
    """What becomes of end users' ids, which may be personal data."""

    HASHED = "hashed"  # see `tokenweir.core.partition.user_code`
    PLAIN = "plain"
    OMITTED = "omitted"


# Refusals that are no client's doing.
LEVEL_OF_REASON = {
    Reason.INTERNAL_FAULT: Level.ERROR,
    Reason.LEDGER_UNAVAILABLE: Level.WARNING,
}


class JsonLog:
    """
    Writes lines to *stream*; is `OnExchangeEnd` and `Events` at once.

    Args:
        stream: Where to; standard output by default.
        user_ids: What becomes of end users' ids.
        clock: The wall clock in seconds.
        on_dropped: Called for each line that had to be dropped.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        user_ids: UserIds = UserIds.HASHED,
        clock: Callable[[], float] = time.time,
        on_dropped: Callable[[], None] = lambda: None,
    ) -> None:
        self._user_ids = user_ids
        self._clock = clock
        self._throttle = Throttle(clock)
        self._lines = LineWriter(stream or sys.stdout, self._gap, on_dropped)
        self._ledger_failures = 0
        self._ledger_line_due = 0.0
        self._spooled = 0
        self._ineffective: tuple[str, Mapping[str, str]] = ("", {})
        self._eviction = ""

    def close(self, timeout_s: float = 2.0) -> bool:
        """Write what waits; tell if that was possible in *timeout_s*."""
        return self._lines.close(timeout_s)

    def event(self, name: str, level: Level = Level.INFO, **fields: object) -> None:
        """Write the line of an event. *fields* must keep rule 1."""
        self._lines.write(self._line(name, level, fields))

    # === OnExchangeEnd =========================================================

    def __call__(self, details: ExchangeDetails) -> None:
        """Write the line of an exchange."""
        fields: dict[str, object] = {
            **self._subject(details.subject),
            "method": _bounded(details.method),
            "decision": decision_of(details),
        }
        if details.hold_id:
            fields["hold_id"] = details.hold_id
        level = Level.INFO
        if details.rejection is not None:
            fields |= _refusal(details.rejection)
            reason = reason_of(details.rejection)
            level = LEVEL_OF_REASON.get(reason, Level.INFO)
            if reason is Reason.UNKNOWN_KEY:
                # Anybody can cause as many of these as they like.
                fields["left_out"] = self._throttle.admit(reason)
        if details.settlement is not None:
            fields |= _settlement(details.settlement)
            if IMPLAUSIBLE_REPORT in details.settlement.flags:
                level = Level.WARNING
        fields["governor_ms"] = round(details.governor_ms, 3)
        fields["ledger_ms"] = round(details.ledger_ms, 3)
        if details.shadowed:
            fields["shadowed"] = _quotas(details.shadowed)
        self._bounded_event("exchange", level, fields)

    def _subject(self, subject: Subject) -> Mapping[str, object]:
        fields = {
            "request_id": subject.request_id,
            "tenant": subject.tenant,
            "key_id": subject.key_id,
            "user": self._user(subject),
            "route": subject.route,
            "model": subject.model,
            "provider": subject.provider,
            "policy": subject.policy,
            "downgraded_from": subject.downgraded_from,
            "capped_from": subject.capped_from,
            "output_cap": subject.output_cap,
            "path": subject.path,
        }
        return {name: _bounded(value) for name, value in fields.items() if value}

    def _user(self, subject: Subject) -> str:
        if not subject.user or self._user_ids is UserIds.OMITTED:
            return ""
        if self._user_ids is UserIds.PLAIN:
            return subject.user
        # The same as in usage records and in the ledger's keys.
        return user_code(subject.tenant, subject.user)

    # === Events ================================================================

    def ledger_call(
        self, verb: str, seconds: float, *, failed: bool, reason: str = ""
    ) -> None:
        """Tell of failed calls, one line for all of them in ten seconds."""
        if not failed:
            return
        self._ledger_failures += 1
        now = self._clock()
        if now < self._ledger_line_due:
            return
        self._ledger_line_due = now + LEDGER_LINE_EVERY_S
        self.event(
            "ledger_failed",
            Level.WARNING,
            verb=verb,
            reason=reason,
            seconds=round(seconds, 3),
            failures=self._ledger_failures,
        )
        self._ledger_failures = 0

    def ledger_evicts(self, policy: str) -> None:
        """Tell once what a server does with holds and levels when memory is full."""
        if policy != self._eviction:
            self._eviction = policy
            level = Level.WARNING if policy else Level.INFO
            self.event("ledger_evicts", level, policy=policy or "noeviction")

    def holds_reaped(self, count: int) -> None:
        """Tell of holds that nobody had settled."""
        if count:
            self.event("holds_reaped", Level.WARNING, count=count)

    def budget_crossed(self, crossing: Crossing) -> None:
        """Tell how much of a budget is spent."""
        self.event(
            "budget_crossed",
            Level.WARNING,
            limit=_bounded(crossing.limit),
            percent=crossing.percent,
            spent=crossing.spent,
            capacity=crossing.capacity,
            window_ends_ms=crossing.window.end_ms,
        )

    def spool_size(self, waiting: int) -> None:
        """Tell when settles begin to wait for the ledger, and when none does."""
        if waiting and not self._spooled:
            self.event("spool_filling", Level.WARNING, waiting=waiting)
        elif self._spooled and not waiting:
            self.event("spool_empty")
        self._spooled = waiting

    def policy_loaded(self, digest: str, origin: Origin = FROM_FILE) -> None:
        """Tell which policy is in use from now on, and who published it."""
        fields: dict[str, object] = {"source": origin.source}
        if origin.version:
            fields |= {
                "version": origin.version,
                "by": _bounded(origin.by),
                "published_at": _moment(origin.published_at_ms / 1_000),
            }
        if origin.keys_version:
            fields["keys_version"] = origin.keys_version
        self.event("policy_loaded", Level.INFO, policy=digest, **fields)

    def policy_refused(self, problems: tuple[str, ...]) -> None:
        """Tell what is wrong with a changed policy."""
        listed = [_bounded(problem) for problem in problems[:MAX_LISTED]]
        self.event("policy_refused", Level.ERROR, problems=listed, count=len(problems))

    def webhook(self, outcome: Delivery, waiting: int, reason: str = "") -> None:
        """Tell of messages that the webhook did not take; of the others nothing."""
        if outcome is Delivery.DELIVERED:
            return
        lost = outcome is Delivery.DROPPED
        fields = {
            "reason": reason,
            "waiting": waiting,
            "left_out": self._throttle.admit(f"webhook {outcome}"),
        }
        level = Level.ERROR if lost else Level.WARNING
        self._bounded_event(f"webhook_{outcome}", level, fields)

    def envoy_rendering(self, stale: tuple[str, ...]) -> None:
        """Tell what of the policy is not in force until Envoy is rendered anew."""
        if not stale:
            self.event("envoy_current")
            return
        listed = [_bounded(path) for path in stale[:MAX_LISTED]]
        self.event("envoy_outdated", Level.WARNING, stale=listed, count=len(stale))

    def quotas_ineffective(self, digest: str, found: Mapping[str, str]) -> None:
        """Tell which quotas have no effect, once for a policy, and as they change."""
        told, self._ineffective = self._ineffective, (digest, dict(found))
        if not found or told == self._ineffective:
            return
        listed = {
            _bounded(quota): reason
            for quota, reason in islice(found.items(), MAX_LISTED)
        }
        self.event(
            "quotas_ineffective",
            Level.WARNING,
            policy=digest,
            quotas=listed,
            count=len(found),
        )

    def fault(self, where: str, error: BaseException) -> None:
        """Tell what broke and where; not what it said."""
        left_out = self._throttle.admit(f"{where} {type_name(error)}")
        fields = {"where": where, "left_out": left_out, **error_facts(error)}
        self._bounded_event("fault", Level.ERROR, fields)

    def _bounded_event(
        self, name: str, level: Level, fields: Mapping[str, object]
    ) -> None:
        """Write a line unless it is left out; it tells of those before it, if any."""
        told = dict(fields)
        left_out = told.pop("left_out", 0)
        if left_out:
            told["left_out"] = left_out
        if left_out is not None:
            self.event(name, level, **told)

    # === the rest ==============================================================

    def library(self, fields: Mapping[str, object]) -> None:
        """Tell that a library logged something; see `tokenweir.telemetry.libraries`."""
        self.event("library", Level.WARNING, **fields)

    def _gap(self, missing: int) -> str:
        return self._line("lines_dropped", Level.WARNING, {"count": missing})

    def _line(self, name: str, level: Level, fields: Mapping[str, object]) -> str:
        time_text = _moment(self._clock())
        # ASCII, so that no reader takes U+2028 or U+0085 for the end of a line.
        return json.dumps(
            {"time": time_text, "level": level, "event": name, **fields},
            separators=(",", ":"),
        )


def _moment(time_s: float) -> str:
    moment = datetime.fromtimestamp(time_s, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _refusal(rejection: Rejection) -> Mapping[str, object]:
    reason = reason_of(rejection)
    match rejection:
        case QuotaExhausted(failures=failures):
            return {
                "reason": reason,
                "limit": failures[0].axis,
                "quota": _bounded(failures[0].quota),
                "requested": failures[0].requested,
                "wait_ms": failures[0].wait_ms,
                "failed_quotas": _quotas(failures),
            }
        case Unsatisfiable(quota=quota, axis=axis, requested=requested):
            return {
                "reason": reason,
                "limit": axis,
                "quota": _bounded(quota),
                "requested": requested,
            }
        case _:
            return {"reason": reason}


def _settlement(settlement: Settlement) -> Mapping[str, object]:
    fields: dict[str, object] = {
        "status": settlement.status,
        "outcome": settlement.outcome,
        "source": settlement.source,
        "attempts": settlement.requests,
        "tokens": _tokens(settlement.usage),
        "cost_nanousd": settlement.cost_nanousd,
        "duration_ms": settlement.duration_ms,
    }
    for name in ("saved_nanousd", "cap_saved_nanousd"):
        if getattr(settlement, name):
            fields[name] = getattr(settlement, name)
    if settlement.model is not None:
        fields["answered_model"] = _bounded(settlement.model)
    if settlement.first_token_ms is not None:
        fields["first_token_ms"] = settlement.first_token_ms
    if settlement.flags:
        fields["flags"] = settlement.flags
    return fields


def _tokens(usage: TokenUsage) -> Mapping[str, int]:
    return {
        **usage.by_class(),
        "total_input_tokens": usage.total_input_tokens,
        "total_output_tokens": usage.total_output_tokens,
        "total_tokens": usage.total_tokens,
    }


def _quotas(failures: Sequence[QuotaFailure]) -> list[str]:
    return [_bounded(failure.quota) for failure in failures[:MAX_LISTED]]


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
