"""A gateway and a ledger that say what a test wants, for the stops of a tour."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tokenweir.config.load import parse_policy
from tokenweir.core.record import CLASSES
from tokenweir.ledger.live import Record
from tokenweir.stack.demo import TOUR_KEY, demo_policy
from tokenweir.stack.tour.books import Books, Forecast
from tokenweir.stack.tour.call import Call
from tokenweir.stack.tour.client import ALL, Answer, Client, Hook
from tokenweir.stack.tour.ground import Ground
from tokenweir.stack.tour.step import Step
from tokenweir.stack.tour.trip import Trip

QUOTA = "tour.tokens_per_minute"
GROUND = Ground(
    url="http://127.0.0.1:1",
    admin=None,
    ledger="unix:///nowhere.sock",
    key=TOUR_KEY,
    shown_key=TOUR_KEY,
    policy=parse_policy(demo_policy(2).encode(), {}),
    tenant="tour",
    model="gpt-4o-mini",
    is_mock=True,
)
FORECAST = Forecast(input_tokens=20, counted=True, quota=QUOTA, capacity=600, left=550)
LIMIT_HEADERS = {"x-ratelimit-limit-tokens": "600"}
WHOLE = Answer(
    200,
    LIMIT_HEADERS,
    {
        "choices": [{"message": {"content": "For  water."}}],
        "usage": {"total_tokens": 18},
    },
)
STREAMED = Answer(200, LIMIT_HEADERS, parts=("For ", "water", "."))
FAILED = Answer(500, {}, {"error": {"message": "on fire"}})


def refusal(**changes: object) -> Answer:
    """Return a 429 that waiting for a second helps, with *changes* in `tokenweir`."""
    told = {
        "refusal": "quota_exhausted",
        "quota": QUOTA,
        "capacity": 600,
        "rate_per_minute": 600,
        "used": 30,
        "reserved": 10,
        "requested": 600,
        "retry_after_ms": 900,
        "retryable": True,
        **changes,
    }
    headers = {
        "retry-after": "1",
        "x-should-retry": "true",
        "x-tokenweir-refusal": "quota_exhausted",
    }
    body: Mapping[str, Any] = {
        "error": {
            "message": "over",
            "type": "tokens",
            "code": "rate_limit_exceeded",
            "tokenweir": told,
        }
    }
    return Answer(429, headers, body)


def record(**changes: object) -> Record:
    """Return the record of a call that used 6 tokens in and 12 out."""
    return {
        **dict.fromkeys(CLASSES, "0"),
        "input_tokens": "6",
        "output_tokens": "12",
        "source": "reported",
        "outcome": "completed",
        "cost_nanousd": "8100",
        **{name: str(value) for name, value in changes.items()},
    }


class ScriptedClient(Client):
    """Gives *answers* one after the other, and remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(GROUND.url, GROUND.key)
        self.asked: list[tuple[Call, str]] = []
        self._answers = list(answers)

    async def send(
        self,
        call: Call,
        request_id: str,
        *,
        most_parts: int = ALL,
        on_first: Hook | None = None,
    ) -> Answer:
        """See `Client.send`."""
        self.asked.append((call, request_id))
        answer = self._answers.pop(0)
        if answer.parts and on_first is not None:
            await on_first()
        return replace(answer, parts=answer.parts[:most_parts])


class ScriptedBooks(Books):
    """Has *written* records, one for each call that is asked about."""

    def __init__(
        self,
        *written: Record | None,
        forecast: Forecast = FORECAST,
        held: int = 80,
        quiet: bool = True,
    ) -> None:
        super().__init__(GROUND)
        self.seen: dict[str, Record | None] = {}
        self._written = list(written)
        self._forecast = forecast
        self._held = held
        self._quiet = quiet

    async def forecast(self, call: Call) -> Forecast:  # noqa: ARG002
        """See `Books.forecast`."""
        return self._forecast

    async def record(self, request_id: str) -> Record | None:
        """See `Books.record`."""
        if request_id not in self.seen:
            found = self._written.pop(0)
            self.seen[request_id] = found and {**found, "request_id": request_id}
        return self.seen[request_id]

    async def records(self, prefix: str) -> list[Record]:
        """See `Books.records`."""
        return [each for name, each in self.seen.items() if each if prefix in name]

    async def reserved(self, request_id: str) -> int:  # noqa: ARG002
        """See `Books.reserved`."""
        return self._held

    async def is_quiet(self, prefix: str) -> bool:  # noqa: ARG002
        """See `Books.is_quiet`."""
        return self._quiet


class Listener:
    """A teller that remembers."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.waited: list[int] = []

    def begins(self, step: Step) -> None:
        """See `tokenweir.stack.tour.trip.Teller`."""
        self.begun.append(step.name)

    def waits(self, seconds: int) -> None:
        """See `tokenweir.stack.tour.trip.Teller`."""
        self.waited.append(seconds)

    def ends(self, step: Step) -> None:
        """See `tokenweir.stack.tour.trip.Teller`."""
        self.ended.append(step.name)


def trip(
    answers: Sequence[Answer] = (), books: Books | None = None
) -> tuple[Trip, ScriptedClient, Listener]:
    """Return a trip on which *answers* come, its client and its listener."""
    client, listener = ScriptedClient(*answers), Listener()
    made = Trip(GROUND, client, books or ScriptedBooks(), listener, "tour-x-")
    return made, client, listener


def words(step: Step) -> str:
    """Return all that is told of *step*."""
    return json.dumps([step.intro, step.came, step.why, step.differences, step.skipped])
