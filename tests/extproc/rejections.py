"""Rejections, and what clients read of the answers to them."""

import json
from typing import Any

from tokenweir.core.dialects import by_route
from tokenweir.core.policy import Axis, KeyEnd
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
from tokenweir.extproc.messages import LocalReply

OPENAI, ANTHROPIC = by_route("chat_completions"), by_route("messages")
TPM = QuotaFailure(
    quota="acme.tokens_per_minute",
    axis=Axis.TOKENS,
    partition="tenant=acme",
    capacity=60_000,
    used=41_000,
    reserved=19_000,
    requested=8_200,
    wait_ms=8_200,
    rate=60_000,
)
RPM = QuotaFailure(
    quota="acme.requests_per_minute",
    axis=Axis.REQUESTS,
    partition="tenant=acme",
    capacity=600,
    used=600,
    reserved=0,
    requested=1,
    wait_ms=100,
    rate=600,
)
SLOTS = QuotaFailure(
    quota="acme.concurrency",
    axis=Axis.CONCURRENCY,
    partition="tenant=acme",
    capacity=8,
    used=0,
    reserved=8,
    requested=1,
    wait_ms=2_000,
)
MONEY = QuotaFailure(
    quota="acme.budget_usd_per_day",
    axis=Axis.BUDGET_USD,
    partition="tenant=acme",
    capacity=50_000_000_000,
    used=49_900_000_000,
    reserved=60_000_000,
    requested=250_000_000,
    wait_ms=43_200_000,
    per="day",
    resets_at_ms=1_767_312_000_000,
)
OVER_TPM = QuotaExhausted("acme", (TPM, RPM))
REJECTIONS: list[tuple[Rejection, int, str, str]] = [
    (OVER_TPM, 429, "tokens", "rate_limit_exceeded"),
    (QuotaExhausted("acme", (RPM,)), 429, "requests", "rate_limit_exceeded"),
    (QuotaExhausted("acme", (SLOTS,)), 429, "requests", "rate_limit_exceeded"),
    (
        QuotaExhausted("acme", (MONEY,)),
        429,
        "insufficient_quota",
        "insufficient_quota",
    ),
    (
        Unsatisfiable("acme.budget", Axis.BUDGET_TOKENS, "tenant=acme", 600, 1_300),
        400,
        "invalid_request_error",
        "request_exceeds_limit",
    ),
    (
        Unsatisfiable("acme.tpm", Axis.TOKENS, "tenant=acme", 60_000, 130_000, 9_000),
        400,
        "invalid_request_error",
        "request_exceeds_limit",
    ),
    (
        Malformed("The body is no JSON object.", "messages"),
        400,
        "invalid_request_error",
        "malformed_request",
    ),
    (PathTooLong(), 414, "invalid_request_error", "path_too_long"),
    (UnknownKey("No API key."), 401, "invalid_request_error", "invalid_api_key"),
    *(
        (EndedKey(end, 1_767_312_000_000), 401, "invalid_request_error", code)
        for end, code in zip(KeyEnd, ["invalid_api_key"] * 3, strict=True)
    ),
    (RouteNotAllowed("messages"), 403, "invalid_request_error", "route_not_allowed"),
    (ModelNotAllowed("gpt-9"), 403, "invalid_request_error", "model_not_allowed"),
    (
        ModelUnpriced("gpt-9", "model"),
        403,
        "invalid_request_error",
        "model_unpriced",
    ),
    (PathNotMetered("/v1/x"), 403, "invalid_request_error", "path_not_metered"),
    (BodyTooLarge(8_388_608), 413, "invalid_request_error", "body_too_large"),
    (
        EncodingNotMetered("snappy"),
        415,
        "invalid_request_error",
        "encoding_not_metered",
    ),
    (InternalFault(1_000), 500, "server_error", "internal_fault"),
    (LedgerUnavailable(1_000), 503, "server_error", "ledger_unavailable"),
    (Draining(1_000), 503, "server_error", "draining"),
    (EnvoyOutdated(1_000), 503, "server_error", "envoy_outdated"),
]
ALL = [row[0] for row in REJECTIONS]
ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    413: "request_too_large",
    414: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
}


def openai_error(reply: LocalReply) -> dict[str, Any]:
    """Return the error object of a reply in OpenAI's dialect."""
    body = json.loads(reply.body)
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    return error


def anthropic_error(reply: LocalReply) -> dict[str, Any]:
    """Return the error object of a reply in Anthropic's dialect."""
    body = json.loads(reply.body)
    assert body["type"] == "error"
    error: dict[str, Any] = body["error"]
    return error
