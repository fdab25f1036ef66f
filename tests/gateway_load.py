"""
Calls through a pod at a steady rate, and what its ledger must say of them after faults.

    load = GatewayLoad(pod, upstream, tenants=("a", "b"))
    async with load.running():
        ... break something ...
    await load.check()

Each call has a number, which its record names as the end user: so each answer can be
looked for in the ledger, one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.cases.apis import OPENAI, Told, story
from tests.cases.connection import Answer, Connection, request
from tests.cases.scene import key_of
from tests.pod import PATIENCE_SECONDS, PATIENT_ENVOY, Pod, until
from tests.scripted_upstream import (
    ReceivedRequest,
    ScriptedUpstream,
    Step,
    event_stream,
    reply,
)
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.core.holding import State
from tokenweir.core.partition import user_code
from tokenweir.core.record import CLASSES
from tokenweir.ledger.store import Snapshot

RATE_PER_SECOND = 200
# Calls come at that rate, answered or not; while a ledger is away each takes 0.4 s. But a
# machine that is too slow for it must not be drowned: there may be so many at once, or
# those of so many seconds at the pace at which it answers.
MOST_AT_ONCE = 60
MOST_SECONDS = 0.8
# Of each call one in so many is streamed, and one in so many stays open for a while.
STREAMED, LONG = 3, 30
LEDGER_TIMEOUT_MS = 200
# Two tags, and what Envoy waits for a processor: nobody hears of anything later.
ANSWER_SECONDS = 2 * LEDGER_TIMEOUT_MS / 1_000 + (
    PATIENT_ENVOY["response_timeout_ms"] / 1_000
)
# Of `tests.cases.priced.LARGE`, in nano-USD.
INPUT_PRICE, OUTPUT_PRICE = 4_000, 20_000

_OUTSTANDING = "tokenweir_holds_outstanding"


def told(number: int) -> Told:
    """Return what the provider reports of a call."""
    return Told(20 + number % 50, 5 + number % 7)


def script_of(received: ReceivedRequest) -> Sequence[Step]:
    """Return what the provider plays to a call."""
    body = json.loads(received.body)
    number = int(body["user"])
    if not body.get("stream"):
        return [reply(OPENAI.reply("Hi.", told(number)))]
    pause_seconds = 0.1 if number % LONG == 0 else 0.0
    return event_stream(story(OPENAI, told=told(number)), pause_seconds)


@dataclass
class Told200:
    """A call that was answered: whose, and how many tokens."""

    tenant: str
    usage: Told


@dataclass(repr=False)
class GatewayLoad:
    """
    What calls.

    Attributes:
        pod: What is called.
        upstream: The provider.
        tenants: Who call by turns; their keys are `tests.cases.scene.key_of` them.
        answered: By number, the calls that had a whole answer.
        refused: By number, whose call was refused.
        statuses: How often each came, with the reason.
        slowest_seconds: The longest wait for a refusal, or for the answer to a call
            that is not streamed.
    """

    pod: Pod
    upstream: ScriptedUpstream
    tenants: Sequence[str]
    answered: dict[int, Told200] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    statuses: Counter[tuple[int, str]] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    _number: int = 0
    _seconds: float = 0.0
    _ended: deque[float] = field(default_factory=lambda: deque(maxlen=RATE_PER_SECOND))
    _seen: str = ""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _idle: list[Connection] = field(default_factory=list)

    @property
    def pace(self) -> float:
        """How many calls a second there were."""
        return self._number / max(self._seconds, 0.001)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Call as long as the context lasts, and have all calls answered at its end."""
        self.upstream.choose(script_of)
        async with contextlib.AsyncExitStack() as connections:
            over = asyncio.Event()
            calling = asyncio.create_task(self._call_until(over, connections))
            try:
                yield
            finally:
                over.set()
                await calling
                self._idle.clear()

    async def goes_on(self, count: int = 100) -> None:
        """Wait until *count* more calls have been answered."""
        least = len(self.answered) + count
        await until(lambda: len(self.answered) >= least, 2 * PATIENCE_SECONDS)

    async def meets_faults(self) -> None:
        """Wait until a call is refused."""
        before = len(self.refused)
        await until(lambda: len(self.refused) > before, 2 * PATIENCE_SECONDS)

    async def _call_until(
        self, over: asyncio.Event, connections: contextlib.AsyncExitStack
    ) -> None:
        began = due = time.monotonic()
        while not over.is_set():
            if len(self._tasks) < self._most_at_once():
                task = asyncio.create_task(self._call(self._number, connections))
                self._tasks.add(task)
                task.add_done_callback(self._over)
                self._number += 1
            # What could not be begun in time is not made up for later, all at once.
            due = max(due + 1 / RATE_PER_SECOND, time.monotonic() - MOST_SECONDS)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.gather(*self._tasks)
        self._seconds += time.monotonic() - began

    def _most_at_once(self) -> int:
        now = time.monotonic()
        lately = sum(at > now - MOST_SECONDS for at in self._ended)
        return max(MOST_AT_ONCE, lately)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._ended.append(time.monotonic())

    async def _call(self, number: int, connections: contextlib.AsyncExitStack) -> None:
        tenant = self.tenants[number % len(self.tenants)]
        is_streamed = number % STREAMED == 0
        data = request(
            OPENAI.request(stream=is_streamed, max_tokens=50, user=str(number)),
            key=key_of(tenant),
        )
        if self._idle:
            app = self._idle.pop()
        else:
            opening = Connection.open(self.pod.port)
            app = await connections.enter_async_context(opening)
        await app.send(data)
        answer = await app.answer()
        self._idle.append(app)
        self._note(number, tenant, answer, is_streamed=is_streamed)

    def _note(
        self, number: int, tenant: str, answer: Answer, *, is_streamed: bool
    ) -> None:
        self.statuses[answer.status, answer.refusal or ""] += 1
        if answer.status != 200 or not is_streamed:
            self.slowest_seconds = max(self.slowest_seconds, answer.seconds)
        if answer.status == 200:
            end = b"[DONE]" if is_streamed else b"total_tokens"
            assert end in answer.body
            self.answered[number] = Told200(tenant, told(number))
        else:
            require_shape(answer)
            self.refused[number] = tenant

    # === what must be true in the end ==========================================

    async def check(self) -> None:
        """
        Demand that each call is charged once, or not at all if it was refused.

        And that nothing is held, no slot is taken, and levels say what records do.
        """
        print(f"{self.pace:.0f}/s, {self.slowest_seconds:.2f} s", self.statuses)  # noqa: T201
        with self._telling():
            await until(self._is_over, 1.5 * PATIENCE_SECONDS)
        assert self.slowest_seconds < ANSWER_SECONDS
        self._require_statuses()
        for tenant in self.tenants:
            snapshot = await self.pod.ledger.snapshot(tenant)
            require_nothing_reserved(snapshot)
            self._require_charges(tenant, snapshot)

    def _require_statuses(self) -> None:
        faults = {
            str(line["error"])
            for processor in self.pod.processors
            for line in processor.lines()
            if line["event"] == "fault" and line["where"] == "request"
        }
        odd = {each for each in self.statuses if each[0] not in {200, 429, 503}}
        if faults == {"TimeoutError"}:  # a machine had no time even to refuse
            odd.discard((500, "internal_fault"))
        assert not odd, (self.statuses, faults)

    async def _is_over(self) -> bool:
        """Tell if nothing is held, and every call that was answered has its record."""
        with contextlib.suppress(LedgerUnavailableError):
            return await self._is_told()
        return False  # the test's own connections were cut as well

    async def _is_told(self) -> bool:
        outstanding = float(await self.pod.ledger.outstanding())
        for processor in self.pod.processors:
            outstanding += await asyncio.to_thread(processor.metric, _OUTSTANDING)
        reported = 0
        for tenant in self.tenants:
            records = await self.pod.ledger.records(tenant)
            reported += sum(record["source"] == "reported" for record in records)
        self._seen = f"{outstanding:.0f} held, {reported} of {len(self.answered)}"
        return not outstanding and reported >= len(self.answered)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise TimeoutError(self._seen) from error

    def _require_charges(self, tenant: str, snapshot: Snapshot) -> None:
        last: dict[str, Mapping[str, str]] = {}
        for record in snapshot.records:
            last[record["hold"]] = record
        charges: dict[str, list[tuple[int, int]]] = {}
        for record in last.values():
            tokens = sum(int(record[name]) for name in CLASSES)
            cost = int(record["cost_nanousd"])
            if tokens or cost:  # one that was taken back says 0 of all
                charges.setdefault(record["user"], []).append((tokens, cost))
        due = {
            user_code(tenant, str(number)): [charge_of(each.usage)]
            for number, each in self.answered.items()
            if each.tenant == tenant
        }
        wrong = {
            user for user in charges.keys() | due if charges.get(user) != due.get(user)
        }
        assert not wrong, [(charges.get(user), due.get(user)) for user in wrong]
        spent = sum(each.spent for each in snapshot.spendings.values())
        assert spent == sum(cost for [(_, cost)] in due.values())
        # Of one exchange there is one record, unless the reaper was there before.
        for record in snapshot.records:
            assert record["correction"] == "0" or record["hold"] in last


def charge_of(usage: Told) -> tuple[int, int]:
    """Return the tokens, and what they cost in nano-USD."""
    cost = usage.input * INPUT_PRICE + usage.output * OUTPUT_PRICE
    return usage.input + usage.output, cost


def require_shape(answer: Answer) -> None:
    """Demand that a refusal says whose it is, why, and when to come back."""
    assert answer.refusal, answer
    retry_after = answer.header("retry-after")
    assert retry_after is not None
    assert int(retry_after) >= 1
    error: dict[str, Any] = answer.json()["error"]
    assert error["message"]
    assert error["tokenweir"]["retryable"] is True


def require_nothing_reserved(snapshot: Snapshot) -> None:
    """Demand that no limit has anything in flight."""
    assert not snapshot.expiries
    assert not any(bucket.reserved for bucket in snapshot.buckets.values())
    assert not any(spending.reserved for spending in snapshot.spendings.values())
    assert not any(slots.until_ms for slots in snapshot.slots.values())
    assert not [h for h in snapshot.holdings.values() if h.state is State.HELD]
