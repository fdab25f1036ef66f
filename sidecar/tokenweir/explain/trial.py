"""Plays a request through the driver, with a ledger that only looks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tokenweir.core.calibration import Learned, Place
from tokenweir.core.commands import Answer, AwaitBody, Forward, Reject
from tokenweir.core.counting import NO_HINTS, Hints
from tokenweir.core.dialects import by_route
from tokenweir.core.dialects.base import Prompt
from tokenweir.core.dialects.form import is_form, parts_of, text_of
from tokenweir.core.events import RequestBody
from tokenweir.core.hold import Subject, quotas_in
from tokenweir.core.identify import Caller, credentials_in, entry_of, identify
from tokenweir.core.reading import read_encoded
from tokenweir.core.request_coding import content_encoding
from tokenweir.core.request_side import Arrival
from tokenweir.driver import services
from tokenweir.driver.background import Background
from tokenweir.driver.handoff import Handoff
from tokenweir.driver.request import RequestDriver
from tokenweir.driver.services import Services
from tokenweir.explain.applying import quota_answers
from tokenweir.explain.dry_ledger import DryLedger
from tokenweir.explain.explanation import Count, Explanation
from tokenweir.explain.question import Question
from tokenweir.extproc.messages import LocalReply
from tokenweir.extproc.respond import respond
from tokenweir.ledger.calibration import Spot
from tokenweir.ledger.levels_reader import LevelSource
from tokenweir.telemetry.fanout import Fanout
from tokenweir.telemetry.hooks import ExchangeDetails
from tokenweir.tokenizers.counter import CountLimits, TokenCounter

# Nobody waits but who asked: what takes longer than an exchange may is still told.
PATIENT_SECONDS = 60.0


async def explain(question: Question, source: LevelSource) -> Explanation:
    """
    Return what would be decided about *question*, as limits stand in *source*.

    Raises:
        LedgerUnavailableError: *source* gave no answer.
    """
    (told,) = await explain_each(question, source)
    return told


async def explain_each(
    question: Question, *sources: LevelSource
) -> tuple[Explanation, ...]:
    """
    Return `explain` of each of *sources*, at the moment that the first one tells.

    Raises like `explain`.
    """
    now_ms, heard = await sources[0].now_ms(), _Heard()
    tokens = TokenCounter(
        limits=CountLimits(time_s=PATIENT_SECONDS / 4), on_fault=heard.fault
    )
    learned = await _learned(question, sources[0])
    tokens.recall = lambda place, side: learned.get((place, side))
    try:
        told = [
            await _explain(question, DryLedger(source, now_ms), tokens, now_ms)
            for source in sources
        ]
    finally:
        tokens.close()
    faults = tuple(heard.faults)
    return tuple(replace(each, faults=each.faults + faults) for each in told)


async def _learned(question: Question, source: LevelSource) -> Mapping[Spot, Learned]:
    """Return what the caller's estimates are corrected by."""
    head = question.head
    who = identify(question.policy, credentials_in(head, entry_of(head)))
    return await source.learned(who.tenant.name) if isinstance(who, Caller) else {}


async def _explain(
    question: Question, ledger: DryLedger, tokens: TokenCounter, now_ms: int
) -> Explanation:
    counter, heard = _Counter(tokens), _Heard()
    answer = await _play(question, ledger, counter, heard, now_ms)
    if ledger.failure is not None:
        # What an exchange would make of a silent ledger is not what was asked.
        raise ledger.failure
    return _told(question, answer, now_ms, (ledger, counter, heard))


async def _play(
    question: Question,
    ledger: DryLedger,
    counter: _Counter,
    heard: _Heard,
    now_ms: int,
) -> Forward | Reject:
    background = Background(heard)
    handoff = Handoff(ledger, heard, background)
    driver = RequestDriver(
        Arrival(question.policy, f"0-{now_ms:x}-explain"),
        Services(
            ledger=ledger,
            counter=counter,
            on_exchange_end=heard,
            events=heard,
            background=background,
            now_ms=lambda: now_ms,
            admission_seconds=PATIENT_SECONDS,
        ),
        handoff,
    )
    answer: Answer = await driver.advance(question.head)
    if isinstance(answer, AwaitBody):
        answer = await driver.advance(RequestBody(question.body))
    assert isinstance(answer, Forward | Reject)
    if isinstance(answer, Forward):
        handoff.claim(answer.ticket.hold.id)
    return answer


def _told(
    question: Question,
    answer: Forward | Reject,
    now_ms: int,
    parts: tuple[DryLedger, _Counter, _Heard],
) -> Explanation:
    ledger, counter, heard = parts
    subject, applied = _reached(answer, heard)
    entry = entry_of(question.head)
    who = identify(question.policy, credentials_in(question.head, entry))
    caller = who if isinstance(who, Caller) else None
    answers = quota_answers(caller, entry, subject.model, applied) if caller else ()
    reply: LocalReply | None = None
    edits: Mapping[str, tuple[str, str]] = {}
    if isinstance(answer, Reject):
        reply = respond(answer.why, by_route(answer.dialect))
    else:
        edits = edits_of(_plain(question), answer.body)
    return Explanation(
        question=question,
        now_ms=now_ms,
        entry=entry,
        caller=caller,
        subject=subject,
        counts=tuple(counter.counts),
        reservings=tuple(ledger.reservings),
        quotas=tuple(answers),
        answer=answer,
        reply=reply,
        edits=edits,
        faults=tuple(heard.faults),
    )


def _reached(answer: Forward | Reject, heard: _Heard) -> tuple[Subject, frozenset[str]]:
    """Return how far the request came, and the quotas that it was held against."""
    if isinstance(answer, Forward):
        hold = answer.ticket.hold
        return hold.subject, frozenset(quotas_in(hold.parts))
    [details] = heard.exchanges
    return details.subject, frozenset(details.quotas)


def _plain(question: Question) -> bytes:
    """Return the body as it was read: without the coding that it came in."""
    encoding = content_encoding(question.head.headers)
    limit_bytes = question.policy.body_limit_bytes
    return read_encoded(RequestBody(question.body), encoding, limit_bytes).body


def edits_of(before: bytes, after: bytes | None) -> Mapping[str, tuple[str, str]]:
    """Return the members of a body that are changed, as JSON: old and new."""
    if after is None:
        return {}
    old, new = _members(before), _members(after)
    return {
        name: (_json(old, name), _json(new, name))
        for name in {**old, **new}
        if _json(old, name) != _json(new, name)
    }


def _members(body: bytes) -> Mapping[str, Any]:
    if is_form(body):
        texts = [part for part in parts_of(body) if not part.is_file]
        return {part.name: text_of(body, part) for part in texts}
    content = json.loads(body)
    assert isinstance(content, dict), "what a dialect has read and edited"
    return content


def _json(members: Mapping[str, Any], name: str) -> str:
    return json.dumps(members[name]) if name in members else ""


class _Counter:
    """Counts prompts, and notes what was counted."""

    def __init__(self, counter: TokenCounter) -> None:
        self.counts: list[Count] = []
        self._counter = counter

    async def count_prompt(
        self,
        prompt: Prompt,
        model: str,
        tokenizer: str | None,
        hints: Hints = NO_HINTS,
    ) -> services.Count:
        """See `tokenweir.driver.services.Counter`."""
        # Loading takes longer than a count may; what is refused before needs none.
        named = [tokenizer] if tokenizer else []
        await asyncio.to_thread(self._counter.preload, [model], named)
        count = await self._counter.count_prompt(prompt, model, tokenizer, hints)
        told = Count(model, count.tokens, count.source, count.factor)
        self.counts.append(told)
        return count

    async def count_texts(
        self,
        texts: Sequence[str],
        model: str,
        tokenizer: str | None,
        *,
        dropped_bytes: int = 0,
        place: Place | None = None,
    ) -> services.Count:
        """See `tokenweir.driver.services.Counter`: nothing is generated here."""
        return await self._counter.count_texts(
            texts, model, tokenizer, dropped_bytes=dropped_bytes, place=place
        )


class _Heard(Fanout):
    """Notes what is told of the exchange, and logs nothing."""

    def __init__(self) -> None:
        super().__init__(())
        self.exchanges: list[ExchangeDetails] = []
        self.faults: list[str] = []

    def __call__(self, details: ExchangeDetails) -> None:
        self.exchanges.append(details)

    def fault(self, where: str, error: BaseException) -> None:
        """Note it."""
        self.faults.append(f"{where}: {type(error).__name__}")
