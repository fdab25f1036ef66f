"""A tour under way: what its stops share."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tokenweir.core.policy import Axis
from tokenweir.core.record import CLASSES
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.extproc.budget_wording import amount
from tokenweir.ledger.live import Record
from tokenweir.stack.tour.books import Books
from tokenweir.stack.tour.call import Call
from tokenweir.stack.tour.client import ALL, Answer, Client, Hook
from tokenweir.stack.tour.ground import Ground
from tokenweir.stack.tour.step import Step

# Longer waits than that are no demonstration.
MOST_WAIT_SECONDS = 90
# Of calls that meet a limit which somebody has used before.
TRIES = 3
# What a reader sees of an answer.
MOST_TEXT = 70
_HOW = {
    Source.REPORTED: "as the provider reported",
    Source.COUNTED: "as Tokenweir counted what passed",
    Source.ESTIMATED: "as Tokenweir estimated",
}


class Teller(Protocol):
    """Whom the tour tells."""

    def begins(self, step: Step) -> None:
        """A stop begins: its intro and request are there."""

    def waits(self, seconds: int) -> None:
        """There are so many *seconds* left to wait; 0: it is over."""

    def ends(self, step: Step) -> None:
        """A stop has ended."""


Stop = Callable[["Trip"], Awaitable[Step]]
"""Goes to one place on a trip, and returns what there is to say of it."""


@dataclass(slots=True)
class Trip:
    """
    Attributes:
        ground: What is toured.
        client: Asks it.
        books: Its ledger.
        teller: Is told.
        prefix: How the ids of its requests begin.
        calls: How many there were.
        charged: Tokens that the ledger has charged for them, as far as was seen.
        refused: The answer that told of the limit; None: there is none.
        again: The call that it was about.
    """

    ground: Ground
    client: Client
    books: Books
    teller: Teller
    prefix: str
    calls: int = 0
    charged: int = 0
    refused: Answer | None = None
    again: Call | None = None
    records: list[Record] = field(default_factory=list)

    def next_id(self) -> str:
        """Return an id for the next request."""
        self.calls += 1
        return f"{self.prefix}{self.calls}"

    async def ask(
        self,
        step: Step,
        call: Call,
        *,
        most_parts: int = ALL,
        on_first: Hook | None = None,
    ) -> tuple[Answer, str]:
        """
        Return the answer to *call* and the id of its request.

        If a limit is still used from before, as by another tour, it waits.

        Raises: NoAnswerError.
        """
        for left in reversed(range(TRIES)):
            request_id = self.next_id()
            answer = await self.client.send(
                call, request_id, most_parts=most_parts, on_first=on_first
            )
            seconds = retry_after(answer)
            if not left or not seconds or seconds > MOST_WAIT_SECONDS:
                break
            step.why.append(
                f"waited     {seconds} s: a limit was still used from before"
            )
            await self.wait_until(answer.at + seconds)
        return answer, request_id

    async def wait_until(self, moment: float) -> None:
        """Return at *moment* of the monotonic clock, and not before."""
        while (left := moment - time.monotonic()) > 0:
            self.teller.waits(math.ceil(left))
            await asyncio.sleep(left - math.ceil(left) + 1)
        self.teller.waits(0)

    async def account(self, step: Step, request_id: str, reserved: int) -> Record:
        """
        Note in *step* what the ledger has charged for a call.

        Returns: Its record; an empty one, if there is none.

        Args:
            step: Where to note it.
            request_id: Of the call.
            reserved: What was taken before; 0: that is not known.
        """
        record = await self.books.record(request_id)
        if record is None:
            step.promise("the ledger has no record of the call", kept=False)
            return {}
        usage = usage_of(record)
        charged = usage.total_tokens
        self.charged += charged
        self.records.append(record)
        step.figures |= {
            "charged_tokens": charged,
            "source": record["source"],
            "outcome": record["outcome"],
        }
        back = f"; {reserved - charged:,} went back" if reserved > charged else ""
        step.why.append(
            f"settled    {charged:,} tokens ({usage.total_input_tokens:,} in, "
            f"{usage.total_output_tokens:,} out), {_HOW[Source(record['source'])]}{back}"
        )
        if cost_nanousd := int(record["cost_nanousd"]):
            step.why.append(f"cost       {amount(Axis.BUDGET_USD, cost_nanousd)}")
        return record


def usage_of(record: Record) -> TokenUsage:
    """Return the tokens in *record*."""
    return TokenUsage(**{name: int(record.get(name, "0")) for name in CLASSES})


def retry_after(answer: Answer) -> int:
    """Return the seconds of a refusal's ``Retry-After``; 0: it has none."""
    value = answer.headers.get("retry-after", "")
    is_ours = answer.status == 429 and answer.refusal
    return int(value) if is_ours and value.isdecimal() else 0


def brief(answer: Answer) -> str:
    """Return status and duration of *answer*."""
    return f"{answer.status} after {answer.seconds:.2f} s"


def quoted(text: str) -> str:
    """Return a model's words, cut."""
    words = " ".join(text.split())
    return f'"{words[:MOST_TEXT]}…"' if len(words) > MOST_TEXT else f'"{words}"'


def header_lines(answer: Answer, *names: str) -> list[str]:
    """Return those headers of *answer* as lines."""
    headers: Mapping[str, str] = answer.headers
    return [f"{name}: {headers[name]}" for name in names if name in headers]
