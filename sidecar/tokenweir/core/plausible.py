"""
Which reports of usage can be true, and how much a model can have generated.

A provider's report is believed, surprising as it may be: reasoning that nobody saw,
input far above the estimate (pictures, hosted tools, what the provider remembers), a
cap that was ignored. But a figure that is off by orders of magnitude (a counter that
overflowed, a proxy that multiplies) would put a tenant into debt for years. So there
is a most that can be believed on each side:

    output   the largest of
             OUTPUT_SLACK times what may be generated in all choices: the model's maximum
             as the policy says it, else MOST_OUTPUT_TOKENS; or the app's cap if that
             is more, up to MOST_OUTPUT_TOKENS
             LEAST_DOUBTED_TOKENS
             the bytes of the answer that passed: no token is shorter
    input    the larger of
             INPUT_SLACK times the estimate
             MOST_INPUT_TOKENS

What was reserved is never above these. A report that is beyond on either side is left
out whole: whoever is so wrong in one figure proves nothing by the other one.
"""

from __future__ import annotations

from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import TokenUsage

# Flag of an exchange whose provider reported what can't be true.
IMPLAUSIBLE_REPORT = "implausible_report"

# The most that models write in one choice, reasoning included: 128 Ki tokens is the
# largest maximum that is documented for hosted ones.
MOST_OUTPUT_TOKENS = 131_072
# Some count reasoning, or the turns of hosted tools, beside their own maximum; and
# others' tokens are shorter.
OUTPUT_SLACK = 4
# Policies may name a maximum below the model's own, to reserve less. Up to what a
# small model may write with slack nothing is doubted.
LEAST_DOUBTED_TOKENS = 65_536

# The largest context window of hosted models. It bounds what one turn reads that the
# request does not show; of what it does show, the estimate tells the size.
MOST_INPUT_TOKENS = 2_000_000
INPUT_SLACK = 8


def generated_at_most(ticket: Ticket) -> int:
    """Return the most output tokens that all choices together can have."""
    most = _maximum(ticket)
    return most if ticket.output_cap is None else min(most, ticket.output_cap)


def is_plausible(ticket: Ticket, usage: TokenUsage, passed_bytes: int) -> bool:
    """Tell if *usage* can be true of an answer of which *passed_bytes* were seen."""
    return usage.total_input_tokens <= _believed_input(
        ticket
    ) and usage.total_output_tokens <= _believed_output(ticket, passed_bytes)


def _maximum(ticket: Ticket) -> int:
    return (ticket.max_output_tokens or MOST_OUTPUT_TOKENS) * ticket.choices


def _believed_output(ticket: Ticket, passed_bytes: int) -> int:
    cap = min(ticket.output_cap or 0, MOST_OUTPUT_TOKENS * ticket.choices)
    allowed = OUTPUT_SLACK * max(_maximum(ticket), cap)
    return max(allowed, LEAST_DOUBTED_TOKENS, passed_bytes)


def _believed_input(ticket: Ticket) -> int:
    estimate = ticket.hold.amounts.input_tokens
    return max(MOST_INPUT_TOKENS, INPUT_SLACK * estimate)
