"""The response side of an exchange: from its ticket to what is charged."""

from __future__ import annotations

import re

from tokenweir.core import accounting, headers
from tokenweir.core.accounting import BodySeen
from tokenweir.core.commands import (
    Cancel,
    Command,
    CountTexts,
    Extend,
    PassChunk,
    PassHead,
    Settle,
)
from tokenweir.core.content_coding import MAX_DECODED_BYTES, codings_of
from tokenweir.core.dialects import by_route
from tokenweir.core.dialects.base import ResponseFacts
from tokenweir.core.events import (
    Counted,
    Event,
    ResponseChunk,
    ResponseHead,
    ResponseKept,
    ResponseMissed,
    ResponsePassed,
    header_list,
    header_value,
)
from tokenweir.core.hold import CAP_REACHED, Outcome, Settlement
from tokenweir.core.lesson import lesson_of, place_of
from tokenweir.core.plausible import IMPLAUSIBLE_REPORT, is_plausible
from tokenweir.core.pricing import UNPRICED, Answered, Pricing
from tokenweir.core.prompt_costs import prompt_costs
from tokenweir.core.response import ResponseReader
from tokenweir.core.savings import reached_cap, saved_by_cap, saved_by_downgrade
from tokenweir.core.step import State, Step
from tokenweir.core.ticket import Ticket
from tokenweir.core.usage import Source, TokenUsage

# A content-length as RFC 9110 has it, and short enough to be one.
_LENGTH = re.compile(r"[0-9]{1,15}")


class ResponseSide:
    """
    What is known of a response, and the actions of its states.

    Attributes:
        ticket: From the request side.
        settlement: What was charged, once it is known.
    """

    def __init__(self, ticket: Ticket, pricing: Pricing) -> None:
        self.ticket = ticket
        self._pricing = pricing
        self.settlement: Settlement | None = None
        self._head: ResponseHead | None = None
        self._reader: ResponseReader | None = None
        self._unread = ResponseFacts()
        self._seen_bytes = 0
        self._elided_bytes = 0
        self._first_token_ms: int | None = None
        self._outcome = Outcome.COMPLETED
        self._flags = ticket.flags
        self._now_ms = ticket.started_ms

    @property
    def behind(self) -> bool:
        """Whether some of what passed is yet to be read: by empty chunks, in steps."""
        return self._reader is not None and self._reader.behind

    @property
    def _facts(self) -> ResponseFacts:
        return self._reader.facts if self._reader else self._unread

    @property
    def _passed_bytes(self) -> int:
        # Of an encoded body, what it says is longer than what passed.
        return max(self._seen_bytes, self._facts.text_bytes)

    @property
    def _all_is_told(self) -> bool:
        """
        Whether a stream has reported its usage and sent its last event.

        Then its slot is free at once: connections may stay open for as long as both
        sides like.
        """
        facts = self._facts
        told = facts.ended and facts.usage_final and facts.error is None
        # What stands behind the last event may be much: it is read in steps, too.
        return told and not self.behind

    # === what the table calls ==================================================

    def open(self, event: Event, now_ms: int) -> Step:
        """Look at the head: refused before any work, over already, or to be read."""
        assert isinstance(event, ResponseHead)
        self._head, self._now_ms = event, now_ms
        changes, removals = self._visible_headers(event)
        if accounting.refused_before_work(event):
            settle = self._settle(
                TokenUsage(), Source.REPORTED, Outcome.UPSTREAM_FAILED
            )
            return State.DONE, [PassHead(changes, removals, watch_body=False), settle]
        if event.status >= 400:  # Envoy's own: a timeout, a reset
            settle = self._settle_input(Outcome.UPSTREAM_FAILED)
            return State.DONE, [PassHead(changes, removals, watch_body=False), settle]
        if self.ticket.dialect:
            self._reader = ResponseReader(
                by_route(self.ticket.dialect),
                status=event.status,
                content_type=header_value(event.headers, "content-type"),
                content_encoding=header_list(event.headers, "content-encoding"),
            )
        if event.ended:
            state, commands = self._over(Outcome.COMPLETED)
            return state, [PassHead(changes, removals, watch_body=False), *commands]
        return State.RESPONDING, [PassHead(changes, removals)]

    def read(self, event: Event, now_ms: int) -> Step:
        """Read one piece."""
        assert isinstance(event, ResponseChunk)
        self._now_ms = now_ms
        self._seen_bytes += len(event.data)
        if self._reader is not None:
            self._feed(self._reader, event.data)
            self._see_first_token()
        if not (event.ended or self._all_is_told):
            return State.RESPONDING, [PassChunk()]
        state, commands = self._over(Outcome.COMPLETED)
        return state, [PassChunk(), *commands]

    def keep(self, event: Event, now_ms: int) -> Step:
        """Read a piece of a body that passed unseen. What follows is told by `hear`."""
        assert isinstance(event, ResponseKept)
        self._now_ms = now_ms
        self._elided_bytes += event.elided_bytes
        if self._reader is not None:
            self._feed(self._reader, event.data)
            self._see_first_token()
        return State.RESPONDING, []

    def miss(self, event: Event, now_ms: int) -> Step:
        """Reckon with a piece that nobody has kept: as much text as before."""
        assert isinstance(event, ResponseMissed)
        self._now_ms = now_ms
        if self._reader is not None:
            self._reader.skip(event.size_bytes)
        return State.RESPONDING, []

    def hear(self, event: Event, now_ms: int) -> Step:
        """All that is known of a body that passed unseen has been read."""
        assert isinstance(event, ResponsePassed)
        self._now_ms = now_ms
        self._seen_bytes = event.size_bytes
        if self._reader is not None:
            self._reader.end()
            facts = self._reader.facts
            # Where there is any text, what was left out of it was text as well.
            facts.text_bytes += self._elided_bytes if facts.text_bytes else 0
            facts.unreadable |= event.fault
        if event.ended or self._all_is_told:
            return self._over(Outcome.COMPLETED)
        return State.RESPONDING, []

    def give_back(self, _: Event, __: int) -> Step:
        """Nothing was sent to any provider."""
        return State.DONE, [Cancel(self.ticket.hold)]

    def needs_texts(self, size_bytes: int) -> bool:
        """
        Tell if the texts of a body of *size_bytes* are charged, as far as it was read.

        Else they only teach: a report that covers all of it can be believed.
        """
        facts = self._facts
        if facts.usage is None or not facts.usage_final or facts.error is not None:
            return True
        return not is_plausible(self.ticket, facts.usage, size_bytes)

    def renew(self, _: Event, now_ms: int) -> Step:
        """Report progress before the response begins."""
        self._now_ms = now_ms
        return State.FORWARDED, [self._extend()]

    def renew_responding(self, _: Event, now_ms: int) -> Step:
        """Report progress while the response flows."""
        self._now_ms = now_ms
        return State.RESPONDING, [self._extend()]

    def close_unanswered(self, _: Event, now_ms: int) -> Step:
        """The client left before any response: the input is owed."""
        self._now_ms = now_ms
        return State.DONE, [self._settle_input(Outcome.CUT)]

    def drain_unanswered(self, _: Event, now_ms: int) -> Step:
        """The processor leaves before any response: the input is owed."""
        self._now_ms = now_ms
        return State.DONE, [self._settle_input(Outcome.DRAINED)]

    def close(self, _: Event, now_ms: int) -> Step:
        """No more will come: over if the provider had said so, else cut."""
        self._now_ms = now_ms
        return self._over(Outcome.CUT)

    def drain(self, _: Event, now_ms: int) -> Step:
        """The processor leaves: what passed so far is settled."""
        self._now_ms = now_ms
        return self._over(Outcome.DRAINED)

    def settle_counted(self, event: Event, _: int) -> Step:
        """What passed has been counted."""
        assert isinstance(event, Counted)
        usage = accounting.counted_usage(self.ticket, self._facts, event.tokens)
        source = accounting.worst_source(event.source, self._facts)
        return State.DONE, [self._settle(usage, source, self._outcome)]

    def settle_uncounted(self, _: Event, __: int) -> Step:
        """Counting broke: what passed is charged by its size."""
        tokens = -(-self._facts.text_bytes // accounting.BYTES_PER_TOKEN)
        usage = accounting.counted_usage(self.ticket, self._facts, tokens)
        return State.DONE, [self._settle(usage, Source.ESTIMATED, self._outcome)]

    def pass_by(self, event: Event, _: int) -> Step:
        """Let a head go by that came too late to be looked at."""
        assert isinstance(event, ResponseHead)
        changes, removals = self._visible_headers(event)
        return State.DONE, [PassHead(changes, removals, watch_body=False)]

    def pass_on(self, _: Event, __: int) -> Step:
        """Let what comes after the end go by."""
        state = State.COUNTING if self.settlement is None else State.DONE
        return state, [PassChunk()]

    # === steps that several of them share ======================================

    def _feed(self, reader: ResponseReader, data: bytes) -> None:
        try:
            reader.feed(data)
        except Exception:
            # A bug of ours, which the driver reports: it must not make answers free.
            reader.facts.unreadable = True
            raise

    def _see_first_token(self) -> None:
        if self._first_token_ms is None and self._facts.deltas:
            self._first_token_ms = max(0, self._now_ms - self.ticket.started_ms)

    def _over(self, outcome: Outcome) -> Step:
        """The body is over: charge what was reported, or have the rest counted."""
        if self._reader is not None:
            # A body whose end Envoy did not announce (trailers, a client that left
            # with the last byte) may be whole all the same. And of half a JSON
            # body, all has been generated.
            self._reader.end()
        facts = self._facts
        self._outcome = self._judged(outcome, facts)
        if accounting.doubt(self.ticket, facts, self._passed_bytes):
            self._flags = (*self.ticket.flags, IMPLAUSIBLE_REPORT)
        if self._reader is None or accounting.nothing_owed(facts):
            return State.DONE, [
                self._settle(TokenUsage(), Source.REPORTED, self._outcome)
            ]
        usage = accounting.reported_usage(facts)
        if usage is not None:
            return State.DONE, [self._settle(usage, Source.REPORTED, self._outcome)]
        if facts.unreadable and not facts.text_bytes:
            tokens = accounting.estimated_output(self.ticket, self._body_seen())
            usage = accounting.counted_usage(self.ticket, facts, tokens)
            return State.DONE, [self._settle(usage, Source.ESTIMATED, self._outcome)]
        return State.COUNTING, [self._count(facts)]

    def _judged(self, outcome: Outcome, facts: ResponseFacts) -> Outcome:
        if facts.error is not None:
            return Outcome.UPSTREAM_FAILED
        if outcome is Outcome.CUT and facts.finished and facts.usage_final:
            return Outcome.COMPLETED
        return outcome

    def _count(self, facts: ResponseFacts) -> CountTexts:
        kept_bytes = sum(len(text.encode("utf-8", "replace")) for text in facts.texts)
        return CountTexts(
            tuple(facts.texts),
            max(0, facts.text_bytes - kept_bytes),
            self.ticket.counting_model,
            self.ticket.tokenizer,
            place_of(self.ticket.hold.subject, self.ticket.counting_model)
            if self.ticket.calibrated
            else None,
        )

    def _body_seen(self) -> BodySeen:
        assert self._head is not None
        announced = header_value(self._head.headers, "content-length")
        encoding = header_list(self._head.headers, "content-encoding")
        is_bomb = self._reader is not None and self._reader.exceeded
        return BodySeen(
            MAX_DECODED_BYTES if is_bomb else self._seen_bytes,
            int(announced) if _LENGTH.fullmatch(announced) else None,
            encoded=bool(codings_of(encoding)),
        )

    def _extend(self) -> Command:
        return Extend(
            self.ticket.hold,
            accounting.progress(self.ticket, self._facts, self._passed_bytes),
        )

    def _settle_input(self, outcome: Outcome) -> Settle:
        usage = accounting.counted_usage(self.ticket, ResponseFacts(), 0)
        return self._settle(usage, Source.COUNTED, outcome)

    def _settle(self, usage: TokenUsage, source: Source, outcome: Outcome) -> Settle:
        head, facts, ticket = self._head, self._facts, self.ticket
        answered = self._answered()
        cost_nanousd, has_price = self._pricing.cost(usage, answered)
        instead = saved_by_downgrade(ticket, self._pricing, usage, facts.service_tier)
        self.settlement = Settlement(
            usage=usage,
            source=source,
            outcome=outcome,
            requests=max(1, (head.attempts or 1) if head else 1),
            status=head.status if head else 0,
            model=facts.model,
            duration_ms=max(0, self._now_ms - ticket.started_ms),
            first_token_ms=self._first_token_ms,
            flags=self._told_flags(has_price=has_price),
            cost_nanousd=cost_nanousd,
            saved_nanousd=max(0, instead - cost_nanousd) if has_price else 0,
            cap_saved_nanousd=saved_by_cap(
                ticket, facts, self._pricing, usage, answered
            ),
        )
        prompt = prompt_costs(ticket.prompt, self._pricing, usage, answered, source)
        lesson = lesson_of(ticket, facts, self.settlement)
        return Settle(ticket, self.settlement, prompt, lesson)

    def _answered(self) -> Answered:
        hold, facts = self.ticket.hold, self._facts
        return Answered(
            hold.subject.provider,
            self.ticket.counting_model,
            facts.model,
            facts.service_tier,
            self.ticket.started_ms,
            hold.amounts.cost_nanousd,
        )

    def _told_flags(self, *, has_price: bool) -> tuple[str, ...]:
        flags = self._flags if has_price else (*self._flags, UNPRICED)
        reached = reached_cap(self.ticket, self._facts)
        return (*flags, CAP_REACHED) if reached else flags

    def _visible_headers(self, head: ResponseHead) -> headers.HeaderChanges:
        # What Envoy says of itself, such as why it refuses, is no provider's.
        upstream = head.headers if accounting.from_provider(head) else ()
        return headers.visible_headers(upstream, self.ticket, self._now_ms)
