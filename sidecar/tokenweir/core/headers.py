"""
Rate-limit headers: the one module that makes or renames them.

Three families say the same, for different readers:

    x-ratelimit-*            OpenAI's: the tightest limit on requests, and on tokens
    anthropic-ratelimit-*    Anthropic's: by kind of tokens; reset is a time of day
    ratelimit, -policy       draft-ietf-httpapi-ratelimit-headers-11: every limit

Rule 1: on an answer, reset is the time until the limit is full again. On a
refusal it names the same moment as retry-after.

Where refused callers are staggered (`tokenweir.core.stagger`) that moment is theirs
alone, and later than the true wait, which the body tells.

Rule 2: limits in shadow mode are nobody's business but the operator's.

Rule 3: budgets are no rates. What is left of the money is told when it refuses.

Rule 4: every value is one line of printable ASCII, and not empty.

What a provider says about its own limits must not be taken for ours: it moves
to ``x-upstream-ratelimit-*``. Its ``retry-after`` stays, since it is its 429.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, assert_never

from tokenweir.core.events import Headers
from tokenweir.core.header_values import (
    duration,
    printable_ascii,
    sf_integer,
    sf_string,
    time_of_day,
    whole_seconds,
)
from tokenweir.core.hold import LimitState
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
from tokenweir.core.stagger import PATIENCE_MS
from tokenweir.core.ticket import Ticket

REFUSAL_HEADER = "x-tokenweir-refusal"
DOWNGRADED_HEADER = "x-tokenweir-downgraded-from"
OUTPUT_CAP_HEADER = "x-tokenweir-output-cap"
TOKEN_AXES = frozenset({Axis.TOKENS, Axis.INPUT_TOKENS, Axis.OUTPUT_TOKENS})
# By suffix of x-ratelimit-*. Slots are in neither: their number is no rate, and
# clients that pace themselves would take it for one.
FAMILIES = {"requests": frozenset({Axis.REQUESTS}), "tokens": TOKEN_AXES}
# Anthropic defines "tokens" as "the most restrictive limit currently in effect".
ANTHROPIC_FAMILIES = {
    "requests": frozenset({Axis.REQUESTS}),
    "tokens": TOKEN_AXES,
    "input-tokens": frozenset({Axis.INPUT_TOKENS}),
    "output-tokens": frozenset({Axis.OUTPUT_TOKENS}),
}
# The draft registers "requests", "content-bytes" and "concurrent-requests" and
# has no unit for tokens. Leaving it out would claim requests.
UNITS = {
    Axis.REQUESTS: "requests",
    Axis.TOKENS: "tokens",
    Axis.INPUT_TOKENS: "input-tokens",
    Axis.OUTPUT_TOKENS: "output-tokens",
    Axis.CONCURRENCY: "concurrent-requests",
}
UPSTREAM_PREFIX = "x-upstream-"
# "x-tokenweir-" too: no provider may pass for this gateway.
RENAMED_PREFIXES = ("x-ratelimit", "anthropic-ratelimit", "ratelimit", "x-tokenweir-")
# The longest that current SDKs wait for by themselves. OpenAI's gives up above
# it and older ones ignore the header and come back at once; Anthropic's sleeps
# as long as it is told. So beyond it the app is asked, not its SDK.
SDK_PATIENCE_MS = PATIENCE_MS
MAX_LISTED = 16  # limits in one header: a policy must not outgrow Envoy's 60 KiB
# Envoy refuses an answer of more than 100 header mutations.
MAX_RENAMED = 32
MAX_VALUE = 256


class HeaderChanges(NamedTuple):
    """What to do with a response's headers. No name is in both lists."""

    set_headers: Headers
    remove_headers: tuple[str, ...]


# === answers ======================================================================


def success_headers(
    states: Sequence[LimitState], anthropic_at_ms: int | None = None
) -> Headers:
    """
    Return the headers that tell how the limits stand after this exchange's reserve.

    *anthropic_at_ms* is the wall clock in Unix milliseconds. With it Anthropic's
    family is made too: its resets are times of day, not durations.
    """
    enforced = [state for state in states if not state.limit.shadow]
    headers: list[tuple[str, str]] = []
    for family, axes in FAMILIES.items():
        tightest = _tightest(enforced, axes)
        if tightest is not None:
            reset = duration(tightest.reset_ms)
            headers += _openai_fields(
                family, tightest.limit.capacity, tightest.remaining, reset
            )
    if anthropic_at_ms is not None:
        headers += _anthropic_fields(enforced, anthropic_at_ms)
    headers += _ietf_fields(enforced)
    return tuple(headers)


def response_changes(
    upstream: Headers,
    states: Sequence[LimitState],
    anthropic_at_ms: int | None = None,
) -> HeaderChanges:
    """Return `upstream_renames` of *upstream* and `success_headers`, merged."""
    renames = upstream_renames(upstream)
    ours = success_headers(states, anthropic_at_ms)
    names = {name for name, _ in ours}
    return HeaderChanges(
        renames.set_headers + ours,
        tuple(name for name in renames.remove_headers if name not in names),
    )


def with_decisions(changes: HeaderChanges, ticket: Ticket) -> HeaderChanges:
    """Return *changes* with what was changed in the request, if anything was."""
    subject = ticket.hold.subject
    told = {}
    if subject.downgraded_from:
        told[DOWNGRADED_HEADER] = printable_ascii(subject.downgraded_from, MAX_VALUE)
    if subject.output_cap:
        told[OUTPUT_CAP_HEADER] = f"{subject.output_cap};from={subject.capped_from}"
    return HeaderChanges(
        (*changes.set_headers, *told.items()),
        tuple(name for name in changes.remove_headers if name not in told),
    )


def visible_headers(upstream: Headers, ticket: Ticket, now_ms: int) -> HeaderChanges:
    """
    Return what is done to the headers of the answer to the exchange of *ticket*.

    *upstream* are the provider's own, *now_ms* is the time of day.
    """
    anthropic = ticket.dialect == "messages"
    at_ms = now_ms if anthropic else None
    return with_decisions(response_changes(upstream, ticket.states, at_ms), ticket)


def upstream_renames(headers: Headers) -> HeaderChanges:
    """
    Return what moves a provider's rate-limit headers out of the way of ours.

    Lines of one name are joined by commas (RFC 9110, 5.3). Where two families
    meet in one new name, the first stays.
    """
    values: dict[str, list[str]] = {}
    for name, value in headers:
        if name.startswith(RENAMED_PREFIXES):
            values.setdefault(name, []).append(value)
    renamed: dict[str, str] = {}
    for name, lines in values.items():
        value = printable_ascii(", ".join(lines), MAX_VALUE)
        if value:
            new_name = UPSTREAM_PREFIX + name.removeprefix("x-").removeprefix(
                "anthropic-"
            )
            renamed.setdefault(new_name, value)
    return HeaderChanges(tuple(renamed.items())[:MAX_RENAMED], tuple(values))


# === refusals =====================================================================


def refusal_headers(rejection: Rejection) -> Headers:
    """
    Return what a refusal says in headers: whose it is, and when to come back.

    SDKs read ``x-should-retry`` first, then ``retry-after-ms``, then
    ``retry-after``.
    """
    headers: list[tuple[str, str]] = [(REFUSAL_HEADER, reason_of(rejection))]
    wait_ms = wait_of(rejection)
    if wait_ms is None:
        return (*headers, ("x-should-retry", "false"))
    if isinstance(rejection, QuotaExhausted):
        wait_ms = rejection.return_ms
    headers += [
        ("retry-after", str(whole_seconds(wait_ms))),
        ("retry-after-ms", str(max(1, wait_ms))),
        ("x-should-retry", "true" if _is_soon(rejection, wait_ms) else "false"),
    ]
    if isinstance(rejection, QuotaExhausted):
        headers += _exhausted_fields(rejection)
    return tuple(headers)


def _is_soon(rejection: Rejection, wait_ms: int) -> bool:
    """Tell if an SDK should come back by itself: for a budget, never."""
    if isinstance(rejection, QuotaExhausted) and rejection.is_budget:
        return False
    return wait_ms <= SDK_PATIENCE_MS


def wait_of(rejection: Rejection) -> int | None:
    """Return how long to wait in milliseconds, or None if no wait helps."""
    match rejection:
        case (
            QuotaExhausted()
            | LedgerUnavailable()
            | Draining()
            | EnvoyOutdated()
            | InternalFault()
        ):
            return rejection.wait_ms
        case (
            Unsatisfiable()
            | Malformed()
            | PathTooLong()
            | UnknownKey()
            | EndedKey()
            | RouteNotAllowed()
            | ModelNotAllowed()
            | ModelUnpriced()
            | PathNotMetered()
            | EncodingNotMetered()
            | BodyTooLarge()
        ):
            return None
        case _:
            assert_never(rejection)


def _exhausted_fields(rejection: QuotaExhausted) -> Iterable[tuple[str, str]]:
    # Whole seconds, also below one: the same moment as retry-after.
    reset = duration(1_000 * whole_seconds(rejection.return_ms))
    for family, axes in FAMILIES.items():
        failures = [failure for failure in rejection.failures if failure.axis in axes]
        if failures:
            worst = failures[0]
            yield from _openai_fields(family, worst.capacity, left_of(worst), reset)
    # No ratelimit-policy: a failure does not know its rate.
    rates = [failure for failure in rejection.failures if failure.axis not in BUDGETS]
    if rates:
        yield (
            "ratelimit",
            ", ".join(
                _service_limit(failure.quota, left_of(failure), failure.return_ms)
                for failure in rates[:MAX_LISTED]
            ),
        )


def left_of(failure: QuotaFailure) -> int:
    """Return what the failed quota still holds: less than was asked for."""
    return max(0, failure.capacity - failure.used - failure.reserved)


# === fields =======================================================================


def _tightest(states: Sequence[LimitState], axes: frozenset[Axis]) -> LimitState | None:
    """Return the state with the least share left; of equals, the slowest to fill."""
    return min(
        (state for state in states if state.limit.axis in axes),
        key=lambda state: (_share(state), -state.reset_ms),
        default=None,
    )


def _share(state: LimitState) -> float:
    return state.remaining / max(1, state.limit.capacity)


def _openai_fields(
    family: str, limit: int, remaining: int, reset: str
) -> list[tuple[str, str]]:
    return [
        (f"x-ratelimit-limit-{family}", str(limit)),
        (f"x-ratelimit-remaining-{family}", str(max(0, remaining))),
        (f"x-ratelimit-reset-{family}", reset),
    ]


def _anthropic_fields(
    states: Sequence[LimitState], now_ms: int
) -> Iterable[tuple[str, str]]:
    for family, axes in ANTHROPIC_FAMILIES.items():
        state = _tightest(states, axes)
        if state is not None:
            prefix = f"anthropic-ratelimit-{family}"
            yield f"{prefix}-limit", str(state.limit.capacity)
            yield f"{prefix}-remaining", str(max(0, state.remaining))
            yield f"{prefix}-reset", time_of_day(now_ms + max(0, state.reset_ms))


def _ietf_fields(states: Sequence[LimitState]) -> list[tuple[str, str]]:
    """
    Return the draft's two fields, in the order of the policy.

    "The field value SHOULD remain consistent over a sequence of HTTP responses",
    so it is not sorted by what is left.
    """
    listed = [state for state in states if state.limit.axis not in BUDGETS]
    if len(listed) > MAX_LISTED:
        tightest = sorted(listed, key=_share)[:MAX_LISTED]
        listed = [state for state in listed if state in tightest]
    if not listed:
        return []
    limits = (
        _service_limit(state.limit.quota, state.remaining, state.reset_ms)
        for state in listed
    )
    return [
        ("ratelimit", ", ".join(limits)),
        ("ratelimit-policy", ", ".join(map(_quota_policy, listed))),
    ]


def _service_limit(quota: str, remaining: int, wait_ms: int) -> str:
    seconds = max(0, -(-wait_ms // 1_000))
    return f"{sf_string(quota)};r={sf_integer(remaining)};t={sf_integer(seconds)}"


def _quota_policy(state: LimitState) -> str:
    """
    Return one item of ratelimit-policy.

    The window is the time in which an empty bucket fills: for the default
    capacity 60 s. So quota and window state burst and rate at once, and what
    remains is never above the quota.
    """
    limit = state.limit
    item = f"{sf_string(limit.quota)};q={sf_integer(limit.capacity)}"
    item += f';qu="{UNITS[limit.axis]}"'
    if limit.axis is Axis.CONCURRENCY:
        return item
    seconds = max(1, -(-limit.capacity * 60 // max(1, limit.rate)))
    return f"{item};w={sf_integer(seconds)}"
