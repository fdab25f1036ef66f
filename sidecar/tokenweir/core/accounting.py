"""
From what was seen of a response to what is charged.

    reported whole         the report
    reported in part       the report, and what was counted of the rest
    not reported           input as estimated, output as counted
    reported beyond belief as if not reported
    nothing readable       input as estimated, output from the bytes
    refused before work    nothing, but the requests

Input is owed as soon as the request was forwarded and not refused. As estimated is
never below the count before corrections: who chooses the prompts can have them learned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.events import ResponseHead
from tokenweir.core.plausible import generated_at_most, is_plausible
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import Source, TokenUsage

# Bytes of a response that can't be read, for each token that is charged: few,
# so that an unreadable answer is not a cheap one.
BYTES_PER_TOKEN = 4
ENCODED_BYTES_PER_TOKEN = 1
# Envoy's words for a request that no provider began to work on: it was never sent,
# or refused as a stream (RFC 9113, 8.7: "closed prior to any processing having
# occurred"). What ends in any other way of Envoy's own may have been worked on.
NOT_SENT = frozenset(
    {
        "cluster_not_found",
        "connection_timeout",
        "local_connection_failure",
        "local_refused_stream_reset",
        "no_healthy_upstream",
        "overflow",
        "remote_connection_failure",
        "remote_refused_stream_reset",
        "route_not_found",
    }
)
FROM_PROVIDER = frozenset({"", "via_upstream"})
# Where a reserve without output is what a body and a model's name say, not the path:
# what can't be read is not taken for nothing there.
_UNSURE_ROUTES = frozenset({"invoke_model"})


def refused_before_work(head: ResponseHead) -> bool:
    """Tell if *head* says that no provider did any work for this request."""
    if head.status < 400:
        return False
    return from_provider(head) or _reason_in(head.details) in NOT_SENT


def from_provider(head: ResponseHead) -> bool:
    """Tell if *head* is the provider's, and not made up by Envoy."""
    return head.details in FROM_PROVIDER


def _reason_in(details: str) -> str:
    # upstream_reset_before_response_started{remote_connection_failure|TLS_error:_…}
    _, _, reset = details.partition("{")
    return reset.partition("|")[0].removesuffix("}") or details


@dataclass(frozen=True, slots=True)
class BodySeen:
    """How much of a response body passed, and how much there was to come."""

    seen_bytes: int = 0
    announced_bytes: int | None = None
    encoded: bool = False


def doubt(ticket: Ticket, facts: ResponseFacts, passed_bytes: int) -> bool:
    """
    Drop what was reported from *facts* if it can't be true.

    Returns:
        Whether any report was dropped, now or before.
    """
    if facts.usage is not None and not is_plausible(ticket, facts.usage, passed_bytes):
        facts.usage, facts.usage_final = None, False
        facts.absurd = True
    return facts.absurd


def reported_usage(facts: ResponseFacts) -> TokenUsage | None:
    """Return the usage if it needs no counting."""
    if facts.usage is not None and facts.usage_final:
        return facts.usage
    return None


def counted_usage(
    ticket: Ticket, facts: ResponseFacts, output_tokens: int
) -> TokenUsage:
    """Return what is owed when *output_tokens* were counted of what passed."""
    output_tokens = min(output_tokens, generated_at_most(ticket))
    if facts.usage is None:
        return TokenUsage(input_tokens=ticket.owed_input, output_tokens=output_tokens)
    usage = facts.usage
    if usage.total_input_tokens == 0:
        usage = replace(usage, input_tokens=ticket.owed_input)
    missing = output_tokens - usage.total_output_tokens
    if missing > 0:
        usage = replace(usage, output_tokens=usage.output_tokens + missing)
    return usage


def estimated_output(ticket: Ticket, body: BodySeen) -> int:
    """
    Return the output tokens of a body that could not be read.

    It is at most what was reserved, or if no output was reserved where there may be
    some all the same, at most what the model can write.
    """
    size_bytes = max(body.seen_bytes, body.announced_bytes or 0)
    per_token = ENCODED_BYTES_PER_TOKEN if body.encoded else BYTES_PER_TOKEN
    most = ticket.hold.amounts.output_tokens
    if not most and ticket.output_cap is None and ticket.dialect in _UNSURE_ROUTES:
        most = generated_at_most(ticket)
    return min(-(-size_bytes // per_token), most)


def progress(ticket: Ticket, facts: ResponseFacts, passed_bytes: int) -> int:
    """Return the output tokens of an answer that goes on: as reported, or by size."""
    tokens = min(facts.text_bytes // BYTES_PER_TOKEN, generated_at_most(ticket))
    usage = facts.usage
    if usage is None or not is_plausible(ticket, usage, passed_bytes):
        return tokens
    return max(tokens, usage.total_output_tokens)


def nothing_owed(facts: ResponseFacts) -> bool:
    """
    Tell if a 200 carried an error before any work: nothing was generated.

    What a stream announces at its beginning is the size of the input, not work.
    """
    began = facts.usage_final or facts.text_bytes > 0 or facts.hidden
    return facts.error is not None and not began


def worst_source(source: Source, facts: ResponseFacts) -> Source:
    """Return *source*, or worse if not all of the body could be read."""
    return Source.ESTIMATED if facts.unreadable else source
