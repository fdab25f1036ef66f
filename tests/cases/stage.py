"""
Where cases are tried: a provider that plays scripts, a pod, and the ledger's oracle.

    reply, settled = await stage.stream(api, story(api))
    assert settled.usage == TOLD.usage

Whatever an exchange was, `Stage.settled` demands that it was charged once, that the
tokens which left the bucket are the record's, and that nothing stays held.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from tests.cases.apis import QUESTION, TOLD, Api
from tests.cases.app import Call, Leave, Reply, Request, ask, request
from tests.ledger_view import CLASSES
from tests.pod import Pod, policy, until
from tests.scripted_upstream import (
    Hold,
    ScriptedUpstream,
    Step,
    event_stream,
    head,
    reply,
)
from tokenweir.core.bucket import UNITS_PER_TOKEN
from tokenweir.core.dialects.base import Message, Prompt
from tokenweir.core.holding import State
from tokenweir.core.usage import TokenUsage
from tokenweir.tokenizers.counter import TokenCounter

SECONDS_TO_SETTLE = 20.0
STREAM_HEAD = head(
    headers=(("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))
)
# It refills by a token a minute: what leaves it can be told exactly.
CAPACITY = 1_000_000_000
QUOTAS = ({"requests_per_minute": 1, "capacity": 1_000_000}, {"concurrency": 99})
_TOKENS_QUOTA = "acme.tokens_per_minute"


@dataclass(frozen=True)
class Settled:
    """
    What was charged for one exchange.

    Attributes:
        usage: By class.
        source: Where the figures come from.
        outcome: How it ended.
        record: All of it.
    """

    usage: TokenUsage
    source: str
    outcome: str
    record: Mapping[str, str]

    @property
    def sides(self) -> tuple[int, int]:
        """Input and output tokens."""
        return self.usage.total_input_tokens, self.usage.total_output_tokens


@dataclass
class Stage:
    """
    Attributes:
        upstream: The provider.
        pod: What is tested.
        counter: Counts what was said, as an oracle for cut streams.
        capacity: Tokens that a full bucket holds.
    """

    upstream: ScriptedUpstream
    pod: Pod
    counter: TokenCounter
    capacity: int = CAPACITY
    _level_units: int = 0
    _calls: list[Call] = field(default_factory=list)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        *,
        capacity: int = CAPACITY,
        quotas: Sequence[Mapping[str, int]] = QUOTAS,
    ) -> AsyncIterator[Self]:
        """Set it up, with *quotas* for the tenant beside the one on tokens."""
        tokens = {"tokens_per_minute": 1, "capacity": capacity}
        counter = TokenCounter()
        async with ScriptedUpstream() as upstream:
            content = policy(upstream.port, quotas=[tokens, *quotas])
            async with Pod.start(content) as pod:
                stage = cls(upstream, pod, counter, capacity)
                yield stage
                stage.leave()
        counter.close()

    # === calling ===============================================================

    async def begin(self, api: Api, body: bytes, *headers: str) -> Call:
        """Send *body* to the API, and come back with the call under way."""
        await self.watch()
        call = await Call.begin(self.pod.port, request(api.path, body, *headers))
        self._calls.append(call)
        return call

    async def watch(self) -> None:
        """Note how the bucket stands; calls that are open are left."""
        self.leave()
        self._level_units = await self.level_units()

    def leave(self) -> None:
        """Hang up whatever a test that broke has left open."""
        while self._calls:
            self._calls.pop().leave(Leave.CLOSE)

    async def ask(
        self, api: Api, steps: Sequence[Step], body: bytes, *headers: str
    ) -> tuple[Reply, Settled]:
        """Play *steps* to a request with *body*; return what came of it."""
        self.upstream.play(*steps)
        call = await self.begin(api, body, *headers)
        answer = await call.reply()
        return answer, await self.settled(call.request_id)

    async def stream(
        self, api: Api, pieces: Sequence[bytes], pause_seconds: float = 0.0
    ) -> tuple[Reply, Settled]:
        """
        Stream *pieces*, each in a chunk of its own, to an app that asked for usage.

        It must get every byte.
        """
        steps = event_stream(pieces, pause_seconds)
        answer, settled = await self.ask(api, steps, api.request())
        assert answer.status == 200
        assert answer.whole
        assert answer.body == b"".join(pieces)
        return answer, settled

    async def stream_unasked(
        self, api: Api, pieces: Sequence[bytes], extra: bytes, pause_seconds: float = 0
    ) -> Settled:
        """
        Stream *pieces* to an app that did not ask for usage.

        It must get every byte but *extra*, the event that only we asked for (if any);
        and that one too where the API sends it in any case.
        """
        steps = event_stream(pieces, pause_seconds)
        answer, settled = await self.ask(api, steps, api.request(asked=False))
        sent = b"".join(pieces)
        assert not extra or sent.count(extra) == 1
        assert answer.whole
        assert answer.body == (sent.replace(extra, b"") if api.asks_usage else sent)
        return settled

    async def send(self, asked: Request) -> Reply:
        """Send *asked* and return its response."""
        await self.watch()
        return await ask(self.pod.port, asked)

    # === the oracle ============================================================

    async def settled(
        self, request_id: str, seconds: float = SECONDS_TO_SETTLE
    ) -> Settled:
        """
        Return what was charged for the only exchange since the last `watch`.

        It was charged once, the bucket lost as much, and nothing is held.
        """
        await until(partial(self._has_record, request_id), seconds)
        await until(self.pod.ledger.nothing_held, seconds)
        [record] = await self.records(request_id)
        usage = TokenUsage(**{name: int(record[name]) for name in CLASSES})
        drawn = self._level_units - await self.level_units()
        assert round(drawn / UNITS_PER_TOKEN) == usage.total_tokens
        return Settled(usage, record["source"], record["outcome"], record)

    async def level_units(self) -> int:
        """Return how the tenant's tokens stand, in 1/60,000."""
        for name, bucket in (await self.pod.ledger.snapshot()).buckets.items():
            if name.startswith(_TOKENS_QUOTA):
                return bucket.level_units
        return self.capacity * UNITS_PER_TOKEN  # nobody took any

    async def reserved(self, request_id: str) -> tuple[int, int]:
        """Return the input and output tokens that are held for the request."""
        async with asyncio.timeout(SECONDS_TO_SETTLE):
            while True:
                holdings = (await self.pod.ledger.snapshot()).holdings.values()
                for holding in holdings:
                    known = holding.labels.get("request_id") == request_id
                    if known and holding.state is State.HELD:
                        amounts = holding.amounts
                        return amounts.input_tokens, amounts.output_tokens
                await asyncio.sleep(0.01)

    async def reserves(self, api: Api, body: bytes) -> tuple[int, int]:
        """Return the input and output tokens that are held while *body* is answered."""
        gate = asyncio.Event()
        self.upstream.play(Hold(gate), reply(api.reply("Done.")))
        call = await self.begin(api, body)
        held = await self.reserved(call.request_id)
        gate.set()
        answer = await call.reply()
        assert answer.status == 200
        assert (await self.settled(call.request_id)).usage == TOLD.usage
        return held

    async def owed(self, api: Api, texts: Sequence[str]) -> tuple[int, int]:
        """Return the tokens of the usual request, and of *texts*, by our counter."""
        await asyncio.to_thread(self.counter.preload, [api.model])
        prompt = Prompt((Message("user", (QUESTION,)),))
        asked = await self.counter.count_prompt(prompt, api.model, None)
        passed = await self.counter.count_texts(texts, api.model, None)
        return asked.tokens, passed.tokens

    async def records(self, request_id: str) -> list[Mapping[str, str]]:
        """Return all that was written of the request: once is right."""
        records = (await self.pod.ledger.snapshot()).records
        return [each for each in records if each["request_id"] == request_id]

    async def _has_record(self, request_id: str) -> bool:
        return bool(await self.records(request_id))
