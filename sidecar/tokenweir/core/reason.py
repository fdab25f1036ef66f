"""
The names of refusals, all of them in one place.

They are the values of the header ``x-tokenweir-refusal``, the ``refusal`` in error
bodies, the ``reason`` in logs, and a label of metrics. A name that was published
stays.
"""

from __future__ import annotations

import enum
from typing import assert_never

from tokenweir.core.policy import KeyEnd
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
    Rejection,
    RouteNotAllowed,
    UnknownKey,
    Unsatisfiable,
)


class Reason(enum.StrEnum):
    """Why a client got an answer that is not its provider's."""

    QUOTA_EXHAUSTED = "quota_exhausted"
    BUDGET_EXHAUSTED = "budget_exhausted"
    REQUEST_EXCEEDS_LIMIT = "request_exceeds_limit"
    MALFORMED_REQUEST = "malformed_request"
    PATH_TOO_LONG = "path_too_long"
    UNKNOWN_KEY = "unknown_key"
    EXPIRED_KEY = "expired_key"
    ROTATED_KEY = "rotated_key"
    REVOKED_KEY = "revoked_key"
    ROUTE_NOT_ALLOWED = "route_not_allowed"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    MODEL_UNPRICED = "model_unpriced"
    PATH_NOT_METERED = "path_not_metered"
    ENCODING_NOT_METERED = "encoding_not_metered"
    BODY_TOO_LARGE = "body_too_large"
    LEDGER_UNAVAILABLE = "ledger_unavailable"
    DRAINING = "draining"
    ENVOY_OUTDATED = "envoy_outdated"
    INTERNAL_FAULT = "internal_fault"
    # Said by Envoy, where no processor or no provider could say anything.
    GOVERNOR_UNAVAILABLE = "governor_unavailable"
    UPSTREAM_UNAVAILABLE = "upstream_unavailable"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_INVALID = "upstream_invalid"
    REQUEST_TIMEOUT = "request_timeout"
    UPGRADE_NOT_METERED = "upgrade_not_metered"


# No rejection of the core: `tokenweir.envoyconf.local_reply` has their answers.
ENVOY_REASONS = frozenset(
    {
        Reason.GOVERNOR_UNAVAILABLE,
        Reason.UPSTREAM_UNAVAILABLE,
        Reason.UPSTREAM_TIMEOUT,
        Reason.UPSTREAM_INVALID,
        Reason.REQUEST_TIMEOUT,
        Reason.UPGRADE_NOT_METERED,
    }
)

_REASON_OF_END = {
    KeyEnd.EXPIRED: Reason.EXPIRED_KEY,
    KeyEnd.ROTATED: Reason.ROTATED_KEY,
    KeyEnd.REVOKED: Reason.REVOKED_KEY,
}


def reason_of(rejection: Rejection) -> Reason:  # noqa: C901, PLR0911, PLR0912 - a table
    """Return the name of *rejection*."""
    match rejection:
        case QuotaExhausted(is_budget=is_budget):
            return Reason.BUDGET_EXHAUSTED if is_budget else Reason.QUOTA_EXHAUSTED
        case Unsatisfiable():
            return Reason.REQUEST_EXCEEDS_LIMIT
        case Malformed():
            return Reason.MALFORMED_REQUEST
        case PathTooLong():
            return Reason.PATH_TOO_LONG
        case UnknownKey():
            return Reason.UNKNOWN_KEY
        case EndedKey(end=end):
            return _REASON_OF_END[end]
        case RouteNotAllowed():
            return Reason.ROUTE_NOT_ALLOWED
        case ModelNotAllowed():
            return Reason.MODEL_NOT_ALLOWED
        case ModelUnpriced():
            return Reason.MODEL_UNPRICED
        case PathNotMetered():
            return Reason.PATH_NOT_METERED
        case EncodingNotMetered():
            return Reason.ENCODING_NOT_METERED
        case BodyTooLarge():
            return Reason.BODY_TOO_LARGE
        case LedgerUnavailable():
            return Reason.LEDGER_UNAVAILABLE
        case Draining():
            return Reason.DRAINING
        case EnvoyOutdated():
            return Reason.ENVOY_OUTDATED
        case InternalFault():
            return Reason.INTERNAL_FAULT
        case _:
            assert_never(rejection)
