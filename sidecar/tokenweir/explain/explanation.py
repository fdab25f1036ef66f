"""What is known once a request was played through. Declarations, and no logic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tokenweir.core.commands import Forward, Reject
from tokenweir.core.hold import Subject
from tokenweir.core.identify import Caller, Entry
from tokenweir.core.policy import Quota
from tokenweir.core.usage import Source
from tokenweir.explain.dry_ledger import Reserving
from tokenweir.explain.governed import Governed
from tokenweir.explain.question import Question
from tokenweir.extproc.messages import LocalReply


@dataclass(frozen=True, slots=True)
class Count:
    """
    A prompt was counted: *tokens*, for *model*, how well by *source*.

    *factor* was learned from reports, and corrects the tokens of text.
    """

    model: str
    tokens: int
    source: Source
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class QuotaAnswer:
    """
    Whether a quota of the caller applies.

    Attributes:
        quota: The quota.
        is_key: It is the key's own, and not the tenant's.
        why_not: Empty: it applies.
    """

    quota: Quota
    is_key: bool
    why_not: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    Attributes:
        question: What was asked.
        now_ms: The moment that it is about, since 1970.
        entry: The door that the request came by.
        caller: Who calls, or None if that can't be told.
        subject: Who asks whom for what; parts that were not reached are ``""``.
        counts: Of the prompt, one for each model that was tried.
        reservings: What would be asked of the ledger, in order.
        quotas: All of the caller, those that do not apply too.
        answer: What Envoy would be told.
        reply: What the client would get if it is refused, else None.
        edits: What of the body would be changed: old and new values as JSON, ``""`` for
            none, by the member's name.
        faults: Types of what broke meanwhile: the answer is no decision then.
    """

    question: Question
    now_ms: int
    entry: Entry
    caller: Caller | None
    subject: Subject
    counts: tuple[Count, ...]
    reservings: tuple[Reserving, ...]
    quotas: tuple[QuotaAnswer, ...]
    answer: Forward | Reject
    reply: LocalReply | None
    edits: Mapping[str, tuple[str, str]]
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """
    Attributes:
        now: What would be decided as limits stand.
        governed: What governs.
        ledger: Where levels were read, without a password; None: as if nothing were
            used yet.
        unused: What would be decided if nothing were used yet; None: *now* tells.
    """

    now: Explanation
    governed: Governed
    ledger: str | None = None
    unused: Explanation | None = None
