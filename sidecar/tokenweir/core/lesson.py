"""
What estimates can learn from an exchange.

Only what the provider reported of a whole answer teaches anything. Input is compared if
the prompt was nothing but text that was seen here and that every model reads (see
`is_comparable`); what came from a cache is a part of it. Output is compared if all of it
is text that was kept here. If something hidden was generated, or a tool of the
provider's was used, neither is: both have tokens that no text accounts for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tokenweir.core.calibration import Place, reported_input, reported_output
from tokenweir.core.dialects.base import Prompt, ResponseFacts
from tokenweir.core.dialects.facts import MAX_RETAINED_BYTES
from tokenweir.core.hold import Outcome, Settlement, Subject
from tokenweir.core.plausible import IMPLAUSIBLE_REPORT
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import Source

# A longer name is none: it may be a prompt as well.
MAX_NAME_CHARS = 64


@dataclass(frozen=True, slots=True)
class Lesson:
    """
    Attributes:
        place: Where it is learned.
        estimated_input: Before any correction; 0: of the input nothing is learned.
        reserved_input: After it: what was reserved.
        reported_input: By the provider.
        texts: What was generated; empty: of the output nothing is learned.
        reported_output: By the provider.
        tokenizer: What *texts* are counted with, see `tokenweir.core.policy.Model`.
    """

    place: Place
    estimated_input: int = 0
    reserved_input: int = 0
    reported_input: int = 0
    texts: tuple[str, ...] = field(default=(), repr=False)
    reported_output: int = 0
    tokenizer: str | None = None


def is_comparable(prompt: Prompt) -> bool:
    """
    Tell if *prompt* is text that was seen here, all of it, and that every model reads.

    What some servers leave out, a caller could send to have estimates learned that are
    too low: what nobody here knows, schemas that only bound the answer, tools that may
    not be called, names that are texts. Of hosted tools more is read than is here.
    """
    if prompt.token_ids or prompt.is_partial or prompt.extra_texts:
        return False
    if prompt.tools and prompt.tool_choice == "none":
        return False
    if not all(each.description or each.parameters for each in prompt.tools):
        return False
    return not any(
        each.media or each.is_guessed or len(each.name or "") > MAX_NAME_CHARS
        for each in prompt.messages
    )


def place_of(subject: Subject, model: str) -> Place:
    """Return where *subject*'s estimates are made; *model*: as the provider calls it."""
    return Place(subject.tenant, subject.provider, model, subject.route)


def lesson_of(
    ticket: Ticket, facts: ResponseFacts, settlement: Settlement
) -> Lesson | None:
    """Return what is learned from an exchange; None: nothing."""
    if not _teaches(ticket, facts, settlement):
        return None
    place = place_of(ticket.hold.subject, ticket.counting_model)
    usage = settlement.usage
    estimated, read = ticket.text_tokens, reported_input(usage)
    written = reported_output(usage)
    kept_bytes = sum(len(text.encode()) for text in facts.texts)
    is_whole = facts.text_bytes == kept_bytes <= MAX_RETAINED_BYTES
    # Of several answers that were tried (`best_of`) not all may have been sent.
    is_all = is_whole and ticket.choices == 1
    texts = tuple(facts.texts) if is_all and written else ()
    if not (estimated and read) and not texts:
        return None
    return Lesson(
        place,
        estimated if read else 0,
        ticket.hold.amounts.input_tokens,
        read,
        texts,
        written if texts else 0,
        ticket.tokenizer,
    )


def _teaches(ticket: Ticket, facts: ResponseFacts, settlement: Settlement) -> bool:
    return (
        bool(ticket.counting_model)
        and ticket.calibrated
        and settlement.source is Source.REPORTED
        and settlement.outcome is Outcome.COMPLETED
        and facts.usage is not None
        and not facts.hidden
        and IMPLAUSIBLE_REPORT not in settlement.flags
    )
