"""
The one place where a rejection becomes HTTP.

Statuses and headers follow RFC 9110 (401, 413, 414, 415, Retry-After) and RFC 6585
(429). The client contract is docs/refusals.md: change both together.

WARNING: Envoy's own refusals (its `local_reply_config`) imitate these bodies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from tokenweir.core.content_coding import CODINGS
from tokenweir.core.dialects.base import Dialect, ErrorFacts
from tokenweir.core.dialects.bedrock_error import ERROR_TYPE_HEADER, error_type
from tokenweir.core.events import Headers
from tokenweir.core.headers import refusal_headers, wait_of
from tokenweir.core.policy import BUDGETS, Axis
from tokenweir.core.reason import reason_of
from tokenweir.core.rejection import (
    BodyTooLarge,
    Draining,
    EncodingNotMetered,
    EndedKey,
    EnvoyOutdated,
    InternalFault,
    LedgerUnavailable,
    Malformed,
    ModelNotAllowed,
    ModelUnpriced,
    PathNotMetered,
    PathTooLong,
    QuotaExhausted,
    QuotaFailure,
    Rejection,
    RouteNotAllowed,
    UnknownKey,
    Unsatisfiable,
)
from tokenweir.extproc import wording
from tokenweir.extproc.budget_wording import model_unpriced, moment
from tokenweir.extproc.key_wording import ended_key, route_not_allowed
from tokenweir.extproc.messages import LocalReply

MAX_MESSAGE = 500
MAX_PARTITION = 256  # may hold a user's id, which the client chose
MAX_FAILURES = 16  # as in the header `ratelimit`
INVALID_REQUEST = "invalid_request_error"
SERVER_ERROR = "server_error"


def respond(rejection: Rejection, dialect: Dialect) -> LocalReply:
    """
    Return what the client is told about *rejection*, as its *dialect* says it.

    The body is JSON. Every header comes once, and is one line of printable ASCII.
    """
    facts = _facts(rejection)
    headers = (
        ("content-type", "application/json"),
        *refusal_headers(rejection),
        *_extra_headers(rejection),
    )
    if dialect.name == "bedrock":
        headers += ((ERROR_TYPE_HEADER, error_type(facts)),)
    return LocalReply(
        facts.status,
        headers,
        dialect.error_body(facts),
        details=f"tokenweir_{reason_of(rejection)}",
    )


def _extra_headers(rejection: Rejection) -> Headers:
    if isinstance(rejection, UnknownKey | EndedKey):
        # RFC 9110, 11.6.1: a 401 "MUST send a WWW-Authenticate header field".
        return (("www-authenticate", 'Bearer realm="tokenweir"'),)
    if isinstance(rejection, EncodingNotMetered):
        # RFC 9110, 15.5.16: a 415 tells by Accept-Encoding what would be taken.
        return (("accept-encoding", ", ".join(CODINGS)),)
    return ()


def _facts(rejection: Rejection) -> ErrorFacts:  # noqa: C901, PLR0911, PLR0912 - a table
    """Return status, type, code, message, param and detail of *rejection*."""
    match rejection:
        case QuotaExhausted():
            return _quota_exhausted(rejection)
        case Unsatisfiable():
            return _unsatisfiable(rejection)
        case Malformed(message=message, param=param):
            return _refused(rejection, 400, message, param=param)
        case PathTooLong():
            return _refused(rejection, 414, wording.PATH_TOO_LONG)
        case UnknownKey(message=message):
            return _refused(rejection, 401, message, code="invalid_api_key")
        case EndedKey(end=end, since_ms=since_ms):
            message, told = ended_key(end, since_ms), {"since": moment(since_ms)}
            return _refused(rejection, 401, message, code="invalid_api_key", more=told)
        case RouteNotAllowed(route=route):
            message, told = route_not_allowed(route), {"route": route}
            return _refused(rejection, 403, message, more=told)
        case ModelNotAllowed(model=model):
            message = wording.model_not_allowed(model)
            return _refused(rejection, 403, message, param="model")
        case ModelUnpriced(model=model, what=what):
            message = model_unpriced(wording.clean(model), wording.clean(what, 32))
            return _refused(rejection, 403, message, param="model")
        case PathNotMetered(path=path):
            return _refused(rejection, 403, wording.path_not_metered(path))
        case BodyTooLarge(limit_bytes=limit_bytes):
            message = wording.body_too_large(limit_bytes)
            more = {"limit_bytes": limit_bytes}
            return _refused(rejection, 413, message, more=more)
        case EncodingNotMetered(encoding=encoding):
            return _refused(rejection, 415, wording.encoding_not_metered(encoding))
        case InternalFault():
            return _broken(rejection, 500, wording.INTERNAL_FAULT)
        case LedgerUnavailable():
            return _broken(rejection, 503, wording.LEDGER_UNAVAILABLE)
        case Draining():
            return _broken(rejection, 503, wording.DRAINING)
        case EnvoyOutdated():
            return _broken(rejection, 503, wording.ENVOY_OUTDATED)
        case _:
            assert_never(rejection)


def _quota_exhausted(rejection: QuotaExhausted) -> ErrorFacts:
    worst = rejection.failures[0]
    by_number = worst.axis in (Axis.REQUESTS, Axis.CONCURRENCY)
    kind, code = "requests" if by_number else "tokens", "rate_limit_exceeded"
    if rejection.is_budget:
        kind = code = "insufficient_quota"
    return ErrorFacts(
        status=429,
        type=kind,
        code=code,
        message=wording.exhausted(rejection),
        param=None,
        detail={
            **_failure(worst),
            # A budget's window may turn next month: no SDK is to wait for that.
            "retryable": not rejection.is_budget,
            "refusal": reason_of(rejection),
            "failures": [
                _failure(failure) for failure in rejection.failures[:MAX_FAILURES]
            ],
        },
    )


def _failure(failure: QuotaFailure) -> Mapping[str, object]:
    return {
        **_limit(failure),
        "used": failure.used,
        "reserved": failure.reserved,
        "requested": failure.requested,
        "retry_after_ms": max(1, failure.wait_ms),
    }


def _unsatisfiable(rejection: Unsatisfiable) -> ErrorFacts:
    more = {**_limit(rejection), "requested": rejection.requested}
    return _refused(rejection, 400, wording.unsatisfiable(rejection), more=more)


def _limit(limit: QuotaFailure | Unsatisfiable) -> Mapping[str, object]:
    if limit.axis in BUDGETS:
        return _budget(limit)
    return {
        "limit": str(limit.axis),
        "quota": wording.clean(limit.quota),
        "partition": wording.clean(limit.partition, MAX_PARTITION),
        "window": None if limit.axis is Axis.CONCURRENCY else "1m",
        "rate_per_minute": None if limit.axis is Axis.CONCURRENCY else limit.rate,
        "capacity": limit.capacity,
    }


def _budget(limit: QuotaFailure | Unsatisfiable) -> Mapping[str, object]:
    known: dict[str, object] = {
        "limit": str(limit.axis),
        "quota": wording.clean(limit.quota),
        "partition": wording.clean(limit.partition, MAX_PARTITION),
        "unit": "nanousd" if limit.axis is Axis.BUDGET_USD else "tokens",
        "capacity": limit.capacity,
    }
    if isinstance(limit, QuotaFailure):
        known["window"] = limit.per
        known["resets_at"] = moment(limit.resets_at_ms)
    return known


def _refused(
    rejection: Rejection,
    status: int,
    message: str,
    *,
    code: str | None = None,
    param: str | None = None,
    more: Mapping[str, object] | None = None,
) -> ErrorFacts:
    """Return a refusal that the client has to do something about."""
    reason = reason_of(rejection)
    return ErrorFacts(
        status=status,
        type=INVALID_REQUEST,
        code=code or reason,
        message=wording.clean(message, MAX_MESSAGE),
        param=None if param is None else wording.clean(param),
        detail={**(more or {}), "retryable": False, "refusal": reason},
    )


def _broken(rejection: Rejection, status: int, message: str) -> ErrorFacts:
    """Return a refusal that is no fault of the client, and passes."""
    reason = reason_of(rejection)
    return ErrorFacts(
        status=status,
        type=SERVER_ERROR,
        code=reason,
        message=message,
        param=None,
        detail={
            "retry_after_ms": max(1, wait_of(rejection) or 0),
            "retryable": True,
            "refusal": reason,
        },
    )
