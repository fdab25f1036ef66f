"""
Where rows are played: a provider of every API, a pod, and the ledger's oracle.

    async with Theatre.open() as theatre:
            call = await theatre.begin(row, row.steps())

Scripts go by the request's id, so many rows are on at once: `Theatre.played` plays all
that are given, demands that each was charged once at most and that nothing stays held,
and returns what came of one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

from tests.cases.apis import TOLD, Told
from tests.cases.app import Call, Reply, Request
from tests.cases.connection import request
from tests.cases.openai_apis import EMBEDDINGS
from tests.every_dialect.openai_rows import EMBEDDINGS_TOLD
from tests.every_dialect.row import Row
from tests.ledger_view import CLASSES
from tests.pod import KEY, Pod, policy, sha256, until
from tests.scripted_upstream import ReceivedRequest, ScriptedUpstream, Step, reply
from tokenweir.core.dialects import dialect_of
from tokenweir.core.usage import TokenUsage
from tokenweir.tokenizers.counter import TokenCounter

# Its requests are used up.
FULL_KEY = "sk-tw-full"
# Its tokens are: the last answer took more than there were.
SPENT_KEY = "sk-tw-spent"
SPENT_CAPACITY = 1_000_000
# Rows that are on at the same time: others need the machine as well.
AT_ONCE = 8
_REPORTED = 1_900_000
QUOTAS = (
    {"tokens_per_minute": 1, "capacity": 1_000_000_000},
    {"requests_per_minute": 1, "capacity": 1_000_000},
    {"concurrency": 100},
)
MODELS = {
    "openai": (
        *("gpt-image-1", "gpt-4o-transcribe", "whisper-1", "gpt-4o-mini-tts"),
        "omni-moderation-latest",
    ),
    "google": ("gemini-2.5-flash",),
    "vllm": ("qwen3-8b",),
    "bedrock": ("us.anthropic.claude-sonnet-4-5-20250929-v1:0",),
}


def _policy(port: int, others: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a policy with a provider of each API, all of them on *port*."""
    content = policy(port, quotas=[*QUOTAS])
    providers, models = content["providers"], content["models"]
    base = providers["openai"]
    providers["anthropic"]["unknown_paths"] = ["POST /v1/messages/batches"]
    providers["azure"] = base | {"dialect": "azure"}
    providers["google"] = base | {"dialect": "gemini"}
    providers["bedrock"] = base | {"dialect": "bedrock"}
    providers["vllm"] = dict(base)
    for provider, names in others.items():
        entry = {"provider": provider, "max_output_tokens": 16384}
        models |= dict.fromkeys(names, entry)
    models["deployed"] = {"provider": "azure", "upstream_model": "gpt-4o-prod"}
    content["default_providers"] = {"openai": "openai"}
    for name, limit in (
        ("full", {"requests_per_minute": 1, "capacity": 1}),
        ("spent", {"tokens_per_minute": 1, "capacity": SPENT_CAPACITY}),
    ):
        key = {"id": name, "sha256": sha256(f"sk-tw-{name}")}
        content["tenants"][name] = {"keys": [key], "quotas": [limit]}
    return content


Act = Callable[["Theatre", Row], Awaitable[Reply]]


@dataclass(frozen=True)
class Played:
    """
    What came of a row.

    Attributes:
        answer: What the app got.
        asked: What the provider got; None: nothing.
        record: What was charged; None: nothing was.
    """

    answer: Reply
    asked: ReceivedRequest | None
    record: Mapping[str, str] | None

    @property
    def sides(self) -> tuple[int, int]:
        """The input and output tokens that were charged."""
        assert self.record is not None
        record = self.record
        usage = TokenUsage(**{name: int(record[name]) for name in CLASSES})
        return usage.total_input_tokens, usage.total_output_tokens


@dataclass
class Theatre:
    """
    Attributes:
        upstream: Every provider.
        pod: What is tested.
        counter: Counts what was asked and said, as an oracle.
    """

    upstream: ScriptedUpstream
    pod: Pod
    counter: TokenCounter
    _scripts: dict[str, Sequence[Step]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _known: dict[Act, Mapping[str, Played | BaseException]] = field(
        default_factory=dict
    )

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, models: Mapping[str, Sequence[str]] = MODELS
    ) -> AsyncIterator[Self]:
        """Set it up, with *models* by provider, and tenants who have nothing left."""
        counter = TokenCounter()
        async with (
            ScriptedUpstream() as upstream,
            Pod.start(content := _policy(upstream.port, models)) as pod,
        ):
            theatre = cls(upstream, pod, counter)
            await asyncio.to_thread(counter.preload, list(content["models"]))
            upstream.choose(theatre.script_of)
            await theatre.use_up()
            yield theatre
        counter.close()

    def script_of(self, asked: ReceivedRequest) -> Sequence[Step]:
        """Return what is played to a request."""
        return self._scripts[asked.header("x-request-id") or ""]

    async def use_up(self) -> None:
        """Let the tenants who have little use it up."""
        for key, told in ((FULL_KEY, TOLD), (SPENT_KEY, Told(_REPORTED, 0))):
            steps = [reply(EMBEDDINGS.reply("AA==", told))]
            call = await self.begin(EMBEDDINGS_TOLD, steps, key=key)
            assert (await call.reply()).status == 200
        await until(lambda: self.pod.ledger.nothing_held("full", "spent"))

    async def begin(
        self, row: Row, steps: Sequence[Step], *, key: str = KEY, body: bytes = b""
    ) -> Call:
        """Ask what the row asks (or *body*); its provider will play *steps*."""
        name = f"row-{next(self._numbers)}"
        self._scripts[name] = steps
        headers = [row.speaker.credentials(key), row.sent, ("x-request-id", name)]
        raw = request(body or row.request, path=row.path, key=None, headers=headers)
        return await Call.begin(self.pod.port, Request(name, raw))

    def asked(self, request_id: str) -> ReceivedRequest | None:
        """Return what a provider got under that id, or None."""
        found = [
            each
            for each in self.upstream.requests
            if each.header("x-request-id") == request_id
        ]
        assert len(found) <= 1
        return found[0] if found else None

    async def played(
        self, act: Act, row: Row, rows: Sequence[Row], *, charged: bool = True
    ) -> Played:
        """
        Return what came of *row* in *act*, in which all *rows* are played at once.

        Raises: what broke it.
        """
        if act not in self._known:
            self._known[act] = await self._play(act, rows, charged=charged)
        found = self._known[act][row.name]
        if isinstance(found, BaseException):
            raise found
        return found

    async def owed(self, row: Row) -> tuple[int, int]:
        """Return the tokens that the row asks, and that have come where it breaks off."""
        dialect = dialect_of(row.path, (row.sent,))
        assert dialect is not None
        asked = dialect.parse_request(row.request)
        model = "gpt-4o-prod" if asked.model == "deployed" else asked.model
        into = await self.counter.count_prompt(asked.prompt, model, None)
        if not row.texts:
            return into.tokens, 0
        out_of = await self.counter.count_texts(row.texts, model, None)
        return into.tokens, out_of.tokens

    async def _play(
        self, act: Act, rows: Sequence[Row], *, charged: bool
    ) -> Mapping[str, Played | BaseException]:
        few = asyncio.Semaphore(AT_ONCE)

        async def one(row: Row) -> Reply:
            async with few:
                return await act(self, row)

        answers = await asyncio.gather(*map(one, rows), return_exceptions=True)
        ids = {each.request_id for each in answers if isinstance(each, Reply)}
        with contextlib.suppress(TimeoutError):  # whose is missing, tests tell
            if charged:
                await until(lambda: self._are_recorded(ids))
            await until(lambda: self.pod.ledger.nothing_held("acme", "full", "spent"))
        records = await self._records()
        return {
            row.name: answer
            if isinstance(answer, BaseException)
            else Played(
                answer, self.asked(answer.request_id), records.get(answer.request_id)
            )
            for row, answer in zip(rows, answers, strict=True)
        }

    async def _are_recorded(self, ids: AbstractSet[str]) -> bool:
        return ids <= (await self._records()).keys()

    async def _records(self) -> Mapping[str, Mapping[str, str]]:
        """Return the records by request: each request has one at most."""
        found = await self.pod.ledger.records()
        by_id = {each["request_id"]: each for each in found}
        assert len(by_id) == len(found)
        return by_id
