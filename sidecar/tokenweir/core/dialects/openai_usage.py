"""
OpenAI's usage object, as OpenAI and those who imitate it write it.

There, details are parts of the sums: `cached_tokens` of `prompt_tokens`,
`reasoning_tokens` of `completion_tokens`. Some imitators leave reasoning out of
`completion_tokens` and not out of `total_tokens`: then the total is right. So it is
where reasoning is more than the output that it should be a part of: it was left out.

Gateways pass on Anthropic's figures of caches, which there are beside the input. Whether
they still are, is told by the sums.

Reports are cumulative: a later figure replaces an earlier one. Zero and unknown
replace nothing, since servers write both where they mean "not yet".
"""

from __future__ import annotations

from typing import Any

from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.dialects.facts import figure, is_absurd
from tokenweir.core.usage import TokenUsage

# Beside `cached_tokens`: DeepSeek's name, and Anthropic's, which gateways pass on.
_CACHE_READS = ("prompt_cache_hit_tokens", "cache_read_input_tokens")
# The last by transcriptions.
_INPUT_DETAILS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "input_token_details",
)
_CACHE_WRITES = ("cache_write_tokens", "cache_creation_input_tokens")
# Anthropic's, which may be beside the input.
_READ, _WRITTEN = _CACHE_READS[-1], _CACHE_WRITES[-1]


def read_usage(report: object, facts: ResponseFacts) -> None:
    """
    Take the usage object *report* into *facts*.

    The usage is final if it has both sides: it covers whatever was generated so
    far, and reports that come with every event (vLLM) cover a cut stream as well.
    Nothing can be generated from no input: where that is said, the input is unknown.
    """
    if not isinstance(report, dict):
        return
    if is_absurd(report):
        facts.absurd = True
        return
    sides = _Sides(report)
    if sides.says_nothing(known=facts.usage is not None):
        return
    known = facts.usage or TokenUsage()
    facts.usage = _merge(sides, report, known)
    has_input = bool(sides.input or known.total_input_tokens)
    is_nothing = sides.input == sides.output == 0
    if sides.output is not None and (has_input or is_nothing):
        facts.usage_final = True


class _Sides:
    """
    The two sums.

    Attributes:
        input: Everything that went in, or None if it isn't known.
        output: Everything that was generated, or None if it isn't known.
        read: What of the input was told beside it, as read from a cache.
        written: Ditto, as written to one.
    """

    def __init__(self, report: dict[str, Any]) -> None:
        self.input = _first(report, "prompt_tokens", "input_tokens")
        self.output = _first(report, "completion_tokens", "output_tokens")
        total = figure(report.get("total_tokens"))
        self.read = self.written = 0
        if self.input is not None and self._are_caches_beside(report, total):
            self.read = figure(report.get(_READ)) or 0
            self.written = figure(report.get(_WRITTEN)) or 0
            self.input += self.read + self.written
        if self.input is not None and total is not None and total > self.input:
            self.output = max(self.output or 0, total - self.input)

    def _are_caches_beside(self, report: dict[str, Any], total: int | None) -> bool:
        """Tell if the input leaves out what was read from and written to caches."""
        assert self.input is not None
        parts = (figure(report.get(_READ)) or 0) + (figure(report.get(_WRITTEN)) or 0)
        if parts > self.input:
            return True
        if total is None:
            # Anthropic's own object: who has it OpenAI's way has OpenAI's names.
            return "prompt_tokens" not in report
        return total == self.input + parts + (self.output or 0)

    def says_nothing(self, *, known: bool) -> bool:
        """Tell if there is nothing in it that is news."""
        if known:
            return not self.input and not self.output
        return self.input is None and self.output is None


def _merge(sides: _Sides, report: dict[str, Any], known: TokenUsage) -> TokenUsage:
    inputs = report | _details(report, *_INPUT_DETAILS)
    cached = sides.read or _first(inputs, "cached_tokens", *_CACHE_READS)
    written = sides.written or _first(inputs, *_CACHE_WRITES)
    into = _Share(sides.input or known.total_input_tokens)
    cached_tokens = into.take(cached or known.cached_input_tokens)
    written_tokens = into.take(written or known.cache_write_tokens)
    heard = into.take(_first(inputs, "audio_tokens") or known.audio_input_tokens)
    seen = into.take(_first(inputs, "image_tokens") or known.image_input_tokens)

    outputs = _details(report, "completion_tokens_details", "output_tokens_details")
    # Beside the sums by SGLang.
    reasoning = _first(report | outputs, "reasoning_tokens") or 0
    output = sides.output or known.total_output_tokens
    if sides.output is not None and reasoning > sides.output:
        output = sides.output + reasoning  # no sum is smaller than its part
    reasoning = reasoning or known.reasoning_tokens
    out_of = _Share(max(output, reasoning))
    reasoning_tokens = out_of.take(reasoning)
    spoken = out_of.take(_first(outputs, "audio_tokens") or known.audio_output_tokens)
    drawn = out_of.take(_first(outputs, "image_tokens") or known.image_output_tokens)
    return TokenUsage(
        input_tokens=into.left,
        cached_input_tokens=cached_tokens,
        cache_write_tokens=written_tokens,
        audio_input_tokens=heard,
        output_tokens=out_of.left,
        reasoning_tokens=reasoning_tokens,
        audio_output_tokens=spoken,
        image_input_tokens=seen,
        image_output_tokens=drawn,
    )


class _Share:
    """A sum that is divided into classes; no class gets more than is left."""

    def __init__(self, tokens: int) -> None:
        self.left = tokens

    def take(self, tokens: int) -> int:
        """Return *tokens*, or what is left if that is less."""
        taken = min(tokens, self.left)
        self.left -= taken
        return taken


def _details(report: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        details = report.get(name)
        if isinstance(details, dict):
            return details
    return {}


def _first(figures: dict[str, Any], *names: str) -> int | None:
    for name in names:
        tokens = figure(figures.get(name))
        if tokens is not None:
            return tokens
    return None
