"""
Anthropic's usage object.

There, classes of input are beside each other: `input_tokens` leaves out what was
read from or written to a cache. `output_tokens` includes thinking, which newer
models tell apart.

Figures are cumulative. `message_start` has those of the input and a first one of
the output; each `message_delta` replaces what it names, and may repeat the rest.
"""

from __future__ import annotations

from typing import Any

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.facts import figure, is_absurd, name_tier
from tokenweir.core.usage import TokenUsage

# A mode at a price of its own, beside the tiers.
_FAST = "fast"
_INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def read_usage(report: object, facts: ResponseFacts, *, begun_only: bool) -> None:
    """
    Take the usage object *report* into *facts*.

    *begun_only*: it stands at the beginning of a stream, so its output is not all.
    """
    if not isinstance(report, dict):
        return
    # An answer that began in the fast mode stays in it, whatever a later event repeats.
    if facts.service_tier != _FAST:
        fast = report.get("speed") == _FAST
        name_tier(facts, _FAST if fast else report.get("service_tier"))
    if is_absurd(report):
        facts.absurd = True
        return
    figures = [figure(report.get(name)) for name in (*_INPUTS, "output_tokens")]
    known = facts.usage
    if not any(figures) and (known is not None or figures == [None] * len(figures)):
        return
    facts.usage = _merge(report, known or TokenUsage())
    # A beginning may tell the output alone: its input is not known to be 0.
    known_input = known.total_input_tokens if known else 0
    has_input = known_input > 0 or figures[0] is not None
    if has_input and figures[-1] is not None and not begun_only:
        facts.usage_final = True


def _merge(report: dict[str, Any], known: TokenUsage) -> TokenUsage:
    """Return *known* with the figures of *report*; zero and unknown erase nothing."""
    written, written_1h = _cache_writes(report, known)
    output = figure(report.get("output_tokens")) or known.total_output_tokens
    thought = _inner(report, "output_tokens_details", "thinking_tokens")
    thinking = min(thought or known.reasoning_tokens, output)
    return TokenUsage(
        input_tokens=figure(report.get("input_tokens")) or known.input_tokens,
        cached_input_tokens=figure(report.get("cache_read_input_tokens"))
        or known.cached_input_tokens,
        cache_write_tokens=written - written_1h,
        cache_write_1h_tokens=written_1h,
        output_tokens=output - thinking,
        reasoning_tokens=thinking,
    )


def _cache_writes(report: dict[str, Any], known: TokenUsage) -> tuple[int, int]:
    """Return what was written to caches in all, and for an hour."""
    short = _inner(report, "cache_creation", "ephemeral_5m_input_tokens")
    long = _inner(report, "cache_creation", "ephemeral_1h_input_tokens")
    written = figure(report.get("cache_creation_input_tokens")) or short + long
    if not written:
        written = known.cache_write_tokens + known.cache_write_1h_tokens
    return written, min(long or known.cache_write_1h_tokens, written)


def _inner(report: dict[str, Any], outer: str, name: str) -> int:
    figures = report.get(outer)
    return (figure(figures.get(name)) if isinstance(figures, dict) else None) or 0
