"""A ledger and a tokenizer that a test can hold up or break, at any point."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.examples import NOW_MS
from tests.recorder import Recorder
from tokenweir.core.calibration import Place
from tokenweir.core.counting import NO_HINTS, Hints
from tokenweir.core.dialects.base import Prompt
from tokenweir.core.hold import Denied, Granted, Hold, Settlement, Stale, Subject
from tokenweir.core.holding import State
from tokenweir.core.lesson import Lesson
from tokenweir.core.partition import all_tags
from tokenweir.core.prompt_costs import Costs
from tokenweir.core.usage import Source
from tokenweir.driver.background import Background
from tokenweir.driver.handoff import Handoff
from tokenweir.driver.services import Services
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.tagged import TaggedLedger

Point = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """Go on at once."""


def raising(error: BaseException) -> Point:
    """Return a point that raises *error*."""

    async def fail() -> None:
        raise error

    return fail


@dataclass
class Gate:
    """
    A point that waits to be opened.

    Attributes:
        reached: Somebody waits here.
        opened: Nobody waits any longer.
    """

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> None:
        self.reached.set()
        await self.opened.wait()


@dataclass
class Ledger:
    """
    The memory ledger, with a *before* and an *after* around each verb.

    Attributes:
        verbs: What was called, with the hold's id.
        settlements: What was settled.
    """

    store: MemoryStore
    before: dict[str, Point] = field(default_factory=dict)
    after: dict[str, Point] = field(default_factory=dict)
    verbs: list[tuple[str, str]] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._inner = TaggedLedger(self.store)

    async def reserve(self, hold: Hold) -> Granted | Denied | Stale:
        await self._enter("reserve", hold)
        outcome = await self._inner.reserve(hold)
        await self._leave("reserve")
        return outcome

    async def extend(self, hold: Hold, output_tokens: int) -> None:
        await self._enter("extend", hold)
        await self._inner.extend(hold, output_tokens)
        await self._leave("extend")

    async def settle(self, hold: Hold, settlement: Settlement) -> None:
        await self._enter("settle", hold)
        await self._inner.settle(hold, settlement)
        self.settlements.append(settlement)
        await self._leave("settle")

    async def cancel(self, hold: Hold, *, unclaimed_only: bool = False) -> bool:
        await self._enter("cancel", hold)
        was_nobodys = await self._inner.cancel(hold, unclaimed_only=unclaimed_only)
        await self._leave("cancel")
        return was_nobodys

    async def epoch(self) -> str:
        return await self._inner.epoch()

    async def ping(self) -> None:
        await self._inner.ping()

    async def close(self) -> None:
        await self._inner.close()

    async def _enter(self, verb: str, hold: Hold) -> None:
        self.verbs.append((verb, hold.id))
        await self.before.get(verb, nothing)()

    async def _leave(self, verb: str) -> None:
        await self.after.get(verb, nothing)()

    def count(self, verb: str) -> int:
        """Return how often *verb* was called."""
        return sum(name == verb for name, _ in self.verbs)

    async def reserved(self) -> dict[str, int]:
        """Return what is reserved, by limit, and the holds and slots, by tag."""
        found: dict[str, int] = {}
        for tag in all_tags():
            snapshot = await self.store.snapshot(tag)
            for key, bucket in snapshot.buckets.items():
                found[key] = bucket.reserved
            for key, slots in snapshot.slots.items():
                found[key] = len(slots.until_ms)
            held = [h for h in snapshot.holdings.values() if h.state is State.HELD]
            found[f"{tag} holds"] = len(held)
        return {name: number for name, number in found.items() if number}


@dataclass
class Count:
    """A number of tokens."""

    tokens: int = 30
    source: Source = Source.COUNTED
    text_tokens: int = 0
    uncorrected: int = 0


@dataclass
class Counter:
    """
    Counts 30 tokens, after a *point*.

    Attributes:
        asked: Each prompt or text that was to be counted, and as what.
    """

    point: Point = nothing
    count: Count = field(default_factory=Count)
    asked: list[tuple[object, ...]] = field(default_factory=list)

    async def count_prompt(
        self,
        prompt: Prompt,
        model: str,
        tokenizer: str | None,
        hints: Hints = NO_HINTS,  # noqa: ARG002 - the counter's business
    ) -> Count:
        self.asked.append((prompt, model, tokenizer))
        await self.point()
        return self.count

    async def count_texts(
        self,
        texts: Sequence[str],
        model: str,
        tokenizer: str | None,
        *,
        dropped_bytes: int = 0,
        place: Place | None = None,  # noqa: ARG002 - ditto
    ) -> Count:
        self.asked.append((texts, model, tokenizer, dropped_bytes))
        await self.point()
        return self.count


@dataclass
class Prompts:
    """
    An audit of prompts that remembers what it is told.

    Attributes:
        costs: What parts cost, and whose they were.
        texts: By digest.
    """

    costs: list[tuple[Subject, Costs]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, subject: Subject, costs: Costs) -> None:
        """Note *costs*."""
        self.costs.append((subject, costs))

    def keep(self, texts: Mapping[str, str]) -> None:
        """Note *texts*."""
        self.texts.update(texts)


@dataclass
class Lessons:
    """Remembers what could be learned."""

    heard: list[Lesson] = field(default_factory=list)

    def learn(self, lesson: Lesson) -> None:
        """Note *lesson*."""
        self.heard.append(lesson)


class Kit:
    """
    Services over the fakes.

    Attributes:
        now_ms: The time of day; a test moves it.
        hold_ids: Ids for `hold_id`, each once.
    """

    def __init__(self, *, admission_seconds: float = 30.0) -> None:
        self.now_ms = NOW_MS
        self.recorder = Recorder()
        self.counter = Counter()
        store = MemoryStore(self.recorder, now_ms=lambda: self.now_ms)
        self.ledger = Ledger(store)
        self.background = Background(self.recorder)
        self.handoff = Handoff(self.ledger, self.recorder, self.background)
        self.prompts = Prompts()
        self.lessons = Lessons()
        self.services = Services(
            ledger=self.ledger,
            counter=self.counter,
            on_exchange_end=self.recorder,
            events=self.recorder,
            background=self.background,
            now_ms=lambda: self.now_ms,
            prompts=self.prompts,
            lessons=self.lessons,
            admission_seconds=admission_seconds,
        )
        self._holds = 0

    def hold_id(self) -> str:
        """Return a fresh id."""
        self._holds += 1
        return f"0-{NOW_MS:x}-{self._holds}"

    async def quiet(self) -> None:
        """Wait until nothing is left to be done."""
        assert await self.background.join(30.0) == 0
