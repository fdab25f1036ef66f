"""
What an exchange can ask for. Its counterpart is `tokenweir.core.events`.

Answers go to Envoy, one for each of its messages. Tasks go to the ledger and
the tokenizer; where a task has a result, it comes back as an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenweir.core.calibration import Place
from tokenweir.core.counting import NO_HINTS, Hints
from tokenweir.core.dialects.base import Prompt
from tokenweir.core.events import Headers
from tokenweir.core.hold import Hold, Settlement
from tokenweir.core.lesson import Lesson
from tokenweir.core.policy import Secret
from tokenweir.core.prompt_costs import Costs
from tokenweir.core.rejection import Rejection
from tokenweir.core.ticket import Ticket


@dataclass(frozen=True, slots=True)
class AwaitBody:
    """Let Envoy collect the request body and send it."""


@dataclass(frozen=True, slots=True)
class Forward:
    """
    Let the request go to its provider.

    Attributes:
        ticket: For the response side.
        set_headers: Replace or add; a secret value reaches only the provider.
        remove_headers: Taken out.
        body: Replaces the request body; None: it stays as it is.
        strip_usage: Envoy takes the usage-only event out of the stream.
        reply: Headers that Envoy puts on the answer: whoever reads it can't.
        kept_texts: Texts of the prompt that the policy lets be kept, by digest.
    """

    ticket: Ticket
    set_headers: tuple[tuple[str, str | Secret], ...]
    remove_headers: tuple[str, ...]
    body: bytes | None = None
    strip_usage: bool = False
    reply: Headers = ()
    kept_texts: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class Reject:
    """
    Have Envoy answer the client itself.

    *dialect* is the route of the dialect to answer in.
    """

    why: Rejection
    dialect: str


@dataclass(frozen=True, slots=True)
class PassHead:
    """
    Let the response head go on.

    Attributes:
        set_headers: Replace or add.
        remove_headers: Taken out.
        watch_body: Send the body too; if not, this side is done.
    """

    set_headers: Headers = ()
    remove_headers: tuple[str, ...] = ()
    watch_body: bool = True


@dataclass(frozen=True, slots=True)
class PassChunk:
    """Let the piece go on as it is."""


@dataclass(frozen=True, slots=True)
class CountPrompt:
    """Estimate the input tokens of *prompt*; answer with `Counted`."""

    prompt: Prompt
    model: str
    tokenizer: str | None
    hints: Hints = field(default=NO_HINTS, compare=False)


@dataclass(frozen=True, slots=True)
class CountTexts:
    """Count generated *texts*, and *dropped_bytes* more; answer with `Counted`."""

    texts: tuple[str, ...]
    dropped_bytes: int
    model: str
    tokenizer: str | None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve *hold*; answer with `Reserved`, `Refused` or `LedgerFailed`."""

    hold: Hold


@dataclass(frozen=True, slots=True)
class Extend:
    """Renew *hold*; so many *output_tokens* were generated so far."""

    hold: Hold
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Settle:
    """
    Replace the ticket's hold by what was used.

    *prompt* is what its parts cost, *lesson* what estimates can learn from it.
    """

    ticket: Ticket
    settlement: Settlement
    prompt: Costs = ()
    lesson: Lesson | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Give *hold* back whole: nothing was forwarded."""

    hold: Hold


Answer = AwaitBody | Forward | Reject | PassHead | PassChunk
Task = CountPrompt | CountTexts | Reserve | Extend | Settle | Cancel
Command = Answer | Task
