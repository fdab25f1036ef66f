"""
What refusals say to people: what happened, and what to do about it.

Rule: what a client or a policy wrote is quoted through `clean` only. No message
says more about the policy than the caller may know: a model that does not exist
and one that this key may not call read the same.
"""

from __future__ import annotations

from tokenweir.core.dialects import METERED_PATHS
from tokenweir.core.identify import (
    MAX_PATH_CHARS,
    MAX_QUERY_CHARS,
    MAX_QUERY_MEMBERS,
    TOKEN_FREE_PATHS,
)
from tokenweir.core.policy import BUDGETS, Axis
from tokenweir.core.rejection import QuotaExhausted, QuotaFailure, Unsatisfiable
from tokenweir.extproc.budget_wording import never, spent

# Of OpenAI's there is one more, which carries no body.
KNOWN_PATHS = tuple(dict.fromkeys((*METERED_PATHS, *TOKEN_FREE_PATHS, "/v1/models")))
MAX_QUOTED = 128  # a model or path in a message: enough to recognise it
MAX_NAMED = 3  # further limits in one message

LIMIT_NAMES = {
    Axis.REQUESTS: "requests-per-minute",
    Axis.TOKENS: "tokens-per-minute",
    Axis.INPUT_TOKENS: "input-tokens-per-minute",
    Axis.OUTPUT_TOKENS: "output-tokens-per-minute",
    Axis.CONCURRENCY: "concurrency",
}
UNITS = {
    Axis.REQUESTS: "requests",
    Axis.TOKENS: "tokens",
    Axis.INPUT_TOKENS: "input tokens",
    Axis.OUTPUT_TOKENS: "output tokens",
    Axis.CONCURRENCY: "slots",
}
SMALLER = {
    Axis.REQUESTS: "send fewer requests",
    Axis.TOKENS: "shorten the prompt or set a lower max_tokens",
    Axis.INPUT_TOKENS: "shorten the prompt",
    Axis.OUTPUT_TOKENS: "set a lower max_tokens",
    Axis.CONCURRENCY: "send fewer requests at once",
}
# A reservation is the worst case, which surprises whoever looks at real usage.
WORST_CASE = " (all of it is reserved until the answer is complete)"
RESERVED_WHOLE = frozenset({Axis.TOKENS, Axis.OUTPUT_TOKENS})
# What may stand before the path that a client adds to a base URL.
BASES = frozenset({"", "v1", "api", "openai", "anthropic"})

LEDGER_UNAVAILABLE = (
    "The gateway can't reach its usage ledger, and its policy refuses requests that "
    "it can't account for. Nothing was sent to the provider. Retry shortly; if it "
    "lasts, tell whoever runs the gateway."
)
DRAINING = (
    "This gateway instance is shutting down and takes no new requests. Nothing was "
    "sent to the provider. Retry: another instance will answer."
)
ENVOY_OUTDATED = (
    "This gateway's policy has changed, and the Envoy that runs was not rendered from "
    "it: it does not know the provider as it is now. Nothing was sent to any provider. "
    "Tell whoever runs the gateway to render Envoy's configuration anew."
)
PATH_TOO_LONG = (
    f"The request's path is longer than the {MAX_PATH_CHARS:,} characters that this "
    f"gateway takes, or its query than {MAX_QUERY_CHARS:,} or {MAX_QUERY_MEMBERS} "
    "members."
)
INTERNAL_FAULT = (
    "Something failed inside the gateway; its log has the details. Nothing was sent "
    "to the provider. Retry; if it lasts, tell whoever runs the gateway."
)


def clean(text: str, limit: int = MAX_QUOTED) -> str:
    """
    Return *text* as one line without control characters, at most *limit* long.

    Invisible and bidirectional marks and lone surrogates go too: they could make
    a message read as something else, or not be written at all.
    """
    shown = "".join(c for c in text[: 4 * limit] if c.isprintable())
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def seconds(wait_ms: int) -> str:
    """Return *wait_ms* rounded up: ``"8.2 s"``, from ten seconds on ``"12 s"``."""
    if wait_ms >= 10_000:
        return f"{-(-wait_ms // 1_000)} s"
    return f"{-(-max(1, wait_ms) // 100) / 10:g} s"


def exhausted(rejection: QuotaExhausted) -> str:
    """Return which limit is over, by how much, and what helps."""
    worst, *others = rejection.failures
    text = f"{_who(rejection.tenant, worst)} "
    if worst.axis in BUDGETS:
        text += spent(worst, _quota(worst))
    else:
        text += f"{LIMIT_NAMES[worst.axis]} limit: "
    if worst.axis is Axis.CONCURRENCY:
        text += _slots(worst)
    elif worst.axis not in BUDGETS:
        text += _amounts(worst)
    if others:
        text += f" Also over: {_names(others)}."
    return text


def _who(tenant: str, failure: QuotaFailure) -> str:
    own = any(part.startswith("tenant=") for part in failure.partition.split(","))
    return f"Tenant {clean(tenant)} is over {'its' if own else 'a shared'}"


def _amounts(failure: QuotaFailure) -> str:
    remedy = SMALLER[failure.axis]
    if failure.axis in RESERVED_WHOLE:
        remedy += WORST_CASE
    return (
        f"this request needs {_needed(failure)}, and of the "
        f"{failure.capacity:,} of {_quota(failure)}, {failure.used:,} are used and "
        f"{failure.reserved:,} are held by requests in flight; "
        f"{failure.rate:,} come back a minute. "
        f"Retry in {seconds(failure.wait_ms)}, or {remedy}."
    )


def _slots(failure: QuotaFailure) -> str:
    return (
        f"{failure.used + failure.reserved:,} of the {failure.capacity:,} requests "
        f"that {_quota(failure)} allows at once are in flight. "
        f"Retry when one of them ends, in about {seconds(failure.wait_ms)}, "
        f"or {SMALLER[failure.axis]}."
    )


def _needed(failure: QuotaFailure | Unsatisfiable) -> str:
    units = UNITS[failure.axis]
    return (
        f"{failure.requested:,} {units}"
        if failure.requested != 1
        else f"1 {units[:-1]}"
    )


def _quota(failure: QuotaFailure | Unsatisfiable) -> str:
    return f"quota {clean(failure.quota)} ({clean(failure.partition)})"


def _names(failures: list[QuotaFailure]) -> str:
    named = ", ".join(_quota(failure) for failure in failures[:MAX_NAMED])
    more = len(failures) - MAX_NAMED
    return f"{named} and {more} more" if more > 0 else named


def unsatisfiable(rejection: Unsatisfiable) -> str:
    """Return why no wait can help, and what can."""
    if rejection.axis in BUDGETS:
        return never(rejection, _quota(rejection))
    return (
        f"This request needs {_needed(rejection)}, but "
        f"{_quota(rejection)} never holds more than {rejection.capacity:,}: waiting "
        f"can't help. To make it fit, {SMALLER[rejection.axis]}, or have the quota's "
        "capacity raised."
    )


def model_not_allowed(model: str) -> str:
    """Return what to do about a model that can't be called."""
    return (
        f'The model "{clean(model)}" is not available to this API key: the policy of '
        "this gateway does not have it, or not for this tenant or key. Check the "
        "name, or have it allowed."
    )


def path_not_metered(path: str) -> str:
    """Return why a path is refused. The query is left out: it may hold a key."""
    shown = clean(path.partition("?")[0].partition("#")[0])
    meant = _meant(shown)
    if meant is not None:
        return (
            f'This gateway has no path "{shown}". Was "{meant}" meant? The base URL of '
            "OpenAI's SDKs ends in /v1, that of Anthropic's without it."
        )
    return (
        f'Requests like this one to "{shown}" can\'t be metered by this gateway and '
        "are refused. Check method and path; or have them listed in the provider's "
        "unknown_paths, which limits such requests by number only."
    )


def _meant(path: str) -> str | None:
    """Return the path that a client with a wrong base URL has missed, or None."""
    plain = path.rstrip("/").lower()
    for known in KNOWN_PATHS:
        end = known.removeprefix("/v1")
        before = plain.removesuffix(end)
        if known != path and before != plain and BASES.issuperset(before.split("/")):
            return known
    return None


def encoding_not_metered(encoding: str) -> str:
    """Return what to do about an encoded request body."""
    return (
        f'A request body with content-encoding "{clean(encoding, 32)}" can\'t be read '
        "here, so its tokens can't be counted. Send it without content-encoding, or as "
        "accept-encoding says."
    )


def body_too_large(limit_bytes: int) -> str:
    """Return how large a body may be."""
    return (
        f"The request body is larger than the {limit_bytes:,} bytes that this gateway "
        "takes. Send less, such as images by URL and not inline, or have body_limit "
        "raised."
    )
