"""What both sides of an exchange are driven with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tokenweir.core.calibration import Place
from tokenweir.core.counting import NO_HINTS, Hints
from tokenweir.core.dialects.base import Prompt
from tokenweir.core.hold import Subject
from tokenweir.core.lesson import Lesson
from tokenweir.core.pricing import NO_PRICING, Pricing
from tokenweir.core.prompt_costs import Costs
from tokenweir.core.usage import Source
from tokenweir.driver.background import Background
from tokenweir.driver.bodies import BodyThread
from tokenweir.driver.native_watch import NativeWatch
from tokenweir.driver.turns import Turns
from tokenweir.ledger.base import Ledger
from tokenweir.telemetry.hooks import Events, OnExchangeEnd


class Count(Protocol):
    """A number of tokens, and where it comes from."""

    @property
    def tokens(self) -> int:
        """How many."""

    @property
    def source(self) -> Source:
        """How well that is known."""

    @property
    def text_tokens(self) -> int:
        """Of a prompt that is all text, before any correction; else 0."""

    @property
    def uncorrected(self) -> int:
        """Of any prompt, before any correction."""


class Counter(Protocol):
    """Counts tokens within a bounded time, and never raises."""

    async def count_prompt(
        self,
        prompt: Prompt,
        model: str,
        tokenizer: str | None,
        hints: Hints = NO_HINTS,
    ) -> Count:
        """Estimate the input tokens of *prompt*."""

    async def count_texts(
        self,
        texts: Sequence[str],
        model: str,
        tokenizer: str | None,
        *,
        dropped_bytes: int = 0,
        place: Place | None = None,
    ) -> Count:
        """Count generated *texts*, and *dropped_bytes* that were not kept."""


class Lessons(Protocol):
    """Learns how far estimates are off. It does not raise, and does not wait."""

    def learn(self, lesson: Lesson) -> None:
        """Take what an exchange teaches."""


class Drainable(Protocol):
    """An exchange in flight that can be settled before its end."""

    def drain(self) -> None:
        """Settle what passed so far."""


class Prompts(Protocol):
    """Collects what repeats in prompts. It does not raise, and does not wait."""

    def add(self, subject: Subject, costs: Costs) -> None:
        """Count what the parts of one request's prompt cost."""

    def keep(self, texts: Mapping[str, str]) -> None:
        """Remember *texts*, by digest: those that repeat are kept."""


@dataclass(frozen=True, slots=True)
class Services:
    """
    Attributes:
        ledger: Whose settle, extend and cancel never raise.
        counter: Counts tokens.
        on_exchange_end: Told of each exchange once.
        events: Told of what happens outside of any one exchange.
        background: For what nobody waits for.
        now_ms: The time of day.
        responding: Responses in flight, for a drain.
        pricing: What models cost by the policy in force.
        prompts: Told of what repeats in prompts.
        lessons: Told of what estimates can learn.
        natives: Exchanges whose answers Envoy reads.
        admitting: Requests that came before a drain and have no answer yet.
        settling: Settles that the ledger has not answered yet.
        turns: For exchanges that have much to read at once.
        bodies: Reads request bodies that take long, off the loop.
        admission_seconds: Envoy gets an answer within this time.
    """

    ledger: Ledger
    counter: Counter
    on_exchange_end: OnExchangeEnd
    events: Events
    background: Background
    now_ms: Callable[[], int]
    pricing: Callable[[], Pricing] = lambda: NO_PRICING
    prompts: Prompts | None = None
    lessons: Lessons | None = None
    responding: set[Drainable] = field(default_factory=set)
    natives: NativeWatch = field(default_factory=lambda: NativeWatch(time.monotonic))
    admitting: set[object] = field(default_factory=set)
    settling: set[asyncio.Task[None]] = field(default_factory=set)
    turns: Turns = field(default_factory=Turns)
    bodies: BodyThread = field(default_factory=BodyThread)
    admission_seconds: float = 1.5
