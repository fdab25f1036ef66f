"""What the ledger knows of the tour's calls, and what it would make of one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.hold import Limit
from tokenweir.core.partition import tag_of
from tokenweir.core.policy import Axis
from tokenweir.core.usage import Source
from tokenweir.explain.dry_ledger import NothingUsed
from tokenweir.explain.question import question_of, with_key
from tokenweir.explain.trial import explain
from tokenweir.ledger.levels_reader import LevelsReader
from tokenweir.ledger.live import LiveReader, Record
from tokenweir.ledger.recent import MOST_PAGE
from tokenweir.stack.tour.call import PATH, Call
from tokenweir.stack.tour.ground import Ground
from tokenweir.telemetry.fanout import Fanout

# A settle follows the end of an answer within milliseconds; a busy laptop takes longer.
PATIENCE_SECONDS = 20.0
POLL_SECONDS = 0.05
MOST_HOLDS = 1_000

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Forecast:
    """
    What the gateway would reserve for a call.

    Attributes:
        input_tokens: Of the prompt.
        counted: They were counted by the model's own tokenizer, not estimated.
        quota: Id of the smallest limit on tokens; ``""``: none applies.
        capacity: The most that it holds.
        left: What it has left now.
    """

    input_tokens: int
    counted: bool
    quota: str = ""
    capacity: int = 0
    left: int = 0


class Books:
    """
    The ledger of *ground*.

    Args:
        ground: What is toured.
        patience_seconds: How long something may take to appear in it.
        outage_seconds: How long it may give no answer.

    Its methods raise `tokenweir.core.errors.LedgerUnavailableError` if it gave no
    answer again and again.
    """

    def __init__(
        self,
        ground: Ground,
        patience_seconds: float = PATIENCE_SECONDS,
        outage_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._ground = ground
        self._patience_seconds = patience_seconds
        self._outage_seconds = outage_seconds
        self._tag = tag_of(ground.tenant)
        self._reader = LiveReader(ground.ledger, Fanout(()))
        self._levels = LevelsReader(ground.ledger, Fanout(()))
        self._after = ""
        self._known: dict[str, tuple[Forecast, Limit | None]] = {}

    async def open(self, *calls: Call) -> None:
        """Remember the moment: records from now on are the tour's. Count *calls*."""
        for call in calls:
            await self.forecast(call)
        self._after = f"{await self._asked(self._reader.now_ms) - 1}-0"

    async def close(self) -> None:
        """Give connections back."""
        await self._reader.close()
        await self._levels.close()

    async def forecast(self, call: Call) -> Forecast:
        """Return what would be reserved for *call* now. Nothing is taken."""
        # Counting takes a second, in which limits fill: so once for each prompt.
        if call.prompt not in self._known:
            self._known[call.prompt] = await self._counted(call)
        forecast, limit = self._known[call.prompt]
        if limit is None:
            return forecast
        now_ms = await self._asked(self._levels.now_ms)
        levels = await self._asked(
            lambda: self._levels.levels(self._tag, [limit], now_ms)
        )
        left = levels.state(limit, now_ms).remaining
        return replace(forecast, left=left)

    async def _counted(self, call: Call) -> tuple[Forecast, Limit | None]:
        question = question_of(self._ground.policy, call.body.encode(), path=PATH)
        # Which limits apply and what the prompt counts needs no ledger: it would have
        # to answer within its deadline while a tokenizer keeps this process busy.
        told = await explain(with_key(question, self._ground.key), NothingUsed())
        count = told.counts[-1] if told.counts else None
        tokens = count.tokens if count else 0
        counted = count is not None and count.source is Source.COUNTED
        limits = [
            standing.limit
            for reserving in told.reservings[-1:]
            for standing in reserving.standings
            if standing.limit.axis is Axis.TOKENS
        ]
        if not limits:
            return Forecast(tokens, counted), None
        limit = min(limits, key=lambda each: each.capacity)
        return Forecast(tokens, counted, limit.quota, limit.capacity), limit

    async def record(self, request_id: str) -> Record | None:
        """Return the record of a call; None, if there is none after a long while."""

        async def look() -> Record | None:
            found = [
                record
                for record in await self._records()
                if record.get("request_id") == request_id
            ]
            return found[-1] if found else None

        return await self._until(look)

    async def records(self, prefix: str) -> list[Record]:
        """Return the records of calls whose id begins with *prefix*."""
        found = await self._asked(self._records)
        return [each for each in found if each.get("request_id", "").startswith(prefix)]

    async def reserved(self, request_id: str) -> int:
        """Return the tokens that a call in flight holds; 0: it holds none."""
        flying = await self._asked(self._in_flight)
        return flying.get(request_id, 0)

    async def is_quiet(self, prefix: str) -> bool:
        """Tell if no call whose id begins with *prefix* holds anything, at last."""

        async def look() -> bool:
            return not any(each.startswith(prefix) for each in await self._in_flight())

        return bool(await self._until(look))

    async def _records(self) -> list[Record]:
        after, found = self._after, []
        while True:
            entries = (await self._reader.entries({self._tag: after}, MOST_PAGE))[
                self._tag
            ]
            found += [entry.record for entry in entries]
            if len(entries) < MOST_PAGE:
                return found
            after = entries[-1].id

    async def _in_flight(self) -> dict[str, int]:
        flying = await self._reader.in_flight([self._tag], MOST_HOLDS)
        return {
            holding.labels.get("request_id", ""): holding.amounts.input_tokens
            + holding.amounts.output_tokens
            for holding in flying.holdings
        }

    async def _until(self, look: Callable[[], Awaitable[Result]]) -> Result:
        """Return what *look* finds once it finds something, or else what it did not."""
        deadline = time.monotonic() + self._patience_seconds
        while True:
            found = await self._asked(look)
            if found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(POLL_SECONDS)

    async def _asked(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        """Return what *ask* does. One deadline missed is no outage: it asks again."""
        deadline = time.monotonic() + self._outage_seconds
        while True:
            try:
                return await ask()
            except LedgerUnavailableError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(POLL_SECONDS)
